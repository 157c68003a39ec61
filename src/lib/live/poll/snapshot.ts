import type {NamespaceRepository} from '../../repository/repository.js'
import type {Table} from '../../repository/table/table.js'
import type {WatchData, WatchScope} from '../model/model.js'
import {BucketPoller, type PollResult} from './poller.js'

export interface SnapshotOptions {
  readonly signal: AbortSignal
  /** Reads the same buckets a second time after this pause, in ms: rates need two readings. `undefined`: reads once. */
  readonly againAfterMs?: number | undefined
  /** Every bucket, whatever it costs; otherwise as many as a poll of the live view reads. */
  readonly isWhole?: boolean | undefined
}

/**
 * Reads buckets of a scope once; the facts are those of all requests. Requests are retried as usual, because no later poll
 * would make up for a failed one.
 */
export async function takeReadings(
  repository: NamespaceRepository,
  table: Table,
  scope: WatchScope,
  {signal, againAfterMs, isWhole = false}: SnapshotOptions,
): Promise<PollResult & Pick<WatchData, 'units'>> {
  const poller = new BucketPoller({...table, namespace: repository.id}, scope)
  await poller.loadFacts(signal)
  const startedAtMs = table.clock()
  let result = isWhole ? await poller.pollAll(signal) : await poller.poll(new Set(), signal)
  if (againAfterMs !== undefined && result.readings.size > 0) {
    await table.backoff.sleep(againAfterMs, signal)
    result = await poller.pollAgain(result, signal)
  }
  const durationMs = Math.max(0, result.lastPoll.atMs - startedAtMs)
  const {read: readUnits, calls} = poller.cost
  const lastPoll = {...result.lastPoll, durationMs, readUnits, calls}
  return {...result, units: poller.currencies, lastPoll}
}
