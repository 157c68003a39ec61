import {groupBy} from '../../core/group-by.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {keyOf} from '../../repository/table/query.js'
import {wireKey} from '../../repository/table/table.js'
import type {TransactItem} from '../../repository/table/transact.js'
import {type AttributeValue, type Item, n, s} from '../../schema/attribute-value.js'
import {limitAttribute} from '../../schema/bucket-record.js'
import {encodeBucketMarks, MIGRATION_MARK} from '../../schema/migration-marks.js'
import {sendConditional, transactConditional} from '../records/conditional.js'
import type {MigrationContext} from '../records/finding.js'
import type {Charges} from './charge.js'
import type {OldBucket} from './old-bucket.js'
import type {OldLimit} from './old-bucket-parts.js'

/** A new bucket as it was seen, the old one, and what either owes the other. */
export interface Settlement {
  readonly current: Item
  readonly old: OldBucket
  readonly charges: Charges
}

/**
 * Charges both replicas. Only balances move: the consumption counters stay, because usage is counted from them and has
 * counted each consumption where it happened. The mark in the new item changes with the charge, in one write or one
 * transaction, so nothing is charged twice; a charge that depends on the refill instant is refused at another.
 */
export async function applyCharges(stage: MigrationContext, {current, old, charges}: Settlement): Promise<boolean> {
  const e = chargeNew(current, charges)
  if (charges.toOld.size === 0) {
    return sendConditional(stage, 'UpdateItem', {Key: wireKey(keyOf(current)), ...e.update()})
  }
  const {UpdateExpression = '', ...rest} = e.update()
  const Update = {TableName: stage.table.name, Key: wireKey(keyOf(current)), UpdateExpression, ...rest}
  return transactConditional(stage, [{Update}, ...chargeOld(stage, old, charges)])
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
  if (dependsOnRefill) e.condition(`${e.name('rf')} = ${e.value(current.rf as AttributeValue)}`)
  return e.set(MIGRATION_MARK, s(encodeBucketMarks(marks)))
}

/** One update per old item; a limit with an item of its own may keep its balance in a map. */
function chargeOld(stage: MigrationContext, old: OldBucket, {toOld}: Charges): TransactItem[] {
  const charged = [...toOld].map(([name, milli]) => ({name, milli, limit: old.limits.get(name) as OldLimit}))
  return [...groupBy(charged, ({limit}) => JSON.stringify(keyOf(limit.item))).values()].map(parts => {
    const e = new ExpressionBuilder()
    const sets = parts.map(({name, milli, limit}) => {
      const balance = balancePath(e, name, limit)
      e.condition(`attribute_exists(${balance})`)
      return `${balance} = ${balance} - ${e.value(n(milli))}`
    })
    const {item} = (parts[0] as (typeof parts)[0]).limit
    return {
      Update: {
        TableName: stage.table.name,
        Key: wireKey(keyOf(item)),
        UpdateExpression: `SET ${sets.join(', ')}`,
        ...e.write(),
      },
    }
  })
}

function balancePath(e: ExpressionBuilder, name: string, {perLimit, item}: OldLimit): string {
  if (!perLimit) return e.name(limitAttribute(name, 'tokens'))
  return 'tokens_milli' in item ? e.name('tokens_milli') : `${e.name('data')}.${e.name('tokens_milli')}`
}
