import {kindedRateOf} from '../../../src/lib/core/calendar/kind-definition.js'
import {compileStored} from '../../../src/lib/core/calendar/stored-schedule.js'
import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {isSameLimit} from '../../../src/lib/core/limits/limit-kind.js'
import {shareOf} from '../../../src/lib/core/token-math.js'
import type {RateLimitExceeded} from '../../../src/lib/limiter/refusal/errors.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {decodeBucket} from '../../../src/lib/schema/bucket-record.js'
import type {Verdicts} from '../oracles/verdicts.js'
import {bucketId, type TableWrite} from '../world/table-writes.js'
import {nextReset} from './calendar.js'
import {capacityAt, endOf, quotaChanges, quotasOf, type StoredQuota, windowOf} from './stored-quota.js'

/** Maximum age of the state behind a refusal, in ms: `denyCacheMs` plus the travel time of a message. */
const OLDEST_STATE_MS = 1200

/** Time until a write without faults is applied, in ms. */
const LONGEST_UNDER_WAY_MS = 200

/** Window boundaries to follow when checking a wait. */
const MOST_BOUNDARIES = 400

/** A refusal, with the start and end of its request, in epoch ms. */
export interface Refusal {
  readonly namespace: string
  readonly error: RateLimitExceeded
  readonly startedMs: number
  readonly endedMs: number
}

/** A possible violation of a refusal, until it is certain. */
interface Finding {
  readonly oracle: string
  readonly bucket: string
  readonly subject: string
  readonly message: string
  readonly atMs: number
}

/**
 * L2 and L6 of quotas: available tokens are never refused, refusals report exactly the remaining tokens, and waits are
 * exact to the millisecond. One exception: tokens charged by a write in flight, for requests that the same process
 * batched, do not count as remaining.
 */
export class QuotaRefusals {
  readonly #verdicts: Verdicts
  readonly #items: () => readonly Item[]
  readonly #configured: (bucket: string, name: string) => Limit | undefined
  readonly #writtenAtMs = new Map<string, number>()
  #findings: Finding[] = []

  constructor(
    verdicts: Verdicts,
    items: () => readonly Item[],
    configured: (bucket: string, name: string) => Limit | undefined = () => undefined,
  ) {
    this.#verdicts = verdicts
    this.#items = items
    this.#configured = configured
  }

  observe({shards, changes, atMs}: TableWrite): void {
    for (const {bucket} of shards) this.#writtenAtMs.set(bucket, atMs)
    const charged = new Set(changes.flatMap(quotaChanges).flatMap(({bucket, taken}) => (taken > 0n ? [bucket] : [])))
    this.#findings = this.#findings.filter(each => !charged.has(each.bucket) || atMs > each.atMs + LONGEST_UNDER_WAY_MS)
  }

  /** Call when nothing is in progress. */
  check(): void {
    for (const {oracle, subject, message} of this.#findings) this.#verdicts.report(oracle, subject, message)
    this.#findings = []
  }

  /** Judges refusals of processes with exact clocks and no faults, by settled limits. */
  judge({namespace, error, startedMs, endedMs}: Refusal): void {
    for (const status of error.statuses) {
      const bucket = bucketId(namespace, status.entity, status.resource)
      const isQuiet = (this.#writtenAtMs.get(bucket) ?? 0) < startedMs - OLDEST_STATE_MS
      const shards = this.#shardsOf(bucket, status.name)
      if (!isQuiet || !shards) continue
      const needed = BigInt(status.requested) * 1000n
      const [first, last] = [leftAt(shards, startedMs), leftAt(shards, endedMs)]
      const find = (oracle: string, message: string) =>
        this.#findings.push({oracle, bucket, subject: `${bucket} ${status.name}`, message, atMs: endedMs})
      // A debt is reported as such.
      if (first === last && Math.max(0, status.available) !== Number(first / 1000n))
        find('L6-left', `${status.available} were said to be left, ${first / 1000n} are`)
      if (!status.exceeded) continue
      if (first >= needed && last >= needed) {
        find('L1-refused', `${status.requested} were refused, and ${Number(first) / 1000} are left`)
        continue
      }
      // A write now would cut the balance above the current capacity, and a higher capacity later does not restore it.
      const cut = new Map([...shards].map(([shard, quota]) => [shard, cutAt(quota, shard, endedMs)]))
      const [dueMs, latestMs] = [whenLeft(shards, needed, endedMs), whenLeft(cut, needed, endedMs)]
      if (dueMs === undefined || latestMs === undefined || first >= needed || last >= needed) continue
      const {retryAfterMs} = status
      if (retryAfterMs === null) {
        find('L2-infinite', 'reported no wait')
        continue
      }
      const message = `reported a wait of ${retryAfterMs} ms, ${dueMs - endedMs} to ${latestMs - startedMs} are right`
      if (endedMs + retryAfterMs < dueMs) find('L2-too-short', message)
      if (startedMs + retryAfterMs > latestMs + 2) find('L2-too-long', message)
    }
  }

  /** Processes report by the configuration, even before the bucket is updated. */
  #isInLine(bucket: string, name: string, item: Item): boolean {
    const limit = this.#configured(bucket, name)
    const stored = decodeBucket(item)
    const state = stored?.kind === 'bucket' ? stored.record.state.limits.get(name) : undefined
    return !limit || (state !== undefined && isSameLimit(kindedRateOf(limit, 0), state))
  }

  /**
   * The shards of a quota; `undefined` if it is not a quota, or a shard is missing or has other limits than configured.
   */
  #shardsOf(bucket: string, name: string): ReadonlyMap<number, StoredQuota> | undefined {
    const shards = new Map<number, StoredQuota>()
    const [namespace, entity, resource] = bucket.split('/')
    const prefix = `${namespace}/BUCKET#${entity}#${resource}#`
    for (const item of this.#items()) {
      const key = item.PK && 'S' in item.PK ? item.PK.S : ''
      if (!key.startsWith(prefix) || !('rf' in item) || 'disabled' in item) continue
      const quota = quotasOf(item).get(name)
      if (quota && !this.#isInLine(bucket, name, item)) return undefined
      if (quota) shards.set(Number(key.slice(prefix.length)), quota)
    }
    const counts = [...shards.values()].map(({shardCount}) => shardCount)
    return shards.size > 0 && counts.every(count => count === shards.size) ? shards : undefined
  }
}

/** Millitokens that all shards together can give at an instant. */
function leftAt(shards: ReadonlyMap<number, StoredQuota>, atMs: number): bigint {
  let left = 0n
  for (const [shard, quota] of shards) {
    const held = heldAt(quota, shard, atMs)
    if (held > 0n) left += held
  }
  return left
}

function heldAt(quota: StoredQuota, shard: number, atMs: number): bigint {
  const share = shareOf(capacityAt(quota, atMs), shard, quota.shardCount)
  const {startMs, appliedMs, mark, consumed, tokens} = quota
  if (quota.resets === '') {
    if (startMs === undefined || atMs >= startMs + quota.sessionMs) return share
    if (startMs > (appliedMs ?? quota.refilledAtMs)) {
      const spent = mark === undefined || consumed < mark ? 0n : consumed - mark
      return share - spent
    }
  } else if (atMs >= endOf(quota, windowOf(quota))) return share
  const ceiling = ceilingAt(quota, shard, atMs)
  return tokens < ceiling ? tokens : ceiling
}

const cutAt = (quota: StoredQuota, shard: number, atMs: number): StoredQuota => {
  const ceiling = ceilingAt(quota, shard, atMs)
  return quota.tokens > ceiling ? {...quota, tokens: ceiling} : quota
}

function ceilingAt(quota: StoredQuota, shard: number, atMs: number): bigint {
  const count = quota.grantCount ?? quota.shardCount
  return shareOf(capacityAt(quota, atMs), shard % count, count) + quota.topUp
}

/** The first instant with this many tokens if nobody takes any; `undefined` if too far away. */
function whenLeft(shards: ReadonlyMap<number, StoredQuota>, needed: bigint, fromMs: number): number | undefined {
  let atMs = fromMs
  for (let boundaries = 0; boundaries < MOST_BOUNDARIES; boundaries++) {
    atMs = Math.min(...[...shards.values()].map(quota => boundaryAfter(quota, atMs)))
    if (!Number.isFinite(atMs)) return undefined
    if (leftAt(shards, atMs) >= needed) return atMs
  }
  return undefined
}

function boundaryAfter({resets, windows, zone, startMs, sessionMs}: StoredQuota, atMs: number): number {
  const endMs = resets === '' && startMs !== undefined ? startMs + sessionMs : Number.POSITIVE_INFINITY
  return Math.min(
    resets === '' ? Number.POSITIVE_INFINITY : nextReset({zone, resets}, atMs),
    windows === '' ? Number.POSITIVE_INFINITY : compileStored({zone, windows}).nextWindowChange(atMs),
    endMs > atMs ? endMs : Number.POSITIVE_INFINITY,
  )
}
