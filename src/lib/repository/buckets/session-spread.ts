import {ConditionFailed} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type BucketRecord, limitAttribute} from '../../schema/bucket-record.js'
import {keys, wireKey} from '../../schema/keys.js'
import {kindAttribute} from '../../schema/kind-attributes.js'
import type {NamespaceTable} from '../table/table.js'

const names = attributes.bucket

export function sessionsOpenedAt({state}: BucketRecord, atMs: number): Map<string, number> {
  const opened = new Map<string, number>()
  for (const [name, {kind}] of state.limits) {
    const session = kind?.quota?.session
    if (session?.startMs === atMs) opened.set(name, session.lengthMs)
  }
  return opened
}

/** Gives all shards the same window, started by their next write; shards with an open window keep theirs. */
export async function spreadSessions(
  table: NamespaceTable,
  record: BucketRecord,
  opened: ReadonlyMap<string, number>,
  startMs: number,
): Promise<void> {
  const others = Array.from({length: record.shardCount}, (_, shard) => shard).filter(shard => shard !== record.shard)
  const writes = others.flatMap(shard =>
    [...opened].map(([name, lengthMs]) => announce(table, {...record, shard}, name, lengthMs, startMs)),
  )
  await Promise.all(writes)
}

async function announce(
  table: NamespaceTable,
  {entity, resource, shard}: Pick<BucketRecord, 'entity' | 'resource' | 'shard'>,
  name: string,
  lengthMs: number,
  startMs: number,
): Promise<void> {
  const e = new ExpressionBuilder()
  const start = kindAttribute(name, 'sessionStart')
  e.set(start, n(startMs))
    .set(kindAttribute(name, 'sessionSeconds'), n(lengthMs / 1000))
    .set(names.validUntil, n(0))
  // Consumption until the shard starts the window counts as part of it.
  e.copy(kindAttribute(name, 'consumedMark'), limitAttribute(name, 'consumed'))
  e.condition(`attribute_exists(${e.name(limitAttribute(name, 'consumed'))})`)
  const applied = e.name(kindAttribute(name, 'sessionApplied'))
  e.condition(`attribute_exists(${applied}) OR ${e.name(names.refilledAt)} < ${e.value(n(startMs))}`)
  // Planted fault: a session is announced to shards whose own session has not ended
  e.condition(`attribute_not_exists(${e.name(start)}) OR ${e.name(start)} <= ${e.value(n(startMs - lengthMs))}`)
  const Key = wireKey(keys.bucket(table.namespace, entity, resource, shard))
  try {
    await table.transport.send('UpdateItem', {TableName: table.name, Key, ...e.update()})
  } catch (error) {
    if (!(error instanceof ConditionFailed)) throw error
  }
}
