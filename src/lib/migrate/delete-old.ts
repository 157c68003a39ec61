import {ExpressionBuilder} from '../dynamo/expression.js'
import type {OperationInput} from '../dynamo/transport.js'
import type {TransactItem} from '../repository/table/transact.js'
import {n} from '../schema/attribute-value.js'
import {limitAttribute, readConsumption} from '../schema/bucket-record.js'
import {keyOf, wireKey} from '../schema/keys.js'
import {changingAttributes} from './layouts/changing-attributes.js'
import {requireUnchanged, sendConditional, transactConditional} from './records/conditional.js'
import type {MigrationContext, MigrationFinding, OldItem} from './records/finding.js'
import {isOfType} from './records/reads.js'
import {compareAgain} from './walk/reconcile.js'

/** Most writes in one DynamoDB transaction. */
const MAX_TRANSACTION_ITEMS = 100

/** Most comparisons in one condition: DynamoDB allows 300 operators and 4 KB of text. */
const MAX_COMPARISONS = 140

/** `changed`: an item changed since it was compared, and still exists; `cannot`: why it cannot be deleted. */
export type Deletion = 'deleted' | 'changed' | {readonly cannot: string}

/** Deletes the old items of a record that was copied. Two old records may share a copy, so a change is retried once. */
export async function deleteRecord(context: MigrationContext, finding: MigrationFinding): Promise<Deletion> {
  const first = await deleteSeen(context, finding)
  if (first !== 'changed') return first
  const again = await compareAgain(context, finding)
  return again ? deleteSeen(context, again) : 'deleted'
}

/** Deletes all items of a record at once: a part of a day, or of a bucket, would have another meaning. */
async function deleteSeen(context: MigrationContext, finding: MigrationFinding): Promise<Deletion> {
  const {state, sources, onDelete = []} = finding
  if (state !== 'same' && state !== 'expired') return 'changed'
  if (sources.some(({item, record}) => changingAttributes(item, record.type).length > MAX_COMPARISONS)) {
    return {cannot: 'has more limits than one condition can compare; delete it by hand'}
  }
  const writes = [...sources.map(source => deletionOf(context, source)), ...onDelete]
  if (writes.length > MAX_TRANSACTION_ITEMS) return deleteShards(context, finding)
  const [only, another] = writes
  if (!only) return 'deleted'
  const isDone = another
    ? await transactConditional(context, writes)
    : await sendConditional(context, 'DeleteItem', only.Delete as OperationInput<'DeleteItem'>)
  return isDone ? 'deleted' : 'changed'
}

/** Deletes an old item if everything that its copy is made of is unchanged since it was read. */
function deletionOf(context: MigrationContext, old: OldItem): TransactItem {
  return {Delete: {TableName: context.table.name, Key: wireKey(keyOf(old.item)), ...ifUnchanged(old).write()}}
}

function ifUnchanged({item, record}: OldItem): ExpressionBuilder {
  const e = new ExpressionBuilder()
  requireUnchanged(e, item, changingAttributes(item, record.type))
  return e
}

/**
 * Deletes a bucket with more shards than a transaction allows, from the highest shard down. The consumption of deleted shards
 * is added to the first one in the same transaction. So the sum, which was charged to the new bucket, does not change, and a
 * clean-up that is interrupted leaves a bucket that is not charged twice.
 */
async function deleteShards(context: MigrationContext, finding: MigrationFinding): Promise<Deletion> {
  const [first, ...further] = finding.sources
    .filter(isOfType('bucket'))
    .filter(({record}) => record.shard !== undefined)
    .sort((one, other) => Number(one.record.shard) - Number(other.record.shard))
  const deleted = further.slice(-(MAX_TRANSACTION_ITEMS - 1))
  const consumed = sumOf(deleted.map(({item}) => readConsumption(item)))
  const isHeldBy = ({item}: OldItem) => [...consumed.keys()].every(limit => limitAttribute(limit, 'tokens') in item)
  if (!first || deleted.length === 0 || !isHeldBy(first)) {
    return {cannot: 'has more old items than one transaction can delete; delete them by hand'}
  }
  const e = ifUnchanged(first)
  for (const [limit, milli] of consumed) e.add(limitAttribute(limit, 'consumed'), n(milli))
  const {UpdateExpression, ...fields} = e.update()
  const keep = {Key: wireKey(keyOf(first.item)), ...fields, TableName: context.table.name}
  const fold: TransactItem =
    UpdateExpression === undefined ? {ConditionCheck: keep} : {Update: {...keep, UpdateExpression}}
  const isDone = await transactConditional(context, [...deleted.map(old => deletionOf(context, old)), fold])
  if (!isDone) return 'changed'
  const rest = await compareAgain(context, finding)
  return rest ? deleteSeen(context, rest) : 'deleted'
}

function sumOf(parts: readonly ReadonlyMap<string, bigint>[]): Map<string, bigint> {
  const sum = new Map<string, bigint>()
  for (const part of parts) for (const [name, milli] of part) sum.set(name, (sum.get(name) ?? 0n) + milli)
  return sum
}
