import {TransactionCancelled} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {Item} from '../../schema/attribute-value.js'
import type {Table} from './table.js'
import type {TransactItem} from './transact.js'

/** A record to write only where there is none. */
export function putNew(table: Table, item: Item): TransactItem & {Put: object} {
  const e = new ExpressionBuilder()
  e.condition(`attribute_not_exists(${e.name('PK')})`)
  return {
    Put: {TableName: table.name, Item: item, ...e.write(), ReturnValuesOnConditionCheckFailure: 'ALL_OLD'},
  }
}

/** Whether a condition of a transaction did not hold: of the item at that place, or of any when no place is given. */
export function isRefused(error: unknown, place?: number): error is TransactionCancelled {
  if (!(error instanceof TransactionCancelled)) return false
  return place === undefined ? error.hasConditionFailure : error.reasons[place]?.code === 'ConditionalCheckFailed'
}
