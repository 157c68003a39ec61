import {isDeepStrictEqual} from 'node:util'
import {ZaelError} from '../../core/errors.js'
import {baseOf, isSessionReset, type Limit} from '../../core/limits/limit.js'
import {batchGet} from '../../dynamo/batch.js'
import {pause} from '../../dynamo/retry.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {type BoostRecord, boostKey, decodeBoosts} from '../../schema/boost-record.js'
import {encodeConfigLimits, limitAttributesIn, readConfigLimits} from '../../schema/config-limits.js'
import {
  type ConfigRecord,
  type ConfigScope,
  configKey,
  countingAt,
  decodeConfig,
  hasMoreThanLimits,
  holdsOnlyPolicies,
  isCopyOver,
  type Policies,
} from '../../schema/config-record.js'
import {keyId, keys} from '../../schema/keys.js'
import {hasLimitFeature} from '../../schema/peer-features.js'
import type {Audit} from '../table/audit.js'
import {type MarkedFeature, requireReaders} from '../table/required-release.js'
import type {NamespaceTable} from '../table/table.js'
import {isRefused, type TransactItem, transact} from '../table/transact.js'
import {boostWrites, described, withCopyEnd} from './boost-records.js'
import {checkEnding, checkUntil, inOneZone, tidied, withoutBoosts} from './boosted-limits.js'
import type {ConfigChange, DeleteOptions, PolicyScope, SetOptions, StoredConfig} from './change-options.js'
import {checkChange, checkPolicies, checkScope, missing, nameOf, notBoosted, requireRemovable} from './checks.js'
import {
  boostEndedEvent,
  clearConfig,
  deleteConfig,
  deletedEvent,
  policyEvent,
  registerConfig,
  removedPolicies,
  setEvent,
  unregisterConfig,
  updateConfig,
  updatePolicies,
} from './config-writes.js'
import type {InheritedLimits} from './inherited.js'
import {keptCopy, mergeConfig} from './merge.js'
import {inUnits, type UnitsByLimit, unitsIn, unitWrites} from './units.js'

const ATTEMPTS = 20

interface ChangePlan {
  readonly writes: readonly TransactItem[]
  readonly record: ConfigRecord | undefined
  readonly copied?: InheritedLimits | undefined
  readonly previous?: ConfigRecord | undefined
}

interface ConfigChangerOptions {
  readonly audit: Audit
  /** Also called when the write failed. */
  readonly onChanged: (key: Key) => void
  readonly onUnits: (units: UnitsByLimit) => void
}

/** Each change is one transaction with its audit event. */
export class ConfigChanger {
  readonly #table: NamespaceTable
  readonly #options: ConfigChangerOptions

  constructor(table: NamespaceTable, options: ConfigChangerOptions) {
    this.#table = table
    this.#options = options
  }

  /** Copies of another level's limits are stored only if they still apply. */
  async set(scope: ConfigScope, given: readonly Limit[], options: SetOptions = {}): Promise<ConfigChange> {
    const limits = this.#checked(scope, given, options)
    await requireReaders(this.#table, [...limits.flatMap(markedFeatures), ...policyFeatures(options.policies ?? {})])
    return this.#change(scope, async stored => {
      const {before, units} = stored
      const {record, copied, checks} = await mergeConfig(this.#table, scope, limits, options, stored)
      requireRemovable(scope, {before: before?.limits, after: record.limits}, options.mayRemove)
      const given = new Set(limits.map(({name}) => name))
      const isGiven = (name: string) => options.replace === true || given.has(name)
      const update = await this.#update(stored, record, isGiven, options.policies)
      const money = await unitWrites(this.#table, units, limits)
      const event = await this.#options.audit.put(setEvent(record, before, options.policies))
      return {writes: [...update, ...money, ...checks, event], record, copied}
    })
  }

  async preview(scope: ConfigScope, given: readonly Limit[], options: SetOptions = {}): Promise<ConfigChange> {
    const limits = this.#checked(scope, given, options)
    const stored = await this.#stored(scope)
    const {before, units} = stored
    const {record, copied} = await mergeConfig(this.#table, scope, limits, options, stored)
    await unitWrites(this.#table, units, limits)
    return changeOf(scope, before, record, copied)
  }

  /** Creates a missing configuration without limits; deletes one that then holds nothing. */
  async setPolicies(scope: PolicyScope, policies: Policies): Promise<ConfigChange> {
    checkScope(scope)
    checkPolicies(scope, policies)
    await requireReaders(this.#table, policyFeatures(policies))
    return this.#change(scope, async ({item, before}) => {
      const nothing = {limits: [], onUnavailable: undefined, auditRetentionDays: undefined}
      const record: ConfigRecord = {...nothing, namespace: this.#table.namespace, scope, ...before, ...policies}
      if (!hasPolicies(record) && !item) return {writes: [], record: undefined}
      const event = await this.#options.audit.put(policyEvent(record, before, policies))
      if (!hasPolicies(record) && item && holdsOnlyPolicies(item)) {
        const registry = await unregisterConfig(this.#table, scope, item)
        return {writes: [deleteConfig(this.#table, item, record), ...registry, event], record: undefined}
      }
      const update = updatePolicies(this.#table, item, record, policies)
      return {writes: [update, ...registerConfig(this.#table, scope, item), event], record}
    })
  }

  /** Deletes the configuration of an entity or resource with its last limit, unless it has a policy. */
  async unset(scope: ConfigScope, limitName: string): Promise<ConfigChange> {
    return this.#change(scope, async stored => {
      const {item, before} = stored
      const kept = before?.limits.filter(limit => limit.name !== limitName)
      if (!item || !before || !kept || kept.length === before.limits.length)
        throw missing(scope, limitName, before?.limits)
      if (kept.length === 0 && scope.level !== 'system' && !hasMoreThanLimits(item, [limitName]))
        return this.#deletion(stored, before)
      const limits = inOneZone(kept, this.#table.clock())
      const record = {...before, limits, copiedUntilMs: undefined}
      const copied = before.copiedUntilMs === undefined ? undefined : await keptCopy(this.#table, scope, kept)
      const update = await this.#update(stored, record, name => name === limitName)
      return {writes: [...update, await this.#options.audit.put(setEvent(record, before))], record, copied}
    })
  }

  /** Default: all boosts of the scope. Limits that were copied for them go too. */
  async endBoosts(scope: ConfigScope, limitNames?: readonly string[]): Promise<ConfigChange> {
    return this.#change(scope, async stored => {
      // An ended boost can be removed as well.
      const {untidied: before} = stored
      const boostedNames = (before?.limits ?? []).flatMap(({name, boost}) => (boost ? [name] : []))
      const unknown = limitNames?.find(name => !boostedNames.includes(name))
      if (!before || boostedNames.length === 0 || unknown !== undefined) throw notBoosted(scope, unknown, boostedNames)
      const after = withoutBoosts(before, ({name}) => limitNames?.includes(name) ?? true)
      return this.#boostsEnded(stored, before, after)
    })
  }

  /** Removes windows of boosts that ended some time ago, and limits copied for them; others stay in force. */
  async tidy(scope: ConfigScope): Promise<ConfigChange> {
    return this.#change(scope, async stored => {
      const {untidied, boosts} = stored
      const tidy = untidied && tidied(untidied, this.#table.clock())
      const isOrphan = boosts !== undefined && !untidied?.limits.some(({boost}) => boost)
      if (isOrphan) {
        const nothing = {scope, limits: []}
        return {writes: await this.#boostWrites(boosts, nothing), record: tidy, previous: tidy}
      }
      if (!tidy || !untidied || tidy === untidied) return {writes: [], record: tidy, previous: tidy}
      return this.#boostsEnded(stored, untidied, tidy)
    })
  }

  /** Keeps other tools' attributes at the system level, and policies unless `withPolicies` is set. */
  async delete(scope: ConfigScope, options: DeleteOptions = {}): Promise<ConfigChange> {
    const {withPolicies = false, mayRemove} = options
    return this.#change(scope, async stored => {
      const {item, untidied: before} = stored
      requireRemovable(scope, {before: before?.limits}, mayRemove)
      const staysAnyway = scope.level === 'system' || (!withPolicies && hasPolicies(before))
      const isEmpty = staysAnyway && limitAttributesIn(item).length === 0 && before?.onUnavailable === undefined
      if (!item || !before || isEmpty) throw missing(scope)
      return this.#deletion(stored, before, {withPolicies})
    })
  }

  /** Checks that need no read. Limits given with a boost count without it. */
  #checked(scope: ConfigScope, given: readonly Limit[], options: SetOptions): Limit[] {
    const {replace, until, onUnavailable, auditRetentionDays, policies = {}} = options
    const limits = checkChange(scope, given.map(baseOf), options)
    if (until === undefined) return limits
    checkUntil(until, this.#table.clock())
    const hasSettings = [onUnavailable, auditRetentionDays].some(each => each !== undefined) || hasPolicies(policies)
    checkEnding(limits, {replace, hasSettings})
    return limits
  }

  async #boostsEnded(stored: StoredConfig, before: ConfigRecord, after: ConfigRecord): Promise<ChangePlan> {
    const limits = inOneZone(after.limits, this.#table.clock())
    if (limits.length === 0) return this.#deletion(stored, before, {event: boostEndedEvent(before, [])})
    const record = {...after, limits}
    const update = await this.#update(stored, record, () => false)
    const event = await this.#options.audit.put(boostEndedEvent(before, limits))
    return {writes: [...update, event], record, previous: before}
  }

  async #deletion(
    {item, boosts}: StoredConfig,
    before: ConfigRecord,
    {withPolicies = false, event = deletedEvent(before, withPolicies ? removedPolicies(before) : {})} = {},
  ): Promise<ChangePlan> {
    const {scope} = before
    const others = [...(await this.#boostWrites(boosts, {scope, limits: []})), await this.#options.audit.put(event)]
    const stored = item as Item
    if (scope.level === 'system' || (!withPolicies && hasPolicies(before))) {
      const record = {...before, limits: [], onUnavailable: undefined, unsupported: undefined, copiedUntilMs: undefined}
      return {writes: [clearConfig(this.#table, stored, before), ...others], record, previous: before}
    }
    const registry = await unregisterConfig(this.#table, scope, stored)
    const writes = [deleteConfig(this.#table, stored, before), ...registry, ...others]
    return {writes, record: undefined, previous: before}
  }

  async #update(
    {item, boosts}: StoredConfig,
    record: ConfigRecord,
    isGiven: (limit: string) => boolean,
    policies?: Policies,
  ): Promise<TransactItem[]> {
    const {scope, limits} = record
    const stored = readConfigLimits(item ?? {}, () => {})
    const spelled = (among: readonly Limit[], name: string) =>
      encodeConfigLimits(among.filter(each => each.name === name))
    // Keep unchanged limits as another client may have written them.
    const isReplaced = (name: string) =>
      isGiven(name) || !isDeepStrictEqual(spelled(stored, name), spelled(limits, name))
    return [
      updateConfig(this.#table, item, record, isReplaced, policies),
      ...registerConfig(this.#table, scope, item),
      ...(await this.#boostWrites(boosts, record)),
    ]
  }

  async #boostWrites(
    before: BoostRecord | undefined,
    {scope, limits}: Pick<ConfigRecord, 'scope' | 'limits'>,
  ): Promise<TransactItem[]> {
    const by = limits.some(({boost}) => boost) ? await this.#options.audit.author() : undefined
    return boostWrites(this.#table, before, {scope, limits, by})
  }

  /** Leaves out unreadable limits, which can be replaced or deleted. */
  async #stored(scope: ConfigScope): Promise<StoredConfig> {
    const {namespace, transport, name, backoff} = this.#table
    const [ofConfig, ofUnits, ofBoosts] = [
      configKey(namespace, scope),
      keys.units(namespace),
      boostKey(namespace, scope),
    ]
    // One request: a manifest changes thousands of scopes.
    const found = await batchGet(transport, name, [ofConfig, ofUnits, ofBoosts], {backoff, consistent: true})
    const item = found.get(keyId(ofConfig))
    const units = unitsIn(found.get(keyId(ofUnits)))
    const stored = found.get(keyId(ofBoosts))
    const boosts = stored && decodeBoosts(stored)
    this.#options.onUnits(units)
    let unreadable = 0
    const decoded = item && decodeConfig(item, each => readConfigLimits(each, () => void unreadable++))
    const nowMs = this.#table.clock()
    const untidied = decoded && described(inUnits(decoded, units) as ConfigRecord, boosts, nowMs)
    const counting = countingAt(untidied, nowMs)
    const before = counting && tidied(counting, nowMs)
    const hasUnreadable = unreadable > 0 && !(untidied && isCopyOver(untidied, nowMs))
    const hasLimits = hasUnreadable || (before?.limits.length ?? 0) > 0 || hasLimitFeature(before?.unsupported)
    return {item, before, untidied, boosts, units, hasLimits}
  }

  /** Starts again if another write came in between, so changes are serialised. */
  async #change(scope: ConfigScope, decide: (stored: StoredConfig) => Promise<ChangePlan>): Promise<ConfigChange> {
    const key = configKey(this.#table.namespace, scope)
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const stored = await this.#stored(scope)
      const {writes, record, copied, previous = stored.before} = await decide(stored)
      try {
        if (writes.length > 0) await transact(this.#table, [...writes])
        return changeOf(scope, previous, record, copied)
      } catch (error) {
        if (!isRefused(error)) throw error
      } finally {
        this.#options.onChanged(key)
      }
      await pause(attempt, this.#table.backoff)
    }
    throw new ZaelError('conflict', 'limits.contended', `Others keep changing the limits of ${nameOf(scope)}.`, {
      hint: 'Nothing was changed; try again in a moment.',
    })
  }
}

const hasPolicies = (record: Policies | undefined): boolean =>
  record?.access !== undefined || record?.cascade !== undefined

function markedFeatures({reset, soft}: Limit): MarkedFeature[] {
  return [...(isSessionReset(reset) ? ['session-quota' as const] : []), ...(soft ? ['soft' as const] : [])]
}

function policyFeatures({access, cascade}: Policies): MarkedFeature[] {
  const isPolicy = cascade !== undefined
  return [...(isPolicy ? ['cascade-policy' as const] : []), ...(access === 'bypass' ? [access] : [])]
}

function changeOf(
  scope: ConfigScope,
  previous: ConfigRecord | undefined,
  record: ConfigRecord | undefined,
  copied: InheritedLimits | undefined,
): ConfigChange {
  const told = record && withCopyEnd(record)
  const [before, after] = [previous?.limits ?? [], told?.limits ?? []]
  return {scope, before, after, previous, record: told, ...(copied && {copied})}
}
