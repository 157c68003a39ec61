import type {PollFacts, Row, Selection, WatchData} from '../../watch/model.js'
import {ranking} from '../../watch/rank.js'
import {rowAt, worstOf} from '../../watch/rows.js'
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
  const {ids, rateLimit = null} = ranking(readings.values(), nowMs, selection)
  const chosen = ids.flatMap(id => readings.get(id) ?? [])
  const rows = chosen.slice(0, top).map(reading => rowAt(reading, nowMs))
  const {buckets, over, near, overdrawn, inDebt, shards, ratePerSecond} = totalsAt(chosen, nowMs)
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
    totals: {buckets, over, near, overdrawn, inDebt, shards, ratePerSecond: Object.fromEntries(ratePerSecond)},
    rateLimit,
    worst: worst ? bucketDocument(rowAt(worst, nowMs)) : null,
    buckets: rows.map(bucketDocument),
  }
}

function bucketDocument({view, tightest, rates, ...row}: Row): WatchedBucketJson {
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
