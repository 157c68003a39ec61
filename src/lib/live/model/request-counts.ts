import {addressOf} from '../../repository/buckets/buckets.js'
import type {CountedShard} from '../../repository/buckets/pages.js'
import type {BucketCounts} from '../../schema/refusal-counts.js'

/** Limiters write to a bucket that refuses everything at most this often. A shorter window would show bursts. */
const WINDOW_MS = 10_000

/** After this time another refusal would be visible: `WINDOW_MS` plus the time to read it. */
const RECENT_MS = 12_000

/** An instant further ahead comes from a client with a wrong clock. */
const MAX_AHEAD_MS = 60_000

/** Totals since the first reading. Readings without a change share one sample. */
interface RefusalSample {
  /** Epoch ms of the first and last reading with these counts. */
  readonly sinceMs: number
  readonly untilMs: number
  readonly own: number
  readonly byParent: number
}

interface ShardCounts extends BucketCounts {
  readonly shard: number
}

interface RefusalRates {
  readonly own: number
  readonly byParent: number
}

export interface RequestCounts {
  readonly admitted: number
  /** By its own limits; at a parent, including its children's requests. */
  readonly refused: number
  /** Refused by the parent or a shared scope; its own limits would have admitted these requests. */
  readonly refusedByParent: number
  /** Shared scopes among them, by the id of their bucket. Absent without any. */
  readonly accounts?: ReadonlyMap<string, number>
  /** Epoch ms; 0: never. */
  readonly lastRefusedAtMs: number
  /** Over the last 10 s, or between two readings if longer; `undefined` after the first reading. */
  readonly refusedPerSecond: RefusalRates | undefined
  readonly shards: readonly ShardCounts[]
  /** Oldest first: those in the window, and the one at its start. */
  readonly samples: readonly RefusalSample[]
}

const NO_RATES: RefusalRates = {own: 0, byParent: 0}

export const NO_REQUESTS: RequestCounts = {
  admitted: 0,
  refused: 0,
  refusedByParent: 0,
  lastRefusedAtMs: 0,
  refusedPerSecond: undefined,
  shards: [],
  samples: [],
}

export function nextRequestCounts(
  previous: RequestCounts | undefined,
  stored: readonly CountedShard[],
  readAtMs: number,
): RequestCounts {
  const known = previous ?? NO_REQUESTS
  if (!previous && stored.every(({counts}) => counts === undefined)) return nothingCounted(readAtMs)
  const shards: ShardCounts[] = []
  let [admitted, refused, refusedByParent, lastRefusedAtMs] = [0, 0, 0, 0]
  let [own, byParent] = [0, 0]
  let accounts: Map<string, number> | undefined
  for (const each of stored) {
    const {shard} = addressOf(each)
    const before = known.shards.find(each => each.shard === shard)
    const counts = latest(before, each.counts)
    if (!counts) continue
    shards.push({...counts, shard})
    admitted += counts.requests
    refused += counts.refused
    refusedByParent += counts.refusedByParent
    for (const [id, requests] of counts.accounts ?? []) {
      accounts ??= new Map()
      accounts.set(id, (accounts.get(id) ?? 0) + requests)
    }
    lastRefusedAtMs = Math.max(lastRefusedAtMs, counts.lastRefusedAtMs)
    // A new shard counted these earlier, or another client copied them.
    if (!before) continue
    own += Math.max(0, counts.refused - (isNewItem(before, counts) ? 0 : before.refused))
    byParent += Math.max(0, counts.refusedByParent - (isNewItem(before, counts) ? 0 : before.refusedByParent))
  }
  const last = known.samples.at(-1)
  const isSame = last !== undefined && own + byParent === 0
  const sinceMs = isSame ? last.sinceMs : readAtMs
  const sums = {own: (last?.own ?? 0) + own, byParent: (last?.byParent ?? 0) + byParent}
  const before = isSame ? known.samples.slice(0, -1) : known.samples
  const samples = last
    ? withinWindow([...before, {sinceMs, untilMs: readAtMs, ...sums}])
    : nothingCounted(readAtMs).samples
  const rates = last && ratesOf(samples)
  const counts = {admitted, refused, refusedByParent, ...(accounts && {accounts}), lastRefusedAtMs}
  return {...counts, refusedPerSecond: rates, shards, samples}
}

let first = NO_REQUESTS

function nothingCounted(readAtMs: number): RequestCounts {
  if (first.samples[0]?.untilMs !== readAtMs) {
    first = {...NO_REQUESTS, samples: [{sinceMs: readAtMs, untilMs: readAtMs, own: 0, byParent: 0}]}
  }
  return first
}

/** A re-created item counts from zero, and its last refusal is later. */
function isNewItem(before: BucketCounts, {refused, refusedByParent, lastRefusedAtMs}: BucketCounts): boolean {
  const isLess = refused < before.refused || refusedByParent < before.refusedByParent
  return isLess && (refused + refusedByParent === 0 || lastRefusedAtMs > before.lastRefusedAtMs)
}

/** Refusals never decrease: a lower count of the same item is a stale, eventually consistent read. */
function latest(before: BucketCounts | undefined, read: BucketCounts | undefined): BucketCounts | undefined {
  if (!before || !read) return read ?? before
  const isLess = read.refused < before.refused || read.refusedByParent < before.refusedByParent
  return isLess && !isNewItem(before, read) ? before : read
}

function withinWindow(samples: readonly RefusalSample[]): RefusalSample[] {
  const fromMs = (samples.at(-1)?.untilMs ?? 0) - WINDOW_MS
  const first = samples.findLastIndex(({sinceMs}) => sinceMs <= fromMs)
  return samples.slice(Math.max(0, first))
}

/** Divides by the whole window, so it is too low in the first seconds. */
function ratesOf(samples: readonly RefusalSample[]): RefusalRates {
  const [from, to] = [samples[0], samples.at(-1)]
  if (!from || !to || (from.own === to.own && from.byParent === to.byParent)) return NO_RATES
  const seconds = Math.max(WINDOW_MS, to.untilMs - from.untilMs) / 1000
  return {own: (to.own - from.own) / seconds, byParent: (to.byParent - from.byParent) / seconds}
}

/** By its own limits and its parent's; `null` until the second reading. */
export function refusedPerSecond({refusedPerSecond: rates}: RequestCounts): number | null {
  return rates ? rates.own + rates.byParent : null
}

export function isBeingRefused(requests: RequestCounts, readAtMs: number): boolean {
  const {lastRefusedAtMs} = requests
  const isRecent = lastRefusedAtMs > readAtMs - RECENT_MS && lastRefusedAtMs < readAtMs + MAX_AHEAD_MS
  return isRecent || (refusedPerSecond(requests) ?? 0) > 0
}
