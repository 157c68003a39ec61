import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {type BucketUpdate, countWrite, markedUpdate, type WriteMark} from '../repository/buckets/writes.js'
import type {NamespaceTable} from '../repository/table/table.js'
import {n} from '../schema/attribute-value.js'
import {attributes} from '../schema/attributes.js'
import {type BucketRecord, limitAttribute} from '../schema/bucket-record.js'

/**
 * Fills the write pressure of an item and touches nothing else, so that no write of a client in between can void it: a
 * refill of a full bucket holds for one balance only, which live traffic changes faster than a stream delivers it. What
 * was spent since the item was seen stays spent. `undefined` when there is nothing to fill.
 */
export function pressureRepair(table: NamespaceTable, record: BucketRecord, mark: WriteMark): BucketUpdate | undefined {
  const pressure = record.state.limits.get(WRITE_PRESSURE_LIMIT)
  if (!pressure || pressure.tokensMilli >= pressure.capacityMilli) return undefined
  const e = new ExpressionBuilder()
  const tokens = limitAttribute(WRITE_PRESSURE_LIMIT, 'tokens')
  e.condition(`attribute_exists(${e.name(attributes.bucket.refilledAt)})`)
  // A client that refilled it meanwhile has made this credit void.
  e.condition(`${e.name(tokens)} <= ${e.value(n(pressure.tokensMilli))}`)
  e.add(tokens, n(pressure.capacityMilli - pressure.tokensMilli))
  countWrite(e)
  return markedUpdate(table, record, e, mark)
}
