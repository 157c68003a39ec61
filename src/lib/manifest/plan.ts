import {isDeepStrictEqual} from 'node:util'
import {ZaelError} from '../core/errors.js'
import type {Limit} from '../core/limits/limit.js'
import {formatLimit} from '../core/limits/limit-text.js'
import {chunksOf} from '../dynamo/concurrency.js'
import {rebased} from '../repository/limits/boosted-limits.js'
import {walkConfigs} from '../repository/limits/limit-pages.js'
import type {SeenProvisioner} from '../repository/limits/provisioner.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {AccessSwitch, ConfigRecord, ConfigScope, OnUnavailable, Policies} from '../schema/config-record.js'
import {
  byText,
  type EntityRecordChange,
  type LiveEntities,
  limitsWithoutBoosts,
  type Manifest,
  statesRecord,
  withoutCopy,
} from './manifest.js'
import {liveEntity, planEntities} from './plan-entities.js'
import {ScopeSet, type StatedScope, scopeName, statedAt, statedScopes} from './scopes.js'

interface Change<T> {
  readonly before: T | undefined
  readonly after: T | undefined
}

export interface ScopeChange {
  readonly kind: 'limits'
  readonly action: 'create' | 'update' | 'delete'
  readonly scope: ConfigScope
  readonly before: readonly Limit[]
  readonly after: readonly Limit[]
  /** Absent if unchanged; system level only. */
  readonly onUnavailable?: Change<OnUnavailable>
  /** Absent if unchanged; not at the system level. */
  readonly access?: Change<AccessSwitch>
  readonly cascade?: Change<boolean>
  /** As stated, changed or not; empty for a deletion. */
  readonly policies: Policies
  /** The limits exist but were not managed. */
  readonly adopts: boolean
  /** Deletion of a temporary copy: removes the policies, keeps the boost. */
  readonly leavesCopy?: boolean
}

export type PlannedChange = ScopeChange | EntityRecordChange

export type PlanCounts = Readonly<Record<'create' | 'update' | 'delete' | 'adopt' | 'unchanged', number>>

export interface Plan {
  readonly manifest: Manifest
  /** In the order of application. */
  readonly changes: readonly PlannedChange[]
  readonly counts: PlanCounts
  readonly seen: SeenProvisioner
  readonly boosts: readonly PlannedBoost[]
}

/** Read-only. Deletes only managed scopes. Throws when a parent does not exist. */
export async function planManifest(
  repository: NamespaceRepository,
  manifest: Manifest,
  options: ReadOptions = {},
): Promise<Plan> {
  const seen = await repository.provisioner.get(options.signal)
  const managed = ScopeSet.of(seen.record)
  const planned = new Map<string, ScopeChange>()
  const boosts: PlannedBoost[] = []
  const compare = (scope: ConfigScope, record: ConfigRecord | undefined) => {
    const stated = statedAt(manifest, scope)
    const change = stated ? planScope(manifest, {scope, ...stated}, record, managed) : planDelete(scope, record)
    if (change) planned.set(scopeName(scope), change)
    if (record) boosts.push(...boostsAfter(record, change))
  }
  const live = await compareLive(repository, manifest, managed, compare, options)
  const sets: ScopeChange[] = []
  let [stated, adopted] = [0, 0]
  for (const {scope} of statedScopes(manifest)) {
    stated++
    const change = planned.get(scopeName(scope))
    if (change) sets.push(change)
    else if (!managed.has(scope)) adopted++
  }
  const entities = planEntities(manifest, live, 'manifest')
  const deletes = deletesOf(planned)

  const changes = [...sets, ...entities.changes, ...deletes]
  const count = (action: PlannedChange['action']) => changes.filter(change => change.action === action).length
  const counts = {
    create: count('create'),
    update: count('update'),
    delete: deletes.length,
    adopt: adopted + sets.filter(change => change.adopts).length,
    unchanged: stated - sets.length + entities.unchanged,
  }
  return {manifest, changes, counts, seen, boosts}
}

/** Scopes that match and become managed. A generator, because there may be very many. */
export function* adoptedScopes({manifest, changes, seen}: Plan): Generator<ConfigScope, void> {
  const known = ScopeSet.of(seen.record)
  for (const change of changes) if (change.kind === 'limits') known.add(change.scope)
  for (const {scope} of statedScopes(manifest)) if (!known.has(scope)) yield scope
}

function planScope(
  manifest: Manifest,
  {scope, limits: after, policies}: StatedScope,
  stored: ConfigRecord | undefined,
  managed: ScopeSet,
): ScopeChange | undefined {
  const record = withoutCopy(stored)
  const before = limitsWithoutBoosts(record)
  const policy = scope.level === 'system' ? manifest.system?.onUnavailable : undefined
  const changesPolicy = policy !== undefined && policy !== record?.onUnavailable
  const changed = policyChanges(record, {...record, ...policies})
  if (isDeepStrictEqual(before, after) && !changesPolicy && Object.keys(changed).length === 0) return undefined
  const exists = isConfigured(record)
  return {
    kind: 'limits',
    action: exists ? 'update' : 'create',
    scope,
    before,
    after,
    ...(changesPolicy && {onUnavailable: {before: record?.onUnavailable, after: policy}}),
    ...changed,
    policies,
    adopts: exists && !managed.has(scope),
  }
}

function policyChanges(before: Policies | undefined, after: Policies): Pick<ScopeChange, 'access' | 'cascade'> {
  return {
    ...(before?.access !== after.access && {access: {before: before?.access, after: after.access}}),
    ...(before?.cascade !== after.cascade && {cascade: {before: before?.cascade, after: after.cascade}}),
  }
}

function planDelete(scope: ConfigScope, stored: ConfigRecord | undefined): ScopeChange | undefined {
  const record = withoutCopy(stored)
  if (!record || !isConfigured(record)) return undefined
  // Removing a deleted entity from the file does not lift its block.
  if (record.deletedAt !== undefined && record.limits.length === 0) return undefined
  const {limits: before, onUnavailable: policy} = record
  const onUnavailable = policy === undefined ? {} : {onUnavailable: {before: policy, after: undefined}}
  const changed = {...onUnavailable, ...policyChanges(record, {})}
  const leavesCopy = record !== stored
  const deletion = {kind: 'limits', action: 'delete', scope, before, after: [], policies: {}, adopts: false} as const
  return {...deletion, ...changed, ...(leavesCopy && {leavesCopy})}
}

/** Throws unless the stored configuration is as the plan saw it, or already as the plan sets it. */
export function requireAsPlanned(change: ScopeChange, stored: ConfigRecord | undefined): void {
  const record = withoutCopy(stored)
  const isAs = (side: 'before' | 'after') =>
    isDeepStrictEqual(limitsWithoutBoosts(record), change[side]) &&
    (['onUnavailable', 'access', 'cascade'] as const).every(name => {
      const stated = change[name]
      if (stated) return record?.[name] === stated[side]
      // A deletion removes all settings. Other changes keep settings that are not stated.
      if (change.action === 'delete') return record?.[name] === undefined
      return name === 'onUnavailable' || !(name in change.policies) || record?.[name] === change.policies[name]
    })
  if (isAs('before') || isAs('after')) return
  const {access, cascade, onUnavailable} = record ?? {}
  throw changedSincePlan([
    ...limitsWithoutBoosts(record).map(formatLimit),
    ...Object.entries({access, cascade, 'on unavailable': onUnavailable}).flatMap(([name, value]) =>
      value === undefined ? [] : [`${name} ${value}`],
    ),
  ])
}

export function changedSincePlan(now: readonly string[]): ZaelError {
  const message = `another client has changed it since the plan. Now: ${now.join(', ') || 'no limits'}`
  return new ZaelError('conflict', 'manifest.outdated', message, {details: {now}})
}

/** Most specific first, so that the next level always applies: names begin with entity < resource < system. */
function deletesOf(planned: ReadonlyMap<string, ScopeChange>): ScopeChange[] {
  return [...planned]
    .filter(([, {action}]) => action === 'delete')
    .sort(([a], [b]) => byText(a, b))
    .map(([, change]) => change)
}

/** The system's item may hold only settings of other tools, or the audit retention. */
function isConfigured(record: ConfigRecord | undefined): boolean {
  if (record?.scope.level !== 'system') return record !== undefined
  return record.limits.length > 0 || record.onUnavailable !== undefined
}

export interface ManifestDifference {
  /** `extra`: managed but no longer stated. */
  readonly kind: 'missing' | 'changed' | 'extra'
  /** `before` is the table, `after` the file. */
  readonly change: PlannedChange
}

const DIFFERENCE_KINDS = {create: 'missing', update: 'changed', delete: 'extra'} as const

export interface ManifestDrift extends Pick<Plan, 'manifest' | 'boosts'> {
  readonly differences: readonly ManifestDifference[]
  /** Scopes with limits or policies that are neither stated nor managed; an apply ignores them. */
  readonly unlisted: number
}

/** Read-only. A boost is not a difference. */
export async function diffManifest(
  repository: NamespaceRepository,
  manifest: Manifest,
  options: ReadOptions = {},
): Promise<ManifestDrift> {
  const {changes, boosts, seen} = await planManifest(repository, manifest, options)
  const differences = changes.map(change => ({kind: DIFFERENCE_KINDS[change.action], change}))
  const managed = ScopeSet.of(seen.record)
  let unlisted = 0
  for await (const record of walkConfigs(repository.configs, {})) {
    const isListed = statedAt(manifest, record.scope) !== undefined || managed.has(record.scope)
    if (!isListed && planDelete(record.scope, record)) unlisted++
  }
  return {manifest, boosts, differences, unlisted}
}

export interface PlannedBoost {
  readonly scope: ConfigScope
  /** As after an apply: its base is what the file states. */
  readonly limit: Limit
  /** An apply ends the boost: the file states no such limit for the scope, or one of another kind. */
  readonly isEnded: boolean
}

/** Boosts continue until they expire. Copies for a boost are ignored unless the file states limits for the scope. */
function boostsAfter(record: ConfigRecord, change: {readonly after: readonly Limit[]} | undefined): PlannedBoost[] {
  const {scope, limits, copiedUntilMs} = record
  const boosted = limits.filter(({boost}) => boost && !boost.isEnded)
  const isLeft = !change || (copiedUntilMs !== undefined && change.after.length === 0)
  if (isLeft) return boosted.map(limit => ({scope, limit, isEnded: false}))
  const after = rebased(change.after, limits)
  return boosted.map(limit => {
    const goesOn = after.find(({name, boost}) => boost && name === limit.name)
    return {scope, limit: goesOn ?? limit, isEnded: goesOn === undefined}
  })
}

// 10 requests of 100 keys, 4 at a time.
const RECORDS_PER_REPORT = 1000

export interface ReadOptions {
  readonly onProgress?: ((progress: {readonly done: number; readonly total: number}) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** Reads in batches. Passes config records to `compare` without keeping them; keeps only entities that differ. */
async function compareLive(
  repository: NamespaceRepository,
  manifest: Manifest,
  managed: ScopeSet,
  compare: (scope: ConfigScope, record: ConfigRecord | undefined) => void,
  {onProgress, signal}: ReadOptions,
): Promise<LiveEntities> {
  // Iterate twice to get the total: lists of 100,000 scopes would dominate the memory use.
  const [scopes, entityIds] = [() => comparedScopes(manifest, managed), () => comparedEntities(manifest)]
  const total = countOf(scopes()) + countOf(entityIds())
  let done = 0
  const report = (count: number) => {
    done += count
    onProgress?.({done, total})
  }
  for await (const chunk of chunksOf(scopes(), RECORDS_PER_REPORT)) {
    const records = await repository.configs.getMany(chunk, signal)
    for (const [at, scope] of chunk.entries()) compare(scope, records[at])
    report(chunk.length)
  }
  const live = new Map<string, ReturnType<typeof liveEntity>>()
  for await (const chunk of chunksOf(entityIds(), RECORDS_PER_REPORT)) {
    const records = new Map((await repository.entities.getMany(chunk, signal)).map(record => [record.entity, record]))
    // Use the manifest's id strings, so that the records' strings can be freed.
    for (const id of chunk) {
      const record = records.get(id)
      if (record) live.set(id, liveEntity(record, manifest.entities.get(id)))
    }
    report(chunk.length)
  }
  return live
}

function* comparedScopes(manifest: Manifest, managed: ScopeSet): Generator<ConfigScope, void> {
  for (const {scope} of statedScopes(manifest)) yield scope
  for (const scope of managed) if (!statedAt(manifest, scope)) yield scope
}

function* comparedEntities({entities}: Manifest): Generator<string, void> {
  const parents = new Set<string>()
  for (const [id, entity] of entities) {
    if (statesRecord(entity)) yield id
    if (typeof entity.parent === 'string') parents.add(entity.parent)
  }
  for (const parent of parents) {
    const stated = entities.get(parent)
    if (!stated || !statesRecord(stated)) yield parent
  }
}

function countOf(elements: Iterable<unknown>): number {
  let count = 0
  for (const _ of elements) count++
  return count
}
