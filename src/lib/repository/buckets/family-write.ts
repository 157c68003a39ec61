import {ExpressionBuilder} from '../../dynamo/expression.js'
import {attributes} from '../../schema/attributes.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {Family} from '../../schema/family.js'
import type {NamespaceTable} from '../table/table.js'
import {type BucketUpdate, markedUpdate, requireLimitsRevision, storeFamily, type WriteMark} from './writes.js'

/**
 * Stamps one shard with the family of its entity, and nothing else: requests read there whom to charge. With the revision,
 * plans that were made before are void. A bucket that is gone is not created again.
 */
export function familyUpdate(
  table: NamespaceTable,
  record: BucketRecord,
  family: Family,
  mark: WriteMark,
): BucketUpdate {
  const e = new ExpressionBuilder()
  storeFamily(e, family, record)
  requireLimitsRevision(e, record)
  e.condition(`attribute_exists(${e.name(attributes.bucket.refilledAt)})`)
  return markedUpdate(table, record, e, mark, {isRevision: true})
}
