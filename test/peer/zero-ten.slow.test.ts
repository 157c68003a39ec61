import {expect, it} from 'vitest'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {markAggregator} from '../../src/lib/repository/table/version.js'
import {AGGREGATOR_MARK} from '../../src/lib/repository/table/version-compatibility.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {type PeerScene, usePeers} from './peers.js'
import {describeWithPeers, limit} from './python-client.js'

describeWithPeers('a bucket used by zae-limiter 0.10 clients', () => {
  const peers = usePeers('0.10')

  async function sceneWith(rpm: number): Promise<PeerScene> {
    const scene = await peers.scene()
    await scene.client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits: [limit('rpm', rpm)]})
    await scene.client.acquire('u', 'gpt', {rpm: 1})
    return scene
  }

  /** The write pressure that 0.10 spends with every request and never refills; 1,000 when full. */
  async function setPressure(scene: PeerScene, writes: number): Promise<void> {
    await scene.table.transport.send('UpdateItem', {
      TableName: scene.table.name,
      Key: wireKey(keys.bucket(scene.namespace, 'u', 'gpt', 0)),
      UpdateExpression: 'SET b_wcu_tk = :tk',
      ExpressionAttributeValues: {':tk': n(writes * 1000)},
    })
  }

  it('is not split by 57 requests per second: the aggregator repairs its write pressure behind live traffic', async () => {
    const scene = await sceneWith(100_000)
    // As after nine seconds of this traffic.
    await setPressure(scene, 450)
    const aggregator = scene.aggregator()
    let behind: StreamRecord[] = []
    let admitted = 1
    for (let second = 0; second < 10; second++) {
      await scene.pass(1000)
      const records = await scene.changes(async () => {
        admitted += (await scene.client.acquire('u', 'gpt', {rpm: 1}, {times: 57, concurrency: 8})).admitted
      })
      await scene.aggregate(behind, aggregator)
      behind = records
      expect(await scene.bucketItem('u', 'gpt')).toMatchObject({shard_count: n(1), b_rpm_tc: n(admitted * 1000)})
    }
    expect(admitted).toBe(571)
  })

  it('is not split by zael, however often zael writes it', async () => {
    const scene = await sceneWith(100_000)
    const aggregator = scene.aggregator()
    let count = 0
    for (let second = 0; second < 4; second++) {
      await scene.pass(1000)
      const records = await scene.changes(async () => {
        count += (await scene.ask('u', 'gpt', {rpm: 1})).admitted
        // 900 writes in this second.
        await scene.table.transport.send('UpdateItem', {
          TableName: scene.table.name,
          Key: wireKey(keys.bucket(scene.namespace, 'u', 'gpt', 0)),
          UpdateExpression: 'ADD b_wcu_tc :writes',
          ExpressionAttributeValues: {':writes': n(900_000)},
        })
        await scene.client.acquire('u', 'gpt', {rpm: 1})
      })
      await scene.aggregate(records, aggregator)
    }
    expect(count).toBe(4)
    expect(await scene.bucketItem('u', 'gpt')).toMatchObject({shard_count: n(1)})
  })

  it("is usable for them on a table with the mark of zael's aggregator, which they keep", async () => {
    const scene = await peers.scene()
    await markAggregator(scene.tenant)
    const client = await peers.python.open(scene.table.name, scene.client.namespace)
    await client.repository('set_limits', {entity_id: 'm', resource: 'gpt', limits: [limit('rpm', 2)]})
    expect(await client.acquire('m', 'gpt', {rpm: 1}, {times: 3})).toMatchObject({admitted: 2, refused: 1})
    expect(await client.repository('get_version_record')).toMatchObject({lambda_version: AGGREGATOR_MARK})
  })
})
