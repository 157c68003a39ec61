import {formatNumber} from '../../core/text/text.js'
import {Throttled} from '../../dynamo/errors.js'
import type {HealthLine, PollProblem} from '../model/model.js'

/** Read units per poll. */
export const POLL_UNITS = 50
/** Part of `POLL_UNITS`, for listing buckets from an index. */
const LISTING_UNITS = 10

/** Read units of a single poll that no other follows. */
export const ONCE_UNITS = 1000
/** Part of `ONCE_UNITS`, for listing buckets. */
export const ONCE_LISTING_UNITS = 100
/** For all buckets in use, one of which may be the refused one. Less than a cent. */
export const USED_UNITS = 10_000
/** Part of `USED_UNITS`, for finding them. */
export const USED_LISTING_UNITS = 1000

/** Reserved for buckets that are neither visible nor active, so that every bucket is read in turn. */
const ROTATION_FRACTION = 0.25
const ROTATION_FRACTION_WHILE_UNREAD = 0.5

const FIRST_PAGE = 100
const MIN_PAGE = 20
export const MAX_PAGE = 1000

/** For an eventually consistent read of up to 4 KB. */
export const MIN_UNITS_PER_SHARD = 0.5

/** Between listings of several pages; a single page is listed with every poll. */
const LISTING_PAUSE_MS = 30_000

export interface PollCandidate {
  readonly id: string
  readonly shards: number
  readonly readAtMs: number | undefined
  readonly isActive: boolean
}

export function pageSize(unitsPerAddress: number | undefined): number {
  if (unitsPerAddress === undefined || unitsPerAddress <= 0) return FIRST_PAGE
  return Math.max(MIN_PAGE, Math.min(MAX_PAGE, Math.floor(LISTING_UNITS / unitsPerAddress)))
}

export function isListingDue(last: {readonly pages: number; readonly endedAtMs: number}, nowMs: number): boolean {
  return last.pages <= 1 || nowMs - last.endedAtMs >= LISTING_PAUSE_MS
}

export function affordableShards(listingUnits: number, unitsPerShard: number, budget = POLL_UNITS): number {
  return Math.max(1, Math.floor((budget - listingUnits) / unitsPerShard))
}

/** All if affordable. Otherwise the oldest reading at any cost, then visible and active buckets, then more old ones. */
export function planReads(
  candidates: readonly PollCandidate[],
  focus: ReadonlySet<string>,
  affordable: number,
): readonly string[] {
  if (candidates.reduce((sum, {shards}) => sum + shards, 0) <= affordable) return candidates.map(({id}) => id)
  const oldestFirst = candidates.toSorted((a, b) => (a.readAtMs ?? 0) - (b.readAtMs ?? 0))
  const chosen = new Set<string>()
  let spent = 0
  const choose = (from: readonly PollCandidate[], budget: number): void => {
    for (const {id, shards} of from) {
      if (chosen.has(id) || spent + shards > budget) continue
      chosen.add(id)
      spent += shards
    }
  }
  choose(oldestFirst.slice(0, 1), Number.POSITIVE_INFINITY)
  const hasUnread = oldestFirst.some(({readAtMs}) => readAtMs === undefined)
  const unreserved = affordable * (1 - (hasUnread ? ROTATION_FRACTION_WHILE_UNREAD : ROTATION_FRACTION))
  choose(
    oldestFirst.filter(({id}) => focus.has(id)),
    unreserved,
  )
  choose(
    oldestFirst.filter(({isActive}) => isActive),
    unreserved,
  )
  choose(oldestFirst, affordable)
  return [...chosen]
}

const MAX_PAUSE_MS = 60_000

export class PollStats {
  #polls = 0
  #failed = 0
  #throttled = 0
  #consecutiveThrottles = 0
  #failingSinceMs: number | undefined

  recordSuccess(): void {
    this.#polls++
    this.#consecutiveThrottles = 0
    this.#failingSinceMs = undefined
  }

  recordFailure(
    error: unknown,
    nowMs: number,
    intervalMs: number,
  ): Omit<PollProblem, 'nextTryAtMs'> & {pauseMs: number} {
    this.#polls++
    this.#failed++
    this.#failingSinceMs ??= nowMs
    const isThrottled = error instanceof Throttled
    if (isThrottled) this.#throttled++
    this.#consecutiveThrottles = isThrottled ? this.#consecutiveThrottles + 1 : 0
    const pauseMs = Math.max(intervalMs, Math.min(MAX_PAUSE_MS, intervalMs * 2 ** this.#consecutiveThrottles))
    return {
      message: error instanceof Error ? error.message : String(error),
      isThrottled,
      sinceMs: this.#failingSinceMs,
      pauseMs,
    }
  }

  healthLines(readUnits: number, unreadable: number): HealthLine[] {
    const count = (value: number) => formatNumber(value, 'nearest', 1)
    const parts = [`${count(this.#polls)} done`, `${count(this.#failed)} failed`, `${count(this.#throttled)} throttled`]
    const isFailing = this.#failingSinceMs !== undefined
    const polls: HealthLine = {
      name: 'polls',
      state: isFailing ? 'bad' : this.#failed > 0 ? 'warn' : 'ok',
      text: `${parts.join(', ')}, ${count(readUnits)} read units`,
    }
    if (unreadable === 0) return [polls]
    return [polls, {name: 'buckets', state: 'warn', text: `${count(unreadable)} unreadable: their items have no state`}]
  }
}
