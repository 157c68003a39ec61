import {LEVELS, type Level, type Limit} from '../../core/limits/limit.js'
import {type BucketName, DEFAULT_RESOURCE} from '../../core/names.js'
import {isOutage} from '../../dynamo/errors.js'
import {
  type AccessSwitch,
  type ConfigRecord,
  type ConfigScope,
  configKey,
  countingAt,
  type OnUnavailable,
} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import {type CarriedFeature, hasLimitFeature} from '../../schema/peer-features.js'
import {getItems, type NamespaceTable} from '../table/table.js'
import {UnsupportedFeature} from '../table/unsupported-feature.js'
import type {CachedReadOptions, ConfigCache, FetchConfigs} from './cache.js'

/** The limits and policies that apply to one entity and resource, and why. */
export interface Resolution {
  /** The level whose limits apply; `undefined` if nothing is configured. */
  readonly source: Level | undefined
  readonly limits: readonly Limit[]
  /** The stored outage policy; `undefined` if there is none. */
  readonly onUnavailable: OnUnavailable | undefined
  /** The switch in force and its level; `undefined` if none is set. */
  readonly access?: DecidingSwitch | undefined
  /** Whether requests are also charged to the parent, and the level; `undefined`: the entity itself decides. */
  readonly cascade?: {readonly cascade: boolean; readonly level: Level} | undefined
  /** Features that zael does not support: the limits must not be used. Absent if there are none. */
  readonly unsupported?: readonly CarriedFeature[] | undefined
  /** Epoch ms: the limits were copied for a boost. From this instant, the next level's limits apply. */
  readonly copiedUntilMs?: number | undefined
  /** Every level that was read, most specific first. */
  readonly trace: readonly LevelTrace[]
}

/** The switch in force. */
export interface DecidingSwitch {
  readonly access: AccessSwitch
  readonly level: Level
  /** Epoch ms at which it expires; absent if it stays. */
  readonly untilMs?: number | undefined
  /** Why an operator set it. */
  readonly reason?: string | undefined
}

/** The limits of one level for an entity and resource. */
export interface LevelTrace {
  readonly level: Level
  readonly scope: ConfigScope
  /** Empty if the level has no limits or no record. */
  readonly limits: readonly Limit[]
  /** As in {@link Resolution}. */
  readonly copiedUntilMs?: number | undefined
  /** The level's switch; absent if the next level decides. */
  readonly access?: AccessSwitch | undefined
  /** Whether requests are also charged to the parent; absent if the next level decides. */
  readonly cascade?: boolean | undefined
}

/** Cancellation of a read. */
export interface ResolveOptions {
  readonly signal?: AbortSignal | undefined
}

/** `atMs`: the instant to resolve for, in epoch ms. Default: now. */
interface CachedResolveOptions extends CachedReadOptions {
  readonly atMs?: number | undefined
}

export interface ResolvedPair {
  readonly entity: string
  readonly resource: string
}

export type KnownResolutions = (pair: ResolvedPair, atMs?: number) => Resolution

/** Cached; at most one BatchGetItem for unknown records. */
export class ConfigResolver {
  readonly #table: NamespaceTable
  readonly #cache: ConfigCache
  readonly #fetch: FetchConfigs

  constructor(table: NamespaceTable, cache: ConfigCache) {
    this.#table = table
    this.#cache = cache
    // Consistent: the cache would keep a stale record until it expires, even after our own change.
    this.#fetch = keys => getItems(table, keys)
  }

  /** The most specific level with limits wins as a whole. */
  async resolve({entity, resource}: BucketName, options: CachedResolveOptions = {}): Promise<Resolution> {
    const scopes = scopesOf(entity, resource)
    const records = await this.#read(
      LEVELS.map(level => scopes[level]),
      options,
    )
    return resolutionOf(scopes, records, options.atMs ?? this.#table.clock())
  }

  async resolveMany(pairs: readonly ResolvedPair[], options: CachedReadOptions = {}): Promise<KnownResolutions> {
    const scopes = new Map<string, ConfigScope>()
    for (const {entity, resource} of pairs) {
      for (const scope of Object.values(scopesOf(entity, resource))) scopes.set(this.#id(scope), scope)
    }
    const records = await this.#read([...scopes.values()], options)
    const known = new Map([...scopes.keys()].map((id, at) => [id, records[at]]))
    return ({entity, resource}, atMs = this.#table.clock()) => {
      const own = scopesOf(entity, resource)
      const levels = LEVELS.map(level => known.get(this.#id(own[level])))
      return resolutionOf(own, levels, atMs)
    }
  }

  #id(scope: ConfigScope): string {
    return keyId(configKey(this.#table.namespace, scope))
  }

  /** `undefined` unless cached; sends no request. */
  peek(entity: string, resource: string, atMs = this.#table.clock()): Resolution | undefined {
    const scopes = scopesOf(entity, resource)
    const keys = LEVELS.map(level => configKey(this.#table.namespace, scopes[level]))
    const records = this.#cache.peek(keys)
    const stored = records && keys.map(key => records.get(keyId(key)))
    return stored && resolutionOf(scopes, stored, atMs)
  }

  async onUnavailable(options: ResolveOptions = {}): Promise<OnUnavailable | undefined> {
    const scope = {level: 'system'} as const
    try {
      const [record] = await this.#read([scope], options)
      return record?.onUnavailable
    } catch (error) {
      if (!isOutage(error)) throw error
      return this.lastOnUnavailable
    }
  }

  /** As last read, however long ago. */
  get lastOnUnavailable(): OnUnavailable | undefined {
    return this.#cache.lastKnown(configKey(this.#table.namespace, {level: 'system'}))?.onUnavailable
  }

  async #read(scopes: readonly ConfigScope[], options: CachedReadOptions): Promise<(ConfigRecord | undefined)[]> {
    const keys = scopes.map(scope => configKey(this.#table.namespace, scope))
    const records = await this.#cache.read(keys, this.#fetch, options)
    return keys.map(key => records.get(keyId(key)))
  }
}

export function requireSupportedLimits(
  {unsupported, source}: Resolution,
  {entity, resource}: {readonly entity: string; readonly resource: string},
): void {
  if (!unsupported) return
  const subject = `The configuration for "${entity}" and "${resource}"`
  throw new UnsupportedFeature(subject, unsupported, {entity, resource, level: source ?? null})
}

function resolutionOf(
  scopes: Record<Level, ConfigScope>,
  stored: readonly (ConfigRecord | undefined)[],
  atMs: number,
): Resolution {
  const records = stored.map(record => countingAt(record, atMs))
  const trace = LEVELS.map((level, at): LevelTrace => {
    const {limits = [], access, cascade, copiedUntilMs} = records[at] ?? {}
    return {
      level,
      scope: scopes[level],
      limits,
      ...(copiedUntilMs !== undefined && {copiedUntilMs}),
      ...(access !== undefined && {access}),
      ...(cascade !== undefined && {cascade}),
    }
  })
  // A level whose limits zael cannot read still has limits.
  const at = records.findIndex(record => record && (record.limits.length > 0 || hasLimitFeature(record.unsupported)))
  const applied = records[at]
  const {access, cascade} = decidedBy(records)
  const {unsupported, copiedUntilMs} = applied ?? {}
  return {
    source: applied && LEVELS[at],
    limits: applied?.limits ?? [],
    onUnavailable: records.at(-1)?.onUnavailable,
    ...(access && {access}),
    ...(cascade && {cascade}),
    ...(unsupported && {unsupported}),
    ...(copiedUntilMs !== undefined && {copiedUntilMs}),
    trace,
  }
}

/** All levels except the system, most specific first. */
const POLICY_LEVELS = LEVELS.slice(0, -1)

/** The most specific policy decides, whichever level the limits come from. */
function decidedBy(records: readonly (ConfigRecord | undefined)[]): Pick<Resolution, 'access' | 'cascade'> {
  let access: Resolution['access']
  let cascade: Resolution['cascade']
  for (const [at, level] of POLICY_LEVELS.entries()) {
    const record = records[at]
    if (record?.access !== undefined) access ??= decidingSwitch(record.access, level, record)
    if (record?.cascade !== undefined) cascade ??= {cascade: record.cascade, level}
  }
  return {access, cascade}
}

function decidingSwitch(
  access: AccessSwitch,
  level: Level,
  {accessUntilMs: untilMs, accessReason: reason}: ConfigRecord,
): DecidingSwitch {
  return {access, level, ...(untilMs !== undefined && {untilMs}), ...(reason !== undefined && {reason})}
}

export function scopesOf(entity: string, resource: string): Record<Level, ConfigScope> {
  return {
    entity: {level: 'entity', entity, resource},
    entity_default: {level: 'entity', entity, resource: DEFAULT_RESOURCE},
    resource: {level: 'resource', resource},
    system: {level: 'system'},
  }
}
