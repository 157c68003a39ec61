import type {NamespaceRepository} from '../repository/repository.js'
import type {Table} from '../repository/table/table.js'
import type {WatchScope} from './model.js'
import {BucketPoller, type PollResult} from './poller.js'

/**
 * Reads every bucket of a scope once, with as many polls as it takes, without pauses; the facts are those of all polls. Requests
 * are retried as usual, because no later poll would make up for a failed one.
 */
export async function readOnce(
  repository: NamespaceRepository,
  table: Table,
  scope: WatchScope,
  signal: AbortSignal,
): Promise<PollResult> {
  const poller = new BucketPoller({...table, namespace: repository.id}, scope)
  const startedAtMs = table.clock()
  const noFocus = new Set<string>()
  let calls = 0
  for (;;) {
    const {readings, known, names, lastPoll} = await poller.poll(noFocus, signal)
    calls += lastPoll.calls
    const read = [...readings.values()].filter(({isGone}) => !isGone)
    if (!known.isComplete || read.length < known.count) continue
    return {
      readings: new Map(read.map(reading => [reading.id, reading])),
      known,
      names,
      lastPoll: {
        ...lastPoll,
        durationMs: Math.max(0, lastPoll.atMs - startedAtMs),
        readUnits: poller.units,
        calls,
        bucketsRead: read.length,
      },
    }
  }
}
