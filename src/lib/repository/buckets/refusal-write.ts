import {ExpressionBuilder} from '../../dynamo/expression.js'
import {attributes} from '../../schema/attributes.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {type BucketAddress, type BucketUpdate, markedUpdate, requireLimitsRevision, type WriteMark} from './writes.js'

/**
 * Writes only the refusals that come with the mark: neither balances nor refill instants change, and a bucket that is gone
 * is not created again. Demands the revision that was seen, so that of all attempts at most one is applied (decision 26).
 */
export function refusalUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  seen: Pick<BucketRecord, 'limitsRevision'>,
  mark: WriteMark,
): BucketUpdate {
  const e = new ExpressionBuilder()
  requireLimitsRevision(e, seen)
  e.condition(`attribute_exists(${e.name(attributes.bucket.refilledAt)})`)
  return markedUpdate(table, address, e, mark)
}
