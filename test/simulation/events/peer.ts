import {kindedRateOf} from '../../../src/lib/core/calendar/kind-definition.js'
import {compileStored} from '../../../src/lib/core/calendar/stored-schedule.js'
import {rateOf} from '../../../src/lib/core/limits/limit.js'
import {bool, type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {configKey, decodeConfig, encodeConfig} from '../../../src/lib/schema/config-record.js'
import {wireKey} from '../../../src/lib/schema/keys.js'
import {encodeCalendars} from '../../../src/lib/schema/kind-attributes.js'
import {capacityAt, endOf, quotasOf, type StoredQuota, windowOf} from '../quotas/stored-quota.js'
import {RESOURCE, type ScenarioEvent, type Tokens} from '../scenario.js'
import {bucketId, type Writer} from '../world/table-writes.js'
import {OTHERS, STACK} from '../world/world.js'
import type {Stage} from './stage.js'

const WRITER: Writer = {kind: 'python', process: OTHERS}

export type PeerEvent = Extract<ScenarioEvent, {kind: `peer-${string}`}>

/**
 * Writes like a zae-limiter 0.17 client, each call at one instant and with an exact clock. Its slow path resets quotas
 * and opens sessions. It counts shards first and creates them later, as copies with all attributes. It replaces
 * configurations as whole items.
 */
export function playPeer(stage: Stage, event: PeerEvent): void {
  stage.world.note(`peer ${event.kind}`)
  const peer = new Peer(stage)
  if (event.kind === 'peer-config') peer.configure(event)
  else if (event.kind === 'peer-access') peer.setAccess(event)
  else if (event.kind === 'peer-bypass') peer.setBypass(event)
  else if (event.kind === 'peer-consume') peer.consume(event.entity, event.consume, event.spreadAfterMs)
  else peer.grow(event.entity, event.cloneAfterMs)
}

class Peer {
  readonly #stage: Stage

  constructor(stage: Stage) {
    this.#stage = stage
  }

  /** Replaces the whole item except the switch. Live buckets get the parameters and need one slow write. */
  configure({scope, limits, isSynced}: Extract<PeerEvent, {kind: 'peer-config'}>): void {
    const {world} = this.#stage
    const key = wireKey(configKey(world.namespace, scope))
    const before = this.#configAt(key)
    const access = before && decodeConfig(before, () => [])?.access
    const record = {namespace: world.namespace, scope, limits, access, onUnavailable: undefined}
    const Item = encodeConfig({...record, auditRetentionDays: undefined})
    world.carryOut(WRITER, 'PutItem', {TableName: STACK, Item})
    if (!isSynced) return
    const names = new Set(limits.map(({name}) => name))
    for (const item of this.#buckets()) {
      const isOther = Object.keys(item).some(key => {
        const name = /^b_(.+)_cp$/.exec(key)?.[1]
        return name !== undefined && name !== 'wcu' && !names.has(name)
      })
      // A removed limit stays until a slow write removes it: its zone and texts would be wrong. Entity limits take
      // precedence over resource limits.
      if (isOther || (scope.level !== 'entity' && this.#hasOwnLimits(item))) {
        this.#put({...item, vu: n(0)})
        continue
      }
      const after: Item = {...item, vu: n(0)}
      const kinds = new Map(limits.map(limit => [limit.name, kindedRateOf(limit, 0).kind]))
      for (const [attribute, value] of encodeCalendars(kinds)) {
        if (value === undefined) delete after[attribute]
        else after[attribute] = value
      }
      for (const limit of limits) {
        if (!(`b_${limit.name}_cp` in item)) continue
        const {capacityMilli, refillAmountMilli, refillPeriodMs} = rateOf(limit)
        after[`b_${limit.name}_cp`] = n(capacityMilli)
        after[`b_${limit.name}_ra`] = n(refillAmountMilli)
        after[`b_${limit.name}_rp`] = n(refillPeriodMs)
        const session = limit.reset && 'afterSeconds' in limit.reset ? limit.reset.afterSeconds : undefined
        if (session === undefined) delete after[`b_${limit.name}_rsa`]
        else after[`b_${limit.name}_rsa`] = n(session)
      }
      this.#put(after)
    }
  }

  #configAt(key: Item): Item | undefined {
    return this.#stage.world.items.find(({PK, SK}) => same(PK, key.PK) && same(SK, key.SK))
  }

  #hasOwnLimits(bucket: Item): boolean {
    const {namespace} = this.#stage.world
    const entity = bucketOf(bucket).split('/')[1] ?? ''
    return this.#configAt(wireKey(configKey(namespace, {level: 'entity', entity, resource: RESOURCE}))) !== undefined
  }

  /** Stamps every affected bucket. */
  setAccess({scope, access}: Extract<PeerEvent, {kind: 'peer-access'}>): void {
    const {world, oracles} = this.#stage
    const beganMs = world.time.nowMs
    const key = wireKey(configKey(world.namespace, scope))
    const stored = this.#configAt(key)
    const empty = {
      namespace: world.namespace,
      scope,
      limits: [],
      onUnavailable: undefined,
      auditRetentionDays: undefined,
    }
    const {disabled: _, ...item} = stored ?? encodeConfig(empty)
    const Item = access === undefined ? item : {...item, disabled: bool(access === 'disabled')}
    world.carryOut(WRITER, 'PutItem', {TableName: STACK, Item})
    const {switches} = oracles.quotas
    for (const each of this.#buckets()) {
      const {disabled: __, ...open} = each
      const isDisabled = switches.isDisabled(bucketOf(each))
      if (isDisabled !== 'disabled' in each) this.#put(isDisabled ? {...each, disabled: bool(true)} : open)
    }
    switches.noteReturned(beganMs, world.time.nowMs)
  }

  /** Sets the flag in the entity's configuration, then stamps its buckets. This client knows no revision. */
  setBypass({entity, isBypassed, misses}: Extract<PeerEvent, {kind: 'peer-bypass'}>): void {
    const {world} = this.#stage
    const scope = {level: 'entity', entity, resource: RESOURCE} as const
    const settings = {limits: [], onUnavailable: undefined, auditRetentionDays: undefined}
    const access = isBypassed ? 'bypass' : 'enabled'
    this.#put(encodeConfig({namespace: world.namespace, scope, ...settings, access}))
    if (misses) return
    for (const each of this.#buckets()) {
      if (bucketOf(each) !== bucketId(world.namespace, entity, RESOURCE)) continue
      const {bypass: _, ...enforced} = each
      this.#put(isBypassed ? {...each, bypass: n(world.time.nowMs + 50_000)} : enforced)
    }
  }

  /**
   * Takes from a random shard if its balance is valid; otherwise first resets quotas or opens sessions that are due.
   */
  consume(entity: string, amounts: Tokens, spreadAfterMs: number | undefined): void {
    const {world} = this.#stage
    const nowMs = world.time.nowMs
    const shards = this.#buckets().filter(item => bucketOf(item) === bucketId(world.namespace, entity, RESOURCE))
    const [item] = shards.slice(Math.floor(nowMs / 1000) % Math.max(1, shards.length))
    if (!item || 'disabled' in item || expiryOf(item) * 1000 <= nowMs) return
    const quotas = quotasOf(item)
    const entries = Object.entries(amounts).filter(([name]) => quotas.has(name))
    // Rates are skipped: this client refills them differently.
    if (entries.length === 0 || quotas.size < limitNames(item).length) return
    let after = item
    const opened = new Map<string, StoredQuota>()
    for (const [name, quota] of quotas) {
      const due = dueAt(quota, shardOf(item), nowMs)
      if (!due) continue
      after = {...after, ...due.attributes(name), rf: n(Math.max(nowMs, quota.refilledAtMs))}
      if (due.isOpened) opened.set(name, quota)
    }
    for (const [name, tokens] of entries) {
      const held = numberIn(after, `b_${name}_tk`)
      if (held < tokens * 1000) return
      after = {
        ...after,
        [`b_${name}_tk`]: n(held - tokens * 1000),
        [`b_${name}_tc`]: n(numberIn(after, `b_${name}_tc`) + tokens * 1000),
      }
    }
    const bounds = [...quotasOf(after).values()].map(quota => boundaryAfter(quota, nowMs))
    if (after !== item)
      after = {...after, vu: n(Math.min(...bounds)), ttl: n(Math.ceil(Math.max(...bounds) / 1000) + 200_000)}
    this.#put(after)
    if (opened.size > 0 && spreadAfterMs !== undefined)
      world.time.after(spreadAfterMs, () => this.#announce(entity, shardOf(item), opened, nowMs))
  }

  /** Doubles the count on shard 0, then on the others. The new shards are copied from shard 0 later, or never. */
  grow(entity: string, cloneAfterMs: number | undefined): void {
    const {world, oracles} = this.#stage
    const bucket = bucketId(world.namespace, entity, RESOURCE)
    const shards = this.#buckets().filter(item => bucketOf(item) === bucket)
    const first = shards.find(item => shardOf(item) === 0)
    const count = first ? numberIn(first, 'shard_count') : 0
    if (!first || count < 1 || count > 4) return
    oracles.rates.exempt(bucket)
    const to = count * 2
    for (const item of shards) {
      if (numberIn(item, 'shard_count') >= to) continue
      const frozen: Item = {...item, shard_count: n(to)}
      for (const [name, {grantCount, shardCount}] of quotasOf(item))
        frozen[`b_${name}_gc`] = n(grantCount ?? shardCount)
      this.#put(frozen)
    }
    if (cloneAfterMs === undefined) return
    world.time.after(cloneAfterMs, () => {
      for (let shard = count; shard < to; shard++) this.#clone(entity, {...first, shard_count: n(to)}, shard, to)
    })
  }

  #clone(entity: string, image: Item, shard: number, count: number): void {
    const {world} = this.#stage
    const nowMs = world.time.nowMs
    const bucket = bucketId(world.namespace, entity, RESOURCE)
    const siblings = this.#buckets().filter(item => bucketOf(item) === bucket)
    if (siblings.some(item => shardOf(item) === shard || numberIn(item, 'shard_count') > count)) return
    const key = {PK: s(`${world.namespace}/BUCKET#${entity}#${RESOURCE}#${shard}`), SK: s('#STATE')}
    const clone: Item = {
      ...image,
      ...key,
      GSI2SK: s(`BUCKET#${entity}#${shard}`),
      GSI3SK: s(`BUCKET#${RESOURCE}#${shard}`),
      GSI4SK: s(`BUCKET#${entity}#${RESOURCE}#${shard}`),
    }
    const debits = new Map<number, Record<string, number>>()
    for (const name of limitNames(image)) {
      const quota = quotasOf(image).get(name)
      clone[`b_${name}_tc`] = n(0)
      if (`b_${name}_wtc` in clone) clone[`b_${name}_wtc`] = n(0)
      if (!quota) {
        clone[`b_${name}_tk`] = n(Math.floor(numberIn(image, `b_${name}_cp`) / count))
        continue
      }
      const share = Math.floor(Number(capacityAt(quota, nowMs)) / count)
      const covering = siblings.flatMap(item => {
        const held = quotasOf(item).get(name)
        const grantCount = held?.grantCount ?? held?.shardCount ?? 1
        const isCovering = held && shard % grantCount === shardOf(item) % grantCount && !dueAt(held, 0, nowMs)
        return isCovering ? [{from: shardOf(item), held, grantCount}] : []
      })
      const [donor] = covering.sort((a, b) => b.grantCount - a.grantCount || a.from - b.from)
      // The copy has a pending reset, which would grant the same part twice.
      if (donor && dueAt(quota, 0, nowMs)) return
      const moved = donor ? Math.min(share, Math.max(0, Number(donor.held.tokens))) : share
      clone[`b_${name}_tk`] = n(moved)
      clone[`b_${name}_gc`] = n(count)
      delete clone[`b_${name}_tu`]
      if (donor && moved > 0) debits.set(donor.from, {...debits.get(donor.from), [name]: moved})
    }
    const updates = siblings.flatMap(item => {
      const debit = debits.get(shardOf(item))
      if (!debit) return []
      const Item = {...item}
      for (const [name, milli] of Object.entries(debit))
        Item[`b_${name}_tk`] = n(numberIn(item, `b_${name}_tk`) - milli)
      return [{Put: {TableName: STACK, Item}}]
    })
    const TransactItems = [{Put: {TableName: STACK, Item: clone}}, ...updates]
    world.carryOut(WRITER, 'TransactWriteItems', {TransactItems})
  }

  #announce(entity: string, opener: number, opened: ReadonlyMap<string, StoredQuota>, startMs: number): void {
    const {world} = this.#stage
    const bucket = bucketId(world.namespace, entity, RESOURCE)
    for (const item of this.#buckets()) {
      if (bucketOf(item) !== bucket || shardOf(item) === opener) continue
      let after = item
      for (const [name, {sessionMs}] of opened) {
        const quota = quotasOf(item).get(name)
        if (!quota || (quota.startMs !== undefined && quota.startMs > startMs - sessionMs)) continue
        if (quota.appliedMs === undefined && quota.refilledAtMs >= startMs) continue
        after = {
          ...after,
          [`b_${name}_ws`]: n(startMs),
          [`b_${name}_rsa`]: n(sessionMs / 1000),
          [`b_${name}_wtc`]: n(quota.consumed),
          vu: n(0),
        }
      }
      if (after !== item) this.#put(after)
    }
  }

  #put(Item: Item): void {
    this.#stage.world.carryOut(WRITER, 'PutItem', {TableName: STACK, Item})
  }

  #buckets(): Item[] {
    const {world} = this.#stage
    const prefix = `${world.namespace}/BUCKET#`
    return world.items.filter(item => 'rf' in item && textIn(item, 'PK').startsWith(prefix))
  }
}

/** Amounts that the slow path restores, with shares rounded down. */
function dueAt(quota: StoredQuota, shard: number, nowMs: number) {
  const share = Math.floor(Number(capacityAt(quota, nowMs)) / quota.shardCount)
  const granted = (name: string, tokens: number): Item => ({
    [`b_${name}_tk`]: n(tokens),
    [`b_${name}_gc`]: n(quota.shardCount),
  })
  if (quota.resets !== '') {
    const isDue = (compileStored(quota).lastReset(nowMs) ?? 0) > quota.refilledAtMs
    return isDue ? {isOpened: false, shard, attributes: (name: string) => granted(name, share)} : undefined
  }
  const {startMs, appliedMs, sessionMs, mark, consumed} = quota
  if (startMs === undefined || startMs + sessionMs <= nowMs) {
    const window = (name: string) => ({[`b_${name}_ws`]: n(nowMs), [`b_${name}_wa`]: n(nowMs)})
    return {isOpened: true, shard, attributes: (name: string) => ({...granted(name, share), ...window(name)})}
  }
  if (startMs <= (appliedMs ?? quota.refilledAtMs)) return undefined
  const spent = mark === undefined || consumed < mark ? 0 : Number(consumed - mark)
  const applied = (name: string) => ({...granted(name, share - spent), [`b_${name}_wa`]: n(startMs)})
  return {isOpened: false, shard, attributes: applied}
}

function boundaryAfter(quota: StoredQuota, nowMs: number): number {
  const endMs = endOf(quota, windowOf(quota))
  const {windows, zone} = quota
  return Math.min(
    Math.max(endMs, nowMs),
    windows === '' ? Infinity : compileStored({zone, windows}).nextWindowChange(nowMs),
  )
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)
const textIn = (item: Item, name: string): string => {
  const value = item[name]
  return value && 'S' in value ? value.S : ''
}
const numberIn = (item: Item, name: string): number => {
  const value = item[name]
  return value && 'N' in value ? Number(value.N) : 0
}
const shardOf = (item: Item): number => Number(/#(\d+)$/.exec(textIn(item, 'PK'))?.[1] ?? 0)
const expiryOf = (item: Item): number => ('ttl' in item ? numberIn(item, 'ttl') : Number.POSITIVE_INFINITY)
const limitNames = (item: Item): string[] =>
  Object.keys(item)
    .flatMap(key => /^b_(.+)_cp$/.exec(key)?.[1] ?? [])
    .filter(name => name !== 'wcu')

function bucketOf(item: Item): string {
  const [, namespace = '', entity = '', resource = ''] =
    /^([^/]*)\/BUCKET#([^#]*)#(.*)#\d+$/.exec(textIn(item, 'PK')) ?? []
  return bucketId(namespace, entity, resource)
}
