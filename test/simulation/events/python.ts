import {rateOf} from '../../../src/lib/core/limits/limit.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {encodeConfig} from '../../../src/lib/schema/config-record.js'
import {RESOURCE, type ScenarioEvent, type Tokens} from '../scenario.js'
import {bucketId, type Writer} from '../world/table-writes.js'
import {OTHERS, STACK} from '../world/world.js'
import type {Stage} from './stage.js'

const WRITER: Writer = {kind: 'python', process: OTHERS}

type PythonEvent = Extract<ScenarioEvent, {kind: `python-${string}` | 'heat' | 'poison'}>

/**
 * Writes like the Python client and its aggregator, at this instant, including their faults (docs/reference-faults.md).
 */
export function playPython({world, oracles}: Stage, event: PythonEvent): void {
  world.note(`python ${event.kind}`)
  if (event.kind === 'python-config') {
    // Replaces the whole item: other clients' marks and revisions are lost.
    const {scope, limits} = event
    const record = {namespace: world.namespace, scope, limits, onUnavailable: undefined, auditRetentionDays: undefined}
    world.carryOut(WRITER, 'PutItem', {TableName: STACK, Item: encodeConfig(record)})
    if (event.isSynced) for (const item of world.items) syncParameters(item)
    return
  }
  const {entity} = event
  const bucket = bucketId(world.namespace, entity, RESOURCE)
  const key = (shard: number) => ({PK: s(`${world.namespace}/BUCKET#${entity}#${RESOURCE}#${shard}`), SK: s('#STATE')})
  const stored = world.items.find(item => JSON.stringify(item.PK) === JSON.stringify(key(0).PK))
  switch (event.kind) {
    case 'python-consume':
      consume(event.consume, true)
      return
    case 'python-adjust':
      for (const [name, tokens] of Object.entries(event.consume))
        if (tokens > 0) oracles.rates.noteForced(bucket, name, BigInt(tokens) * 1000n, world.time.nowMs)
      consume(event.consume, false)
      return
    case 'python-clone':
      oracles.rates.exempt(bucket)
      clone()
      return
    case 'heat':
      if (stored) add({b_wcu_tc: event.writes * 1000}, [])
      return
    case 'poison':
      oracles.usage.exempt(bucket)
      poison()
      return
  }

  /** Writes only the parameters, without a revision. */
  function syncParameters(item: Item): void {
    if (event.kind !== 'python-config' || !('rf' in item)) return
    const {PK} = item
    const isFirstShard = PK && 'S' in PK && PK.S.startsWith(`${world.namespace}/BUCKET#`) && PK.S.endsWith('#0')
    if (!isFirstShard) return
    const after = {...item}
    for (const limit of event.limits) {
      const stored = item[`b_${limit.name}_cp`]
      const {capacityMilli, refillAmountMilli, refillPeriodMs} = rateOf(limit)
      // After a raise, the next refill credits the time since the last one at the new rate.
      if (!stored || !('N' in stored) || BigInt(stored.N) < capacityMilli) continue
      after[`b_${limit.name}_cp`] = n(capacityMilli)
      after[`b_${limit.name}_ra`] = n(refillAmountMilli)
      after[`b_${limit.name}_rp`] = n(refillPeriodMs)
    }
    world.carryOut(WRITER, 'PutItem', {TableName: STACK, Item: after})
  }

  function consume(amounts: Tokens, isConditional: boolean): void {
    if (!stored) return
    const numbers: Record<string, number> = {}
    const conditions: string[] = []
    for (const [name, tokens] of Object.entries(amounts)) {
      numbers[`b_${name}_tk`] = -tokens * 1000
      numbers[`b_${name}_tc`] = tokens * 1000
      conditions.push(`b_${name}_tk >= :n${Object.keys(numbers).length - 1}`)
    }
    add(numbers, isConditional ? conditions : [])
  }

  function add(numbers: Readonly<Record<string, number | bigint>>, conditions: readonly string[]): void {
    const values: Item = {}
    const parts = Object.entries(numbers).map(([name, value], at) => {
      values[`:v${at}`] = n(value)
      if (conditions.some(each => each.endsWith(`:n${at + 1}`))) values[`:n${at + 1}`] = n(-BigInt(value))
      return `${name} :v${at}`
    })
    try {
      world.carryOut(WRITER, 'UpdateItem', {
        TableName: STACK,
        Key: key(0),
        UpdateExpression: `ADD ${parts.join(', ')}`,
        ExpressionAttributeValues: values,
        ...(conditions.length > 0 && {ConditionExpression: conditions.join(' AND ')}),
      })
    } catch (error) {
      if ((error as Error).name !== 'ConditionalCheckFailedException') throw error
    }
  }

  /** Doubles the count on shard 0 and adds full copies of it: this creates tokens. */
  function clone(): void {
    const count = stored?.shard_count && 'N' in stored.shard_count ? Number(stored.shard_count.N) : 1
    if (!stored || count > 8) return
    const to = count * 2
    world.carryOut(WRITER, 'PutItem', {TableName: STACK, Item: {...stored, shard_count: n(to)}})
    for (let shard = count; shard < to; shard++) {
      const item: Item = {
        ...stored,
        ...key(shard),
        GSI2SK: s(`BUCKET#${entity}#${shard}`),
        GSI3SK: s(`BUCKET#${RESOURCE}#${shard}`),
        GSI4SK: s(`BUCKET#${entity}#${RESOURCE}#${shard}`),
        shard_count: n(to),
      }
      for (const name of Object.keys(item)) {
        const capacity = item[name.replace(/_tk$/, '_cp')]
        if (name.endsWith('_tk') && capacity && 'N' in capacity) item[name] = n(BigInt(capacity.N) / BigInt(to))
        if (name.endsWith('_tc')) item[name] = n(0)
      }
      world.carryOut(WRITER, 'PutItem', {TableName: STACK, Item: item})
    }
  }

  /** Values that an acquire-only tenant can write to its bucket, but no usage record can hold. */
  function poison(): void {
    if (event.kind !== 'poison') return
    const item: Item = {...(stored ?? {...key(0), rf: n(world.time.nowMs)}), b_big_tc: n(1)}
    world.carryOut(WRITER, 'PutItem', {TableName: STACK, Item: {...item}})
    // The difference has 100 digits; DynamoDB allows 38.
    if (event.how === 'huge-number') item.b_big_tc = {N: `1${'0'.repeat(100)}`}
    else for (let at = 0; at < 500; at++) item[`b_${`limit-${at}`.padEnd(40, 'x')}_tc`] = n(1000)
    world.carryOut(WRITER, 'PutItem', {TableName: STACK, Item: item})
  }
}
