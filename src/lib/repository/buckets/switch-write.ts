import {STAMP_MS} from '../../core/limits/limit-kind.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {bool, n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {AccessSwitch} from '../../schema/config-record.js'
import type {NamespaceTable} from '../table/table.js'
import {type BucketAddress, type BucketUpdate, markedUpdate, requireLimitsRevision, type WriteMark} from './writes.js'

const names = attributes.bucket

/** The new revision voids older plans. With `seen`, refused if the switch was changed since. Never creates a bucket. */
export function stampUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  {access, readAtMs}: {readonly access: AccessSwitch; readonly readAtMs: number},
  mark: WriteMark,
  seen?: BucketRecord,
): BucketUpdate {
  const e = new ExpressionBuilder()
  // Planted fault: the switch is not stamped on buckets
  if (access === 'disabled') e.set(names.disabled, bool(true))
  else e.remove(names.disabled)
  if (access === 'bypass') e.set(names.bypass, n(readAtMs + STAMP_MS))
  else e.remove(names.bypass)
  e.condition(`attribute_exists(${e.name(names.refilledAt)})`)
  if (seen) requireLimitsRevision(e, seen)
  return markedUpdate(table, address, e, mark, {isRevision: true})
}
