import {compileStored} from '../../../src/lib/core/calendar/stored-schedule.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import type {Change} from '../../helpers/memory-table/table.js'
import {bucketId} from '../world/table-writes.js'
import {lastReset, nextReset} from './calendar.js'

/** A stored quota of one shard, read without the library's decoder; amounts in millitokens, times in epoch ms. */
export interface StoredQuota {
  readonly tokens: bigint
  readonly consumed: bigint
  readonly capacity: bigint
  readonly refilledAtMs: number
  readonly shardCount: number
  /** Texts of resets and windows, the zone and the session length: equal text means the same kind of quota. */
  readonly definition: string
  readonly zone: string
  readonly windows: string
  /** Empty for a session. */
  readonly resets: string
  readonly sessionMs: number
  readonly startMs: number | undefined
  readonly appliedMs: number | undefined
  /** The shard's consumption when another shard announced the window. */
  readonly mark: bigint | undefined
  readonly grantCount: number | undefined
  readonly topUp: bigint
  /** Start of a period in which the kind was changed, or which the bucket was set back from. */
  readonly heldMs: number | undefined
  readonly isSoft: boolean
}

/** One limit of one shard, before and after a write; `undefined` if it is not a quota. */
export interface QuotaChange {
  readonly bucket: string
  readonly entity: string
  readonly shard: number
  readonly name: string
  readonly before: StoredQuota | undefined
  readonly after: StoredQuota | undefined
  /** Whether the item with this limit, of any kind, existed before and exists after. */
  readonly isItemBefore: boolean
  readonly isItemAfter: boolean
  readonly isLimitBefore: boolean
  /** Net millitokens that the write consumed. */
  readonly taken: bigint
  /** Change of the balance. */
  readonly gained: bigint
  /** Change of the admitted request count. */
  readonly requests: number
}

/** Changes of a write to the quotas of a bucket item; empty for other items. */
export function quotaChanges({before, after}: Change): QuotaChange[] {
  const match = /^([^/]*)\/BUCKET#([^#]*)#(.*)#(\d+)$/.exec(text(before ?? after ?? {}, 'PK'))
  if (!match) return []
  const [, namespace = '', entity = '', resource = '', shard = '0'] = match
  const bucket = bucketId(namespace, entity, resource)
  const [old, now] = [live(before), live(after)]
  const requests = (number(now, 'rq') ?? 0) - (number(old, 'rq') ?? 0)
  return [...new Set([...limitNames(old), ...limitNames(now)])].flatMap(name => {
    const [was, is] = [storedQuota(old, name), storedQuota(now, name)]
    if (!was && !is) return []
    const amount = (item: Item, field: string) => big(item, `b_${name}_${field}`) ?? 0n
    return {
      bucket,
      entity,
      shard: Number(shard),
      name,
      before: was,
      after: is,
      isItemBefore: 'rf' in old,
      isItemAfter: 'rf' in now,
      isLimitBefore: `b_${name}_cp` in old,
      taken: amount(now, 'tc') - amount(old, 'tc'),
      gained: amount(now, 'tk') - amount(old, 'tk'),
      requests,
    }
  })
}

export function quotasOf(item: Item): Map<string, StoredQuota> {
  return new Map(
    limitNames(item).flatMap(name => {
      const quota = storedQuota(item, name)
      return quota ? [[name, quota] as const] : []
    }),
  )
}

function storedQuota(item: Item, name: string): StoredQuota | undefined {
  const field = (suffix: string) => number(item, `b_${name}_${suffix}`)
  const own = (suffix: string) => {
    const mine = text(item, `b_${name}_${suffix}`)
    return mine === '-' ? '' : mine || text(item, suffix)
  }
  const [resets, windows] = [own('rsched'), own('sched')]
  const sessionMs = resets === '' ? (field('rsa') ?? 0) * 1000 : 0
  const capacity = big(item, `b_${name}_cp`)
  // A rate has no resets, even if another shard announced some.
  const isRate = (big(item, `b_${name}_ra`) ?? 0n) > 0n
  if (capacity === undefined || isRate || (resets === '' && sessionMs === 0)) return undefined
  const zone = text(item, 'sched_tz') || 'UTC'
  return {
    tokens: big(item, `b_${name}_tk`) ?? 0n,
    consumed: big(item, `b_${name}_tc`) ?? 0n,
    capacity,
    refilledAtMs: number(item, 'rf') ?? 0,
    shardCount: number(item, 'shard_count') ?? 1,
    definition: [resets, windows, resets + windows === '' ? '' : zone, sessionMs].join('|'),
    zone,
    windows,
    resets,
    sessionMs,
    startMs: field('ws'),
    appliedMs: field('wa'),
    mark: big(item, `b_${name}_wtc`),
    grantCount: field('gc'),
    topUp: big(item, `b_${name}_tu`) ?? 0n,
    heldMs: field('hp'),
    isSoft: `b_${name}_soft` in item,
  }
}

/** Start of the balance's window; -Infinity if there is none. */
export function windowOf(quota: StoredQuota): number {
  const {resets, startMs, appliedMs, refilledAtMs} = quota
  // Announced by another shard, and not started here.
  const isBegun = startMs !== undefined && startMs <= refilledAtMs
  if (resets === '') return appliedMs ?? (isBegun ? startMs : Number.NEGATIVE_INFINITY)
  return lastReset(quota, quota.refilledAtMs)
}

/** End of a window that starts at an instant. */
export function endOf(quota: StoredQuota, startMs: number): number {
  if (quota.resets === '') return startMs + quota.sessionMs
  return nextReset(quota, startMs)
}

/** The capacity of all shards in force at an instant, in millitokens. */
export function capacityAt({capacity, windows, zone}: StoredQuota, atMs: number): bigint {
  if (windows === '') return capacity
  const rate = {capacityMilli: capacity, refillAmountMilli: 0n, refillPeriodMs: 1000}
  return compileStored({zone, windows}).rateAt(rate, atMs).capacityMilli
}

/** Names of limits with parameters; write pressure has none. */
function limitNames(item: Item): string[] {
  return Object.keys(item).flatMap(key => {
    const name = /^b_(.+)_cp$/.exec(key)?.[1]
    return name === undefined || name === 'wcu' ? [] : [name]
  })
}

/** Counters without a refill instant are left behind by a refund: there is no bucket. */
const live = (item: Item | undefined): Item => (item && 'rf' in item ? item : {})

function text(item: Item, name: string): string {
  const value = item[name]
  return value && 'S' in value ? value.S : ''
}

function big(item: Item, name: string): bigint | undefined {
  const value = item[name]
  return value && 'N' in value && /^-?\d+$/.test(value.N) ? BigInt(value.N) : undefined
}

function number(item: Item, name: string): number | undefined {
  const value = big(item, name)
  return value === undefined ? undefined : Number(value)
}
