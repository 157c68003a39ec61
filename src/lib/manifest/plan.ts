import {isDeepStrictEqual} from 'node:util'
import {InvalidInput} from '../core/errors.js'
import type {Limit} from '../core/limit.js'
import type {SeenProvisioner} from '../repository/provisioner.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigRecord, ConfigScope, OnUnavailable} from '../schema/config-record.js'
import {itemBytes} from '../schema/item-size.js'
import {type LiveState, type ReadOptions, readLiveState} from './live-state.js'
import {byText, type Manifest} from './manifest.js'
import {type EntityRecordChange, planEntities} from './plan-entities.js'
import {ScopeSet, scopeName, statedLimits} from './scopes.js'

/** DynamoDB's bound on one item. */
export const MAX_ITEM_BYTES = 400 * 1024

/** For the revision, the hash and the time of a record that has none yet, and attributes of other tools. */
const RESERVED_BYTES = 1024

/** Limits of one scope that are to be set or deleted. */
export interface ScopeChange {
  readonly kind: 'limits'
  readonly action: 'create' | 'update' | 'delete'
  readonly scope: ConfigScope
  readonly before: readonly Limit[]
  readonly after: readonly Limit[]
  /** The outage policy, where it changes; system level only. */
  readonly onUnavailable?: {readonly before: OnUnavailable | undefined; readonly after: OnUnavailable | undefined}
  /** Something else made it; from now on it is managed. */
  readonly adopts: boolean
}

export type PlannedChange = ScopeChange | EntityRecordChange

export interface PlanCounts {
  readonly create: number
  readonly update: number
  readonly delete: number
  /** Scopes of others that become managed, changed or not. */
  readonly adopt: number
  /** Scopes and entity records that are as the file states them. */
  readonly unchanged: number
}

/** What it takes to make the table as a manifest states it. */
export interface Plan {
  readonly manifest: Manifest
  /** In the order in which they are applied. Empty: there is nothing to do. */
  readonly changes: readonly PlannedChange[]
  /** As stated already, and managed from now on. */
  readonly adopted: readonly ConfigScope[]
  readonly counts: PlanCounts
  /** What was managed when the plan was made. */
  readonly seen: SeenProvisioner
}

/**
 * Compares a manifest with the table, and reads only. Deletes are planned only for what the provisioner's record says is
 * managed. Throws when a parent does not exist or when the record would not fit its item.
 */
export async function planManifest(
  repository: NamespaceRepository,
  manifest: Manifest,
  options: ReadOptions = {},
): Promise<Plan> {
  const live = await readLiveState(repository, manifest, options)
  const seen = live.provisioner
  const managed = ScopeSet.of(seen.record)
  const stated = statedLimits(manifest)
  const sets: ScopeChange[] = []
  const adopted: ConfigScope[] = []
  for (const {scope, limits} of stated) {
    const change = planScope(manifest, scope, limits, live, managed)
    if (change) sets.push(change)
    else if (!managed.has(scope)) adopted.push(scope)
  }
  const entities = planEntities(manifest, live.entities)
  const deletes = planDeletes(new ScopeSet(stated.map(({scope}) => scope)), managed, live)
  checkRecordFits(repository, [...managed, ...stated.map(({scope}) => scope)], seen)

  const changes = [...sets, ...entities.changes, ...deletes]
  const count = (action: PlannedChange['action']) => changes.filter(change => change.action === action).length
  const counts = {
    create: count('create'),
    update: count('update'),
    delete: deletes.length,
    adopt: adopted.length + sets.filter(change => change.adopts).length,
    unchanged: stated.length - sets.length + entities.unchanged,
  }
  return {manifest, changes, adopted, counts, seen}
}

function planScope(
  manifest: Manifest,
  scope: ConfigScope,
  after: readonly Limit[],
  live: LiveState,
  managed: ScopeSet,
): ScopeChange | undefined {
  const record = live.configs.get(scopeName(scope))
  const before = record?.limits ?? []
  const wanted = scope.level === 'system' ? manifest.system?.onUnavailable : undefined
  const isOtherPolicy = wanted !== undefined && wanted !== record?.onUnavailable
  if (isDeepStrictEqual(before, after) && !isOtherPolicy) return undefined
  const exists = isConfigured(record)
  return {
    kind: 'limits',
    action: exists ? 'update' : 'create',
    scope,
    before,
    after,
    ...(isOtherPolicy && {onUnavailable: {before: record?.onUnavailable, after: wanted}}),
    adopts: exists && !managed.has(scope),
  }
}

/** The most specific level first, so that at every moment the next one applies. */
function planDeletes(stated: ScopeSet, managed: ScopeSet, live: LiveState): ScopeChange[] {
  const deletes = [...managed].flatMap((scope): ScopeChange[] => {
    const record = live.configs.get(scopeName(scope))
    if (stated.has(scope) || !record || !isConfigured(record)) return []
    const {limits: before, onUnavailable: policy} = record
    const onUnavailable = policy === undefined ? {} : {onUnavailable: {before: policy, after: undefined}}
    return [{kind: 'limits', action: 'delete', scope, before, after: [], ...onUnavailable, adopts: false}]
  })
  // Their names begin with the level, and entity < resource < system.
  return deletes.sort((a, b) => byText(scopeName(a.scope), scopeName(b.scope)))
}

/** The system's item may hold nothing but settings of other tools, or the audit retention. */
function isConfigured(record: ConfigRecord | undefined): boolean {
  if (record?.scope.level !== 'system') return record !== undefined
  return record.limits.length > 0 || record.onUnavailable !== undefined
}

/** While a manifest is applied the record holds what was managed and what will be. Checked before anything is written. */
function checkRecordFits(repository: NamespaceRepository, scopes: readonly ConfigScope[], seen: SeenProvisioner): void {
  const all = new ScopeSet(scopes).managed()
  const bytes = itemBytes(repository.provisioner.itemOf(all, seen)) + RESERVED_BYTES
  if (bytes <= MAX_ITEM_BYTES) return
  const said = `The limits of ${all.entities.size} entities are too many for one manifest`
  const why = `the record of what is managed would take ${bytes} bytes, and ${MAX_ITEM_BYTES} are possible`
  throw new InvalidInput('manifest.too-large', `${said}: ${why}.`, {
    hint: 'Give fewer entities limits of their own (let them inherit from resources), or spread them over namespaces.',
    details: {entities: all.entities.size, bytes, most: MAX_ITEM_BYTES},
  })
}
