import {createAggregator} from '../../../src/lib/aggregator/aggregator.js'
import type {StreamRecord} from '../../../src/lib/aggregator/stream-event.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {type Item, n} from '../../../src/lib/schema/attribute-value.js'
import {encodeAudit} from '../../../src/lib/schema/audit-record.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {streamRecord, tableOver} from '../../aggregator/fixtures/stream.js'
import {Scene} from '../../helpers/limiter.js'
import type {TestTable} from '../../helpers/table.js'
import {splitInto} from '../../limiter/visit.js'
import {type Authorisation, RecordingTransport} from './authorisations.js'

/**
 * Every kind of call that the aggregator makes: usage, a refill, a split, shards that another client has announced, boosts
 * of two levels that have ended, and an audit event that the archive does not take.
 */
export async function recordAggregator(table: TestTable): Promise<Authorisation[]> {
  const scene = new Scene(table)
  await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60:60')
  const limiter = scene.limiter()
  await limiter.acquire({entity: 'hot', resource: 'gpt-4', consume: {rpm: 50}})
  await limiter.acquire({entity: 'drained', resource: 'gpt-4', consume: {rpm: 50}})
  await limiter.close()
  const transport = new RecordingTransport(table.transport)
  const {handle} = createAggregator({
    table: tableOver(transport, table.name, () => scene.nowMs),
    sink: {put: () => Promise.reject(new Error('no such bucket'))},
    log: () => {},
  })

  const hot = await imageOf(scene, 'hot')
  const drained = await imageOf(scene, 'drained')
  scene.nowMs += 10_000
  const refilled = await handle({Records: [streamRecord(undefined, drained, {atMs: scene.nowMs})]})
  const split = await handle({Records: hotSeconds(scene, hot)})
  await splitInto(scene, 4, 'drained')
  const announced = {...drained, shard_count: n(8)}
  await table.transport.send('PutItem', {TableName: table.name, Item: announced})
  const filled = await handle({Records: [streamRecord(drained, announced, {atMs: scene.nowMs})]})

  const boosted = new NamespaceRepository(scene.tenant, undefined)
  const [gpt4, hotOnly] = [
    {level: 'resource', resource: 'gpt-4'},
    {level: 'entity', entity: 'hot', resource: 'gpt-4'},
  ] as const
  const inHours = (hours: number) => new Date(scene.nowMs + hours * 3_600_000)
  await boosted.setLimits(gpt4, parseLimits(['other=1']))
  await boosted.setLimits(gpt4, parseLimits(['rpm=90']), {until: inHours(1)})
  await boosted.setLimits(gpt4, parseLimits(['other=2']), {until: inHours(9)})
  await boosted.setLimits(hotOnly, parseLimits(['rpm=99', 'other=3']), {until: inHours(1)})
  scene.nowMs += 2 * 3_600_000
  await handle({Records: [streamRecord(undefined, drained, {atMs: scene.nowMs})]})
  const left = (await boosted.configs.boosts()).map(({limit}) => limit.name)

  const event = encodeAudit({
    ...{namespace: scene.namespace, entity: 'hot', eventId: 'A', timestamp: '2023-08-16T11:12:13Z', action: 'noted'},
    ...{principal: undefined, resource: undefined, details: {}, ttlSeconds: 1},
  })
  const waiting = await handle({Records: [streamRecord(event, undefined, {byService: true})]})

  const {length: shards} = await scene.shards('drained', 'gpt-4', 8)
  const done = {snapshots: refilled.counts.snapshots, refills: refilled.counts.refills, splits: split.counts.splits}
  const isAll =
    done.snapshots > 0 &&
    done.refills > 0 &&
    done.splits > 0 &&
    shards === 8 &&
    filled.failures.length === 0 &&
    waiting.counts.unarchived === 1 &&
    left.join() === 'other'
  if (!isAll) throw new Error(`the aggregator left something out: ${JSON.stringify({...done, shards, left})}`)
  return transport.take()
}

async function imageOf({table, namespace}: Scene, entity: string): Promise<Item> {
  const {PK, SK} = keys.bucket(namespace, entity, 'gpt-4', 0)
  const {Item} = await table.transport.send('GetItem', {
    TableName: table.name,
    Key: {PK: {S: PK}, SK: {S: SK}},
    ConsistentRead: true,
  })
  return Item as Item
}

/** Records of a bucket that is written 1,000 times a second. */
function hotSeconds(scene: Scene, image: Item): StreamRecord[] {
  let writes = 5_000_000
  const show = (): Item => ({...image, b_wcu_tc: n(writes * 1000)})
  return Array.from({length: 4}, () => {
    scene.nowMs += 1000
    const before = show()
    writes += 1000
    return streamRecord(before, show(), {atMs: Math.floor(scene.nowMs / 1000) * 1000})
  })
}
