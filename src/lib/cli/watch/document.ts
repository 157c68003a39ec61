import type {PollFacts, Row, Selection, WatchData} from '../../watch/model.js'
import {ranking} from '../../watch/rank.js'
import {refusedPerSecond} from '../../watch/request-counts.js'
import {rowAt} from '../../watch/rows.js'
import {worstOf} from '../../watch/status.js'
import {liveCount, totalsAt} from '../../watch/totals.js'
import type {WatchedBucketJson, WatchResult} from '../results/watch.js'

/** The state after a poll. */
export type PolledData = Pick<WatchData, 'readings' | 'known' | 'problem'> & {readonly lastPoll: PollFacts}

/** One poll in JSON; lines and tables are made from it. */
export function watchDocument(
  polled: PolledData,
  nowMs: number,
  selection: Selection,
  top: number | undefined,
): WatchResult {
  const {readings, known, problem, lastPoll} = polled
  const find = (id: string) => readings.get(id)
  const {ids, rateLimit = null} = ranking(readings.values(), nowMs, selection, find)
  const chosen = ids.flatMap(id => readings.get(id) ?? [])
  const rows = chosen.slice(0, top).map(reading => rowAt(reading, nowMs, find))
  const {ratePerSecond, ...totals} = totalsAt(chosen, nowMs, find)
  const worst = worstOf(chosen, nowMs, find)
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
    worst: worst ? bucketDocument(rowAt(worst, nowMs, find)) : null,
    buckets: rows.map(bucketDocument),
  }
}

function bucketDocument({view, tightest, rates, requests, typical, ...row}: Row): WatchedBucketJson {
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
    })),
  }
}
