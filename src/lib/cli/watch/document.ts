import type {LimitLevel} from '../../repository/buckets/view.js'
import type {Known, PollFacts, Row, Selection, WatchData} from '../../watch/model.js'
import {ranking} from '../../watch/rank.js'
import {rowAt, worstOf} from '../../watch/rows.js'
import {liveCount, totalsAt} from '../../watch/totals.js'

/** The state after a poll. */
export type PolledData = Pick<WatchData, 'readings' | 'known' | 'problem'> & {readonly lastPoll: PollFacts}

/** One bucket in JSON. */
export interface BucketDocument {
  readonly entity: string
  readonly resource: string
  readonly status: Row['status']
  /** Name of the tightest limit. */
  readonly limit: string | null
  readonly ratePerSecond: number | null
  readonly emptyInMs: number | null
  readonly fullInMs: number | null
  readonly shardCount: number
  readonly imbalance: number
  readonly writePressure: number
  readonly ageMs: number
  readonly limits: readonly LimitDocument[]
}

/** One limit of a bucket. */
export interface LimitDocument extends LimitLevel {
  readonly ratePerSecond: number | null
}

/** The state of the selected buckets at one instant. */
export interface WatchDocument {
  readonly at: string
  /** 1 for the first. */
  readonly poll: number
  readonly readUnits: number
  readonly calls: number
  readonly durationMs: number
  /** Since the last successful poll. */
  readonly dataAgeMs: number
  readonly known: Known
  readonly bucketsRead: number
  /** Buckets that were read at least once, selected or not. */
  readonly bucketsWatched: number
  /** The last poll did not read all known buckets, or not all buckets are known yet. */
  readonly sampled: boolean
  /** Age of the oldest reading. */
  readonly oldestAgeMs: number | null
  readonly problem: {readonly message: string; readonly throttled: boolean; readonly since: string} | null
  readonly totals: {
    readonly buckets: number
    readonly over: number
    readonly near: number
    readonly inDebt: number
    readonly shards: number
    readonly ratePerSecond: Readonly<Record<string, number>>
  }
  /** The limit whose rate the buckets are sorted by; `null`: another sort key, or no rate is known. */
  readonly rateLimit: string | null
  readonly worst: BucketDocument | null
  readonly buckets: readonly BucketDocument[]
}

/** One poll in JSON; lines and tables are made from it. */
export function watchDocument(
  polled: PolledData,
  nowMs: number,
  selection: Selection,
  top: number | undefined,
): WatchDocument {
  const {readings, known, problem, lastPoll} = polled
  const {ids, rateLimit = null} = ranking(readings.values(), nowMs, selection)
  const chosen = ids.flatMap(id => readings.get(id) ?? [])
  const rows = chosen.slice(0, top).map(reading => rowAt(reading, nowMs))
  const {ratePerSecond, ...totals} = totalsAt(chosen, nowMs)
  const worst = worstOf(chosen, nowMs)
  return {
    at: new Date(nowMs).toISOString(),
    poll: lastPoll.number,
    readUnits: lastPoll.readUnits,
    calls: lastPoll.calls,
    durationMs: lastPoll.durationMs,
    dataAgeMs: Math.max(0, nowMs - lastPoll.atMs),
    known,
    bucketsRead: lastPoll.bucketsRead,
    bucketsWatched: liveCount(readings),
    sampled: lastPoll.bucketsRead < known.count || !known.isComplete,
    oldestAgeMs: chosen.length === 0 ? null : chosen.reduce((age, {readAtMs}) => Math.max(age, nowMs - readAtMs), 0),
    problem: problem
      ? {message: problem.message, throttled: problem.isThrottled, since: new Date(problem.sinceMs).toISOString()}
      : null,
    totals: {...totals, ratePerSecond: Object.fromEntries(ratePerSecond)},
    rateLimit,
    worst: worst ? bucketDocument(rowAt(worst, nowMs)) : null,
    buckets: rows.map(bucketDocument),
  }
}

function bucketDocument({view, tightest, rates, ...row}: Row): BucketDocument {
  const {entity, resource, status, ratePerSecond, emptyInMs, fullInMs, shardCount, imbalance, writePressure, ageMs} =
    row
  return {
    entity,
    resource,
    status,
    limit: tightest?.name ?? null,
    ratePerSecond,
    emptyInMs,
    fullInMs,
    shardCount,
    imbalance,
    writePressure,
    ageMs,
    limits: view.limits.map(limit => ({...limit, ratePerSecond: rates.get(limit.name) ?? null})),
  }
}
