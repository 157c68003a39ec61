import {beforeEach, describe, expect, it} from 'vitest'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {HOUR_MS, OperatorScene, USER} from './scene.js'

describeOnBoth('S6 a reset or top-up', {timeout: 60_000}, table => {
  let scene: OperatorScene

  beforeEach(async () => {
    scene = new OperatorScene(table)
    await scene.configureUser('q=10/day@UTC', 'rpm=100/min')
    await scene.admitted(1, {q: 10, rpm: 10})
  })

  it('has a record in the format of other clients, which expires after three days, and an event', async () => {
    await scene.topUp({q: 5, rpm: 200}, 'order-1')
    expect(await scene.record('order-1')).toEqual({
      PK: s(keys.bucket(scene.namespace, USER.entity, USER.resource, 0).PK),
      SK: s('#OP#order-1'),
      entity_id: s('user-1'),
      resource: s('gpt-4'),
      operation: s('top_up'),
      writer: s(expect.stringMatching(/^[0-9a-f]{24}$/) as unknown as string),
      ent: s('-'),
      shards: {N: '1'},
      amounts: {M: {q: {N: '5'}, rpm: {N: '10'}}},
      asked: {M: {q: {N: '5'}, rpm: {N: '200'}}},
      ttl: {N: String(scene.nowMs / 1000 + 3 * 86_400)},
      GSI4PK: s(scene.namespace),
      GSI4SK: s('OP#user-1#gpt-4#order-1'),
    })
    scene.nowMs += 1
    await scene.reset(['q'], 'case-1')
    expect(await scene.record('case-1')).toMatchObject({operation: s('reset'), amounts: {M: {q: {N: '5'}}}})
    expect(await scene.events()).toEqual([
      {action: 'bucket_topped_up', details: {amounts: {q: 5, rpm: 10}, shards: 1}},
      {action: 'bucket_reset', details: {amounts: {q: 5}, shards: 1}},
    ])
  })

  it('is applied once per key, and reports a repetition', async () => {
    expect(await scene.topUp({q: 5}, 'k')).toMatchObject({idempotencyKey: 'k', isRepeated: false, amounts: {q: 5}})
    expect(await scene.spends('q', 5)).toBe(true)
    expect(await scene.topUp({q: 5}, 'k')).toMatchObject({isRepeated: true, shards: 1, amounts: {q: 5}})
    expect(await scene.balance('q')).toBe(0)
    expect(await scene.reset(undefined, 'r')).toMatchObject({isRepeated: false})
    expect(await scene.admitted(1, {q: 4})).toBe(1)
    expect(await scene.reset(undefined, 'r')).toMatchObject({isRepeated: true})
    expect(await scene.balance('q')).toBe(6)
    expect(await scene.events()).toHaveLength(2)
  })

  it('is not applied again when the bucket has expired meanwhile', async () => {
    await scene.topUp({q: 5}, 'k')
    await scene.reset(undefined, 'r')
    const Key = wireKey(keys.bucket(scene.namespace, USER.entity, USER.resource, 0))
    await table.transport.send('DeleteItem', {TableName: table.name, Key})
    expect(await scene.topUp({q: 5}, 'k')).toMatchObject({isRepeated: true})
    expect(await scene.reset(undefined, 'r')).toMatchObject({isRepeated: true})
    expect(await scene.shards(USER.entity, USER.resource)).toEqual([])
  })

  it('refuses a key of another change, and changes nothing', async () => {
    await scene.topUp({q: 5}, 'k')
    await scene.reset(['q'], 'r')
    for (const other of [
      () => scene.topUp({q: 6}, 'k'),
      () => scene.topUp({rpm: 5}, 'k'),
      () => scene.topUp({q: 5, rpm: 5}, 'k'),
      () => scene.reset(undefined, 'k'),
      () => scene.reset(['rpm'], 'r'),
      () => scene.topUp({q: 5}, 'r'),
    ])
      await expect(other()).rejects.toMatchObject({code: 'bucket.key-used', kind: 'conflict'})
    expect([await scene.balance('q'), await scene.events()]).toMatchObject([10, {length: 2}])
    // A key belongs to a bucket.
    expect(
      await scene.operator().topUpBucket({entity: 'user-2', resource: USER.resource}, {q: 6}, {idempotencyKey: 'k'}),
    ).toMatchObject({
      isRepeated: false,
    })
  })

  it('gets its own id without a key, with which it can be repeated', async () => {
    const {idempotencyKey} = await scene.topUp({q: 5})
    expect(idempotencyKey).toMatch(/^[0-9A-Z]{26}$/)
    expect(await scene.topUp({q: 5}, idempotencyKey)).toMatchObject({isRepeated: true})
    expect((await scene.topUp({q: 5})).idempotencyKey).not.toBe(idempotencyKey)
    expect(await scene.balance('q')).toBe(10)
  })

  describe.each(['top-up', 'reset'] as const)('a %s', which => {
    const run = (more: Parameters<OperatorScene['operator']>[0], idempotencyKey?: string) =>
      which === 'top-up'
        ? scene.operator(more).topUpBucket(USER, {q: 10}, {idempotencyKey})
        : scene.operator(more).resetBucket(USER, {idempotencyKey})
    const action = which === 'top-up' ? 'bucket_topped_up' : 'bucket_reset'

    it.each([1, 5])('is applied once when its response is lost %i times', async lost => {
      const {transport} = scene.losing('after', lost)
      expect(await run({transport})).toMatchObject({isRepeated: false})
      expect(await scene.balance('q')).toBe(10)
      expect(await scene.events()).toMatchObject([{action}])
    })

    it.each([1, 3])('is applied once when its first %i attempts arrive late', async lost => {
      const {transport, arrive} = scene.losing('late', lost)
      await run({transport})
      expect(await scene.admitted(1, {q: 4})).toBe(1)
      await arrive()
      expect(await scene.balance('q')).toBe(6)
      expect(await scene.events()).toMatchObject([{action}])
    })

    it('finds its result when every response is lost, or reports the key to repeat it with', async () => {
      expect(await run({transport: scene.losing('after', 99).transport})).toMatchObject({isRepeated: false})
      expect(await scene.balance('q')).toBe(10)
      await scene.admitted(1, {q: 10})
      const {transport, arrive} = scene.losing('late', 99)
      const error: unknown = await run({transport}).catch(thrown => thrown)
      expect(error).toMatchObject({code: 'bucket.unknown-outcome', kind: 'failed'})
      const key = (error as {details: {idempotencyKey: string}}).details.idempotencyKey
      expect(await run({}, key)).toMatchObject({isRepeated: false})
      await arrive()
      expect(await run({}, key)).toMatchObject({isRepeated: true})
      expect(await scene.balance('q')).toBe(10)
      expect(await scene.events()).toHaveLength(2)
    })

    it('is applied once when many processes use one key', async () => {
      await scene.split(1)
      const results = await Promise.all(Array.from({length: 8}, () => run({}, 'k')))
      expect(results.filter(({isRepeated}) => !isRepeated)).toHaveLength(1)
      expect(await scene.balance('q', 2)).toBe(10)
      expect(await scene.events()).toMatchObject([{action}])
    })

    it('is applied every time with different keys, whatever requests come between', async () => {
      const limiter = scene.limiter({denyCacheMs: 0})
      const running = Promise.all(Array.from({length: 4}, (_, at) => run({}, `k${at}`)))
      let spent = 0
      for (let at = 0; at < 10; at++) spent += await scene.admitted(1, {q: 1}, limiter)
      await running
      expect(await scene.events()).toHaveLength(4)
      const left = await scene.balance('q')
      if (which === 'top-up') expect(spent + left).toBe(40)
      else expect(spent + left).toBeLessThanOrEqual(40)
    })
  })

  it('does not exceed the capacity after a late refund', async () => {
    const limiter = scene.limiter({denyCacheMs: 0})
    const lease = await limiter.acquire({...USER, consume: {rpm: 50}})
    await scene.reset()
    await lease.release({rpm: 50})
    expect([await scene.balance('q'), await scene.balance('rpm')]).toEqual([10, 100])
  })

  it('keeps other limits, and later refunds to them, when it names some limits', async () => {
    const limiter = scene.limiter({denyCacheMs: 0})
    await scene.topUp({q: 3})
    const lease = await limiter.acquire({...USER, consume: {rpm: 50, q: 3}})
    expect(await scene.reset(['rpm'])).toMatchObject({amounts: {rpm: 60}})
    expect([await scene.balance('q'), await scene.balance('rpm'), await scene.toppedUp('q')]).toEqual([0, 100, [3]])
    await lease.release({q: 2})
    expect(await scene.balance('q')).toBe(2)
    await expect(scene.reset(['qq'])).rejects.toMatchObject({code: 'limit.unknown'})
  })

  it('refuses a reset of all limits under the key of a partial reset, and accepts new limits since', async () => {
    await scene.reset(['rpm'], 'some')
    await expect(scene.reset(undefined, 'some')).rejects.toMatchObject({code: 'bucket.key-used', kind: 'conflict'})
    expect(await scene.reset(['rpm'], 'some')).toMatchObject({isRepeated: true})
    await scene.reset(undefined, 'all')
    await scene.configureUser('q=10/day@UTC', 'rpm=100/min', 'tpm=5/min')
    expect(await scene.reset(undefined, 'all')).toMatchObject({isRepeated: true})
  })

  it('belongs to one creation of an entity, and does not count for a re-created one', async () => {
    const operator = scene.operator()
    await operator.entities.create({id: 'user-1'})
    await scene.topUp({q: 5}, 'k')
    const record = await scene.record('k')
    const Key = wireKey(keys.entity(scene.namespace, 'user-1'))
    const owner = await table.transport.send('GetItem', {TableName: table.name, Key})
    expect(record?.ent).toEqual(owner.Item?.pinc)
    await operator.entities.delete('user-1')
    expect(await scene.record('k')).toBeUndefined()
    // As if the index had missed it.
    if (record) await table.transport.send('PutItem', {TableName: table.name, Item: record})
    scene.nowMs += HOUR_MS
    await operator.entities.create({id: 'user-1'})
    expect(await scene.topUp({q: 5}, 'k')).toMatchObject({isRepeated: false})
    expect(await scene.topUp({q: 5}, 'k')).toMatchObject({isRepeated: true})
    expect(await scene.balance('q')).toBe(15)
  })

  it('is deleted with its entity', async () => {
    await scene.topUp({q: 5}, 'k')
    expect(await scene.operator().entities.countRemoval('user-1')).toMatchObject({operation: 1, bucket: 1})
    expect((await scene.operator().entities.delete('user-1')).byKind).toMatchObject({operation: 1})
    expect(await scene.record('k')).toBeUndefined()
  })

  it('recognises a top-up of another client by the added amounts', async () => {
    await scene.topUp({q: 5, rpm: 200}, 'k')
    const {asked: _, ...record} = (await scene.record('k')) ?? {}
    await table.transport.send('PutItem', {TableName: table.name, Item: record})
    expect(await scene.topUp({q: 5, rpm: 200}, 'k')).toMatchObject({isRepeated: true})
    await expect(scene.topUp({q: 4, rpm: 200}, 'k')).rejects.toMatchObject({code: 'bucket.key-used'})
  })

  it('gives up on a bucket that changes constantly, and changes nothing', async () => {
    const Key = {PK: s(keys.bucket(scene.namespace, USER.entity, USER.resource, 0).PK), SK: s('#STATE')}
    const send = async (operation: string, input: unknown) => {
      if (operation === 'TransactWriteItems') {
        const UpdateExpression = 'ADD rf :one'
        const ExpressionAttributeValues = {':one': {N: '1'}}
        await table.transport.send('UpdateItem', {
          TableName: table.name,
          Key,
          UpdateExpression,
          ExpressionAttributeValues,
        })
      }
      return table.transport.send(operation as never, input as never)
    }
    const operator = scene.operator({transport: {send} as never})
    await expect(operator.topUpBucket(USER, {q: 5})).rejects.toMatchObject({
      code: 'bucket.contended',
      kind: 'conflict',
    })
    expect([await scene.balance('q'), await scene.events()]).toEqual([0, []])
  })
})
