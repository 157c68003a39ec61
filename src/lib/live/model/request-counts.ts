import {addressOf} from '../../repository/buckets/buckets.js'
import type {CountedShard} from '../../repository/buckets/pages.js'
import type {BucketCounts} from '../../schema/refusal-counts.js'

/** Limiters write the refusals of a bucket that only refuses at most this often, so a shorter time shows nothing or a heap. */
const WINDOW_MS = 10_000

/** A refusal is recent for as long as the next one may take to become visible: that time, and a moment to be read. */
const RECENT_MS = 12_000

/** An instant further ahead is of a client whose clock is wrong; it says nothing about how long ago that was. */
const MAX_AHEAD_MS = 60_000

/** Refused requests since the first reading; most buckets have one sample, as long as nothing changes. */
interface RefusalSample {
  /** Epoch ms of the first and of the last reading with these counts. */
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

/** The requests of a bucket, over all shards, since its items exist. */
export interface RequestCounts {
  /** Net. */
  readonly admitted: number
  /** By its own limits; at a parent, also the requests of its children. */
  readonly refused: number
  /** By its parent alone. */
  readonly refusedByParent: number
  /** Epoch ms; 0: never. */
  readonly lastRefusedAtMs: number
  /** Over the last ten seconds, or the time between two readings if that is longer; `undefined` after the first reading. */
  readonly refusedPerSecond: RefusalRates | undefined
  readonly shards: readonly ShardCounts[]
  /** Oldest first: all of the window, and what was known at its start. */
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
  for (const each of stored) {
    const {shard} = addressOf(each)
    const before = known.shards.find(each => each.shard === shard)
    const counts = latest(before, each.counts)
    if (!counts) continue
    shards.push({...counts, shard})
    admitted += counts.requests
    refused += counts.refused
    refusedByParent += counts.refusedByParent
    lastRefusedAtMs = Math.max(lastRefusedAtMs, counts.lastRefusedAtMs)
    // What a shard has counted before it was first seen was counted before, or copied by another client.
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
  return {admitted, refused, refusedByParent, lastRefusedAtMs, refusedPerSecond: rates, shards, samples}
}

let first = NO_REQUESTS

/** The first reading of buckets that count no requests; those that were read together share it. */
function nothingCounted(readAtMs: number): RequestCounts {
  if (first.samples[0]?.untilMs !== readAtMs) {
    first = {...NO_REQUESTS, samples: [{sinceMs: readAtMs, untilMs: readAtMs, own: 0, byParent: 0}]}
  }
  return first
}

/** An item that was created again counts from zero, and its last refusal is later. */
function isNewItem(before: BucketCounts, {refused, refusedByParent, lastRefusedAtMs}: BucketCounts): boolean {
  const isLess = refused < before.refused || refusedByParent < before.refusedByParent
  return isLess && (refused + refusedByParent === 0 || lastRefusedAtMs > before.lastRefusedAtMs)
}

/** Refusals are only added to: fewer of them in the same item are a stale answer of an eventually consistent read. */
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

/** Too little rather than too much: in the first seconds, what was refused is divided by the whole window. */
function ratesOf(samples: readonly RefusalSample[]): RefusalRates {
  const [from, to] = [samples[0], samples.at(-1)]
  if (!from || !to || (from.own === to.own && from.byParent === to.byParent)) return NO_RATES
  const seconds = Math.max(WINDOW_MS, to.untilMs - from.untilMs) / 1000
  return {own: (to.own - from.own) / seconds, byParent: (to.byParent - from.byParent) / seconds}
}

/** Requests of an entity refused per second, by itself and by its parent; `null` until there are two readings. */
export function refusedPerSecond({refusedPerSecond: rates}: RequestCounts): number | null {
  return rates ? rates.own + rates.byParent : null
}

export function isBeingRefused(requests: RequestCounts, readAtMs: number): boolean {
  const {lastRefusedAtMs} = requests
  const isRecent = lastRefusedAtMs > readAtMs - RECENT_MS && lastRefusedAtMs < readAtMs + MAX_AHEAD_MS
  return isRecent || (refusedPerSecond(requests) ?? 0) > 0
}
