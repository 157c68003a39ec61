import {pick} from '../cli/output/json-text.js'
import {refusedByOthers} from '../insight/usage/refused.js'
import type {FindReading, PollFacts, Reading, Selection, WatchData} from './model/model.js'
import {ranking} from './model/rank.js'
import {refusedPerSecond} from './model/request-counts.js'
import {type Row, rowAt} from './model/status.js'
import {totalsAt} from './model/totals.js'
import type {WatchedBucketJson, WatchResult} from './results.js'

export type PolledData = Pick<WatchData, 'readings' | 'known' | 'units' | 'problem'> & {readonly lastPoll: PollFacts}

/** Computes buckets on demand: there may be a hundred thousand. */
export interface WatchedBuckets {
  readonly head: Omit<WatchResult, 'buckets'>
  readonly count: number
  readonly sort: Selection['sort']
  readonly buckets: Iterable<WatchedBucketJson>
}

export function watchDocument(
  polled: PolledData,
  nowMs: number,
  selection: Selection,
  top: number | undefined,
): WatchResult {
  const {head, buckets} = watchedBuckets(polled, nowMs, selection, top)
  return {...head, buckets: [...buckets]}
}

export function watchedBuckets(
  polled: PolledData,
  nowMs: number,
  selection: Selection,
  top: number | undefined,
): WatchedBuckets {
  const {readings, known, units, problem, lastPoll} = polled
  const find = (id: string) => readings.get(id)
  const {ids, rateLimit = null, live: bucketsWatched} = ranking(readings.values(), nowMs, selection, find)
  const {ratePerSecond, worst, oldestAgeMs, ...totals} = totalsAt(readingsOf(ids, find), nowMs, find)
  const shown = ids.slice(0, top)
  const head = {
    at: new Date(nowMs).toISOString(),
    poll: lastPoll.number,
    ...pick(lastPoll, 'readUnits', 'calls', 'durationMs'),
    dataAgeMs: Math.max(0, nowMs - lastPoll.atMs),
    known,
    bucketsRead: lastPoll.bucketsRead,
    bucketsWatched,
    sampled: lastPoll.bucketsRead < known.count || !known.isComplete,
    usedFirst: lastPoll.usedFirst ? {since: lastPoll.usedFirst.since, complete: lastPoll.usedFirst.isComplete} : null,
    oldestAgeMs,
    problem: problem
      ? {message: problem.message, throttled: problem.isThrottled, since: new Date(problem.sinceMs).toISOString()}
      : null,
    totals: {...totals, ratePerSecond: Object.fromEntries(ratePerSecond)},
    rateLimit,
    worst: worst ? bucketDocument(rowAt(worst, nowMs, find), units) : null,
  }
  const buckets = {
    *[Symbol.iterator]() {
      for (const reading of readingsOf(shown, find)) yield bucketDocument(rowAt(reading, nowMs, find), units)
    },
  }
  return {head, count: shown.length, sort: selection.sort, buckets}
}

function* readingsOf(ids: readonly string[], find: FindReading): Generator<Reading, void> {
  for (const id of ids) {
    const reading = find(id)
    if (reading) yield reading
  }
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
      ...refusedByOthers({byParent: requests.refusedByParent, accounts: requests.accounts}),
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
