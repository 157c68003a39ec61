import {groupBy} from '../../core/group-by.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {TransactItem} from '../../repository/table/transact.js'
import {type AttributeValue, type Item, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {limitAttribute} from '../../schema/bucket-record.js'
import {keyOf, wireKey} from '../../schema/keys.js'
import {encodeBucketMarks, MIGRATION_MARK} from '../../schema/migration-marks.js'
import {perLimitBalancePath} from '../layouts/old-limit-parts.js'
import {sendConditional, transactConditional} from '../records/conditional.js'
import type {MigrationContext} from '../records/finding.js'
import type {Charges} from './charge.js'
import type {OldBucket} from './old-bucket.js'
import type {OldLimit} from './old-bucket-parts.js'

/** Balances only: usage already counts consumption. The mark changes in the same write: no charge is repeated. */
export async function applyCharges(
  context: MigrationContext,
  current: Item,
  old: OldBucket,
  charges: Charges,
): Promise<boolean> {
  const e = chargeNew(current, charges)
  if (charges.toOld.size === 0) {
    return sendConditional(context, 'UpdateItem', {Key: wireKey(keyOf(current)), ...e.update()})
  }
  const {UpdateExpression = '', ...fields} = e.update()
  const Update = {TableName: context.table.name, Key: wireKey(keyOf(current)), UpdateExpression, ...fields}
  return transactConditional(context, [{Update}, ...chargeOld(context, old, charges)])
}

function chargeNew(current: Item, {toNew, marks, dependsOnRefill}: Charges): ExpressionBuilder {
  const e = new ExpressionBuilder()
  for (const [limit, milli] of toNew) {
    e.add(limitAttribute(limit, 'tokens'), n(-milli))
    e.condition(`attribute_exists(${e.name(limitAttribute(limit, 'capacity'))})`)
  }
  const mark = e.name(MIGRATION_MARK)
  const before = current[MIGRATION_MARK]
  e.condition(before ? `${mark} = ${e.value(before)}` : `attribute_not_exists(${mark})`)
  if (dependsOnRefill) {
    e.condition(
      `${e.name(attributes.bucket.refilledAt)} = ${e.value(current[attributes.bucket.refilledAt] as AttributeValue)}`,
    )
  }
  return e.set(MIGRATION_MARK, s(encodeBucketMarks(marks)))
}

function chargeOld(context: MigrationContext, old: OldBucket, {toOld}: Charges): TransactItem[] {
  const charged = [...toOld].map(([name, milli]) => ({name, milli, limit: old.limits.get(name) as OldLimit}))
  return [...groupBy(charged, ({limit}) => JSON.stringify(keyOf(limit.item))).values()].map(parts => {
    const e = new ExpressionBuilder()
    const sets = parts.map(({name, milli, limit}) => {
      const balance = balancePath(name, limit)
        .map(attribute => e.name(attribute))
        .join('.')
      e.condition(`attribute_exists(${balance})`)
      return `${balance} = ${balance} - ${e.value(n(milli))}`
    })
    const {item} = (parts[0] as (typeof parts)[0]).limit
    return {
      Update: {
        TableName: context.table.name,
        Key: wireKey(keyOf(item)),
        UpdateExpression: `SET ${sets.join(', ')}`,
        ...e.write(),
      },
    }
  })
}

const balancePath = (name: string, {isPerLimit, item}: OldLimit): readonly string[] =>
  isPerLimit ? perLimitBalancePath(item) : [limitAttribute(name, 'tokens')]
