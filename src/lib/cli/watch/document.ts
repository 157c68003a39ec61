import type {PollFacts, Row, Selection, WatchData} from '../../watch/model.js'
import {ranking} from '../../watch/rank.js'
import {refusedPerSecond} from '../../watch/request-counts.js'
import {rowAt} from '../../watch/rows.js'
import {worstOf} from '../../watch/status.js'
import {liveCount, totalsAt} from '../../watch/totals.js'
import type {WatchedBucketJson, WatchResult} from '../results/watch.js'

/** The state after a poll. */
export type PolledData = Pick<WatchData, 'readings' | 'known' | 'units' | 'problem'> & {readonly lastPoll: PollFacts}

/** A poll whose buckets are computed when they are needed: there may be a hundred thousand. */
export interface WatchedBuckets {
  /** Everything but the buckets. */
  readonly head: Omit<WatchResult, 'buckets'>
  /** How many there are of them. */
  readonly count: number
  readonly buckets: Iterable<WatchedBucketJson>
}

/** One poll in JSON; lines and tables are made from it. */
export function watchDocument(
  polled: PolledData,
  nowMs: number,
  selection: Selection,
  top: number | undefined,
): WatchResult {
  const {head, buckets} = watchedBuckets(polled, nowMs, selection, top)
  return {...head, buckets: [...buckets]}
}

/** The same with its buckets one by one. */
export function watchedBuckets(
  polled: PolledData,
  nowMs: number,
  selection: Selection,
  top: number | undefined,
): WatchedBuckets {
  const {readings, known, units, problem, lastPoll} = polled
  const find = (id: string) => readings.get(id)
  const {ids, rateLimit = null} = ranking(readings.values(), nowMs, selection, find)
  const chosen = ids.flatMap(id => readings.get(id) ?? [])
  const shown = chosen.slice(0, top)
  const {ratePerSecond, ...totals} = totalsAt(chosen, nowMs, find)
  const worst = worstOf(chosen, nowMs, find)
  const head = {
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
    worst: worst ? bucketDocument(rowAt(worst, nowMs, find), units) : null,
  }
  const buckets = {
    *[Symbol.iterator]() {
      for (const reading of shown) yield bucketDocument(rowAt(reading, nowMs, find), units)
    },
  }
  return {head, count: shown.length, buckets}
}

function bucketDocument(
  {view, tightest, rates, requests, typical, ...row}: Row,
  units: WatchData['units'],
): WatchedBucketJson {
  const {entity, resource, status, ratePerSecond, emptyInMs, fullInMs, shardCount, imbalance, writePressure, ageMs} =
    row
  return {
    entity,
    resource,
    status,
    refusedBy: row.refusedBy ?? null,
    limit: tightest?.name ?? null,
    ratePerSecond,
    refusedPerSecond: refusedPerSecond(requests),
    refused: {
      requests: requests.refused,
      byParent: requests.refusedByParent,
      lastAt: requests.lastRefusedAtMs > 0 ? new Date(requests.lastRefusedAtMs).toISOString() : null,
    },
    emptyInMs,
    fullInMs,
    shardCount,
    imbalance,
    writePressure,
    ageMs,
    limits: view.limits.map(limit => ({
      ...limit,
      ratePerSecond: rates.get(limit.name) ?? null,
      typical: typical.get(limit.name) ?? 1,
      ...(units.has(limit.name) && {unit: units.get(limit.name)}),
    })),
  }
}
