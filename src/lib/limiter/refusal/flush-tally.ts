import type {GuardedWrite} from '../../repository/buckets/guarded-write.js'
import type {WriteOutcome} from '../../repository/buckets/marked-write.js'
import {refusalUpdate} from '../../repository/buckets/refusal-write.js'
import type {BucketAddress, WriteMark} from '../../repository/buckets/writes.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {type BucketRecord, decodeBucket} from '../../schema/bucket-record.js'
import type {RefusalTally} from './tally.js'

/** Tries while other clients change the bucket; then the refusals wait for the next time. */
const MOST_TRIES = 5

interface RefusingItem {
  readonly table: NamespaceTable
  readonly address: BucketAddress
  readonly bucket: {readonly lastRecord: Pick<BucketRecord, 'limitsRevision'> | undefined}
  /** Takes the refusals that wait along. */
  readonly write: (write: GuardedWrite) => Promise<WriteOutcome>
}

/** Writes the refusals that wait for a bucket and nothing else; those of a bucket that is gone are given up. */
export async function writeRefusals(item: RefusingItem, refusals: RefusalTally): Promise<void> {
  const {table, address, bucket} = item
  // What is refused meanwhile waits for the next time.
  let [writes, tries] = [refusals.writesFor(address), MOST_TRIES]
  while (writes > 0 && tries > 0 && refusals.isWaiting(address)) {
    const seen = {limitsRevision: bucket.lastRecord?.limitsRevision}
    const update = (mark: WriteMark) => refusalUpdate(table, address, seen, mark)
    const outcome = await item.write({update, basis: {kind: 'revision', revision: seen.limitsRevision}})
    const stored = outcome.item && decodeBucket(outcome.item)
    if (stored?.kind !== 'bucket') return refusals.drop(address)
    if (outcome.applied) writes--
    else tries--
  }
}
