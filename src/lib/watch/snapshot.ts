import type {NamespaceRepository} from '../repository/repository.js'
import type {Table} from '../repository/table/table.js'
import type {WatchScope} from './model.js'
import {BucketPoller, type PollResult} from './poller.js'

/** How a snapshot is taken. */
export interface SnapshotOptions {
  readonly signal: AbortSignal
  /** Reads everything a second time after this pause, in ms: rates need two readings. `undefined`: reads once. */
  readonly againAfterMs?: number | undefined
}

/**
 * Reads every bucket of a scope, with as many polls as it takes, without pauses; the facts are those of all polls. Requests
 * are retried as usual, because no later poll would make up for a failed one.
 */
export async function takeReadings(
  repository: NamespaceRepository,
  table: Table,
  scope: WatchScope,
  {signal, againAfterMs}: SnapshotOptions,
): Promise<PollResult> {
  const poller = new BucketPoller({...table, namespace: repository.id}, scope)
  const startedAtMs = table.clock()
  let result = await readAll(poller, startedAtMs, signal)
  if (againAfterMs !== undefined && result.readings.size > 0) {
    await table.backoff.sleep(againAfterMs, signal)
    const {calls} = result.lastPoll
    result = await readAll(poller, table.clock(), signal)
    result = {...result, lastPoll: {...result.lastPoll, calls: calls + result.lastPoll.calls}}
  }
  const durationMs = Math.max(0, result.lastPoll.atMs - startedAtMs)
  return {...result, lastPoll: {...result.lastPoll, durationMs, readUnits: poller.units}}
}

/** Polls until every bucket was read at an instant or after it. */
async function readAll(poller: BucketPoller, sinceMs: number, signal: AbortSignal): Promise<PollResult> {
  const noFocus = new Set<string>()
  let calls = 0
  for (;;) {
    const {readings, known, names, lastPoll} = await poller.poll(noFocus, signal, sinceMs)
    calls += lastPoll.calls
    const read = [...readings.values()].filter(({isGone}) => !isGone)
    const current = read.filter(({readAtMs}) => readAtMs >= sinceMs)
    if (!known.isComplete || current.length < known.count) continue
    return {
      readings: new Map(read.map(reading => [reading.id, reading])),
      known,
      names,
      lastPoll: {...lastPoll, calls, bucketsRead: read.length},
    }
  }
}
