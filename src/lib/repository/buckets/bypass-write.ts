import type {Amounts} from '../../core/buckets/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type BucketRecord, limitAttribute} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {requireEnabled} from './kind-write.js'
import {
  type BucketUpdate,
  countRequests,
  countWrite,
  markedUpdate,
  refuseExpired,
  requireLimitsRevision,
  type WriteMark,
} from './writes.js'

const names = attributes.bucket

interface BypassOptions {
  readonly nowMs: number
  readonly requests: number
  readonly repairPressure: boolean
}

/** Counts requests on a bypassed bucket. Takes no tokens, so balances and calendars don't matter. */
export function bypassUpdate(
  table: NamespaceTable,
  seen: BucketRecord,
  amounts: Amounts,
  mark: WriteMark,
  {nowMs, requests, repairPressure}: BypassOptions,
): BucketUpdate {
  const e = new ExpressionBuilder()
  for (const [name, milli] of amounts) {
    if (milli === 0n) continue
    e.add(limitAttribute(name, 'consumed'), n(milli))
    // Otherwise a limit that another client removed would come back as a counter without parameters.
    e.condition(`attribute_exists(${e.name(limitAttribute(name, 'capacity'))})`)
  }
  countWrite(e)
  countRequests(e, requests)
  if (repairPressure)
    e.copy(limitAttribute(WRITE_PRESSURE_LIMIT, 'tokens'), limitAttribute(WRITE_PRESSURE_LIMIT, 'capacity'))
  // Planted fault: a bypassed request is counted by a late attempt as well
  requireLimitsRevision(e, seen)
  refuseExpired(e, nowMs, seen)
  requireEnabled(e, seen)
  // Planted fault: a bypass does not end
  e.condition(`${e.name(names.bypass)} > ${e.value(n(nowMs))}`)
  return markedUpdate(table, seen, e, mark)
}
