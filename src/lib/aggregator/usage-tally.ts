import {type Window, windowStart} from '../core/window.js'
import type {BucketChange} from './bucket-change.js'

/** What the changes of a batch add to one usage record. */
export interface UsageTally {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly window: Window
  readonly start: string
  /** In the order of the stream, each once, per shard of the bucket. */
  readonly changes: ReadonlyMap<number, readonly BucketChange[]>
}

/** Marks of more shards than this would not fit into the 4 KB of one expression. */
const SHARDS_PER_WRITE = 32

/**
 * One tally per usage record, over all shards of the bucket. A change that neither consumed nor admitted anything, such
 * as a refill, is left out; one that another takes back is not, because a retry may bring only one of the two.
 */
export function tallyUsage(changes: readonly BucketChange[], windows: readonly Window[]): UsageTally[] {
  const tallies = new Map<string, Omit<UsageTally, 'changes'> & {changes: Map<number, BucketChange[]>}>()
  for (const change of inOrder(changes)) {
    if (change.consumedMilli.size === 0 && change.admitted === 0) continue
    const {namespace, entity, resource, shard} = change
    for (const window of windows) {
      const start = windowStart(window, change.atMs)
      const key = [namespace, entity, resource, window, start, Math.floor(shard / SHARDS_PER_WRITE)].join('#')
      let tally = tallies.get(key)
      if (!tally) {
        tally = {namespace, entity, resource, window, start, changes: new Map()}
        tallies.set(key, tally)
      }
      const ofShard = tally.changes.get(shard)
      if (!ofShard) tally.changes.set(shard, [change])
      else if (ofShard.at(-1)?.position !== change.position) ofShard.push(change)
    }
  }
  return [...tallies.values()]
}

function inOrder(changes: readonly BucketChange[]): BucketChange[] {
  return changes.toSorted((a, b) => (a.position < b.position ? -1 : a.position > b.position ? 1 : 0))
}
