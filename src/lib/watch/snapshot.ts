import type {NamespaceRepository} from '../repository/repository.js'
import type {Table} from '../repository/table/table.js'
import type {WatchScope} from './model.js'
import {BucketPoller, type PollResult} from './poller.js'

/**
 * Reads every bucket of a scope once, poll after poll without a pause; the facts are those of all polls together. None
 * comes again, so each request is tried as often as anywhere else.
 */
export async function readOnce(
  repository: NamespaceRepository,
  table: Table,
  scope: WatchScope,
  signal: AbortSignal,
): Promise<PollResult> {
  const poller = new BucketPoller({...table, namespace: repository.id}, scope)
  const startedAtMs = table.clock()
  const nobody = new Set<string>()
  let calls = 0
  for (;;) {
    const {readings, known, lastPoll} = await poller.poll(nobody, signal)
    calls += lastPoll.calls
    const read = [...readings.values()].filter(({isGone}) => !isGone)
    if (!known.isComplete || read.length < known.count) continue
    return {
      readings: new Map(read.map(reading => [reading.id, reading])),
      known,
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
