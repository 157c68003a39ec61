import {ExpressionBuilder} from '../dynamo/expression.js'
import type {OperationInput} from '../dynamo/transport.js'
import {keyOf} from '../repository/table/query.js'
import {wireKey} from '../repository/table/table.js'
import type {TransactItem} from '../repository/table/transact.js'
import {type Item, n} from '../schema/attribute-value.js'
import {limitAttribute, readConsumption} from '../schema/bucket-record.js'
import {decisiveAttributes, MOST_COMPARISONS} from './decisive.js'
import {classifyItem} from './records/classify.js'
import {demandUnchanged, sendConditional, transactConditional} from './records/conditional.js'
import type {MigrationContext, MigrationFinding} from './records/finding.js'
import {lookAgain} from './walk/reconcile.js'

/** Writes that DynamoDB takes in one transaction. */
const MOST_IN_TRANSACTION = 100

/** `changed`: something is not as it was compared, and is still there; `cannot`: why it cannot be deleted. */
export type Deletion = 'deleted' | 'changed' | {readonly cannot: string}

/** Deletes the old items of a record that is in its new place. Two old records may share a new one, so it is tried twice. */
export async function deleteRecord(stage: MigrationContext, finding: MigrationFinding): Promise<Deletion> {
  const first = await deleteSeen(stage, finding)
  if (first !== 'changed') return first
  const again = await lookAgain(stage, finding)
  return again ? deleteSeen(stage, again) : 'deleted'
}

/** All items of a record go at once: the rest of a day, or of a bucket, would mean something else. */
async function deleteSeen(stage: MigrationContext, finding: MigrationFinding): Promise<Deletion> {
  const {state, sources, onDelete = []} = finding
  if (state !== 'same' && state !== 'expired') return 'changed'
  if (sources.some(source => decisiveAttributes(stage, source).length > MOST_COMPARISONS)) {
    return {cannot: 'has more limits than can be compared at once; delete it by hand'}
  }
  const members = [...sources.map(source => deletionOf(stage, source)), ...onDelete]
  if (members.length > MOST_IN_TRANSACTION) return deleteShards(stage, finding)
  const [only, another] = members
  if (!only) return 'deleted'
  const isDone = another
    ? await transactConditional(stage, members)
    : await sendConditional(stage, 'DeleteItem', only.Delete as OperationInput<'DeleteItem'>)
  return isDone ? 'deleted' : 'changed'
}

/** Deletes an old item that is, in all that matters, as it was seen. */
function deletionOf(stage: MigrationContext, seen: Item): TransactItem {
  const e = new ExpressionBuilder()
  demandUnchanged(e, seen, decisiveAttributes(stage, seen))
  return {Delete: {TableName: stage.table.name, Key: wireKey(keyOf(seen)), ...e.write()}}
}

/**
 * A bucket of more shards than a transaction takes goes from the highest shard down. What the shards have consumed is
 * added to the first in the same transaction: the sum, which was charged to the new bucket, stays the same, and whoever is
 * interrupted leaves a bucket that charges nothing twice.
 */
async function deleteShards(stage: MigrationContext, finding: MigrationFinding): Promise<Deletion> {
  const shards = finding.sources
    .map(item => ({item, shard: shardOf(stage, item)}))
    .filter(({shard}) => shard !== undefined)
    .sort((one, other) => Number(one.shard) - Number(other.shard))
    .map(({item}) => item)
  const [first, ...further] = shards
  const going = further.slice(-(MOST_IN_TRANSACTION - 1))
  const consumed = sumOf(going.map(readConsumption))
  if (!first || going.length === 0 || [...consumed.keys()].some(limit => !(limitAttribute(limit, 'tokens') in first))) {
    return {cannot: 'has more old items than can be deleted at once; delete them by hand'}
  }
  const e = new ExpressionBuilder()
  demandUnchanged(e, first, decisiveAttributes(stage, first))
  for (const [limit, milli] of consumed) e.add(limitAttribute(limit, 'consumed'), n(milli))
  const {UpdateExpression, ...rest} = e.update()
  const keep = {Key: wireKey(keyOf(first)), ...rest, TableName: stage.table.name}
  const fold: TransactItem =
    UpdateExpression === undefined ? {ConditionCheck: keep} : {Update: {...keep, UpdateExpression}}
  const isDone = await transactConditional(stage, [...going.map(item => deletionOf(stage, item)), fold])
  if (!isDone) return 'changed'
  const left = await lookAgain(stage, finding)
  return left ? deleteSeen(stage, left) : 'deleted'
}

function shardOf(stage: MigrationContext, item: Item): number | undefined {
  const record = classifyItem(item, stage)
  return record.kind === 'old' && record.type === 'bucket' ? record.shard : undefined
}

function sumOf(parts: readonly ReadonlyMap<string, bigint>[]): Map<string, bigint> {
  const sum = new Map<string, bigint>()
  for (const part of parts) for (const [name, milli] of part) sum.set(name, (sum.get(name) ?? 0n) + milli)
  return sum
}
