import {beforeEach, describe, expect, it} from 'vitest'
import {RequestTooLarge} from '../../../src/lib/limiter/refusal/errors.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {readVersion} from '../../../src/lib/repository/table/version.js'
import {n, s} from '../../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {encodeVersion} from '../../../src/lib/schema/version-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {DAY_MS, HOUR_MS, MORNING, OperatorScene, USER} from './scene.js'

describeOnBoth('a top-up', {timeout: 60_000}, table => {
  let scene: OperatorScene

  beforeEach(() => {
    scene = new OperatorScene(table)
  })

  it('is refused for an in-flight limit, with and without a bucket, and so is a reset', async () => {
    await scene.configureUser('parallel=20/inflight', 'rpm=1000/min')
    const refused = {
      code: 'limit.in-flight',
      message: 'The limit "parallel" is an in-flight limit: it has slots, no tokens.',
    }
    await expect(scene.topUp({parallel: 5})).rejects.toMatchObject(refused)
    await scene.admitted(1, {rpm: 10})
    await expect(scene.topUp({rpm: 5, parallel: 5})).rejects.toMatchObject(refused)
    await expect(scene.reset(['parallel'])).rejects.toMatchObject(refused)
    expect(await scene.balance('rpm')).toBe(990)
  })

  describe('of a calendar quota', () => {
    beforeEach(() => scene.configureUser('q=10/day@UTC', 'rpm=1000/min'))

    it('lasts until the quota resets', async () => {
      expect(await scene.admitted(1, {q: 6})).toBe(1)
      expect(await scene.topUp({q: 5})).toMatchObject({isRepeated: false, shards: 1, amounts: {q: 5}})
      expect(await scene.spends('q', 9)).toBe(true)
      scene.nowMs += DAY_MS
      expect(await scene.spends('q', 10)).toBe(true)
      expect(await scene.toppedUp('q')).toEqual([0])
    })

    it('exceeds the allowance, survives other requests and a change of the limit, and adds up', async () => {
      const limiter = scene.limiter({denyCacheMs: 0, configCacheMs: 0})
      await scene.admitted(1, {q: 1}, limiter)
      await scene.topUp({q: 5})
      await scene.topUp({q: 2})
      for (let minute = 0; minute < 3; minute++) {
        scene.nowMs += 61_000
        await scene.admitted(1, {rpm: 1}, limiter)
      }
      await scene.configureUser('q=8/day@UTC', 'rpm=500/min')
      await scene.admitted(1, {rpm: 1}, limiter)
      // The lowered allowance of eight less one used, and seven.
      expect([await scene.balance('q'), await scene.toppedUp('q')]).toEqual([14, [7]])
      expect(await scene.spends('q', 14, limiter)).toBe(true)
    })

    it('is dropped when the quota becomes a session', async () => {
      const limiter = scene.limiter({denyCacheMs: 0, configCacheMs: 0})
      await scene.admitted(1, {q: 10}, limiter)
      await scene.topUp({q: 5})
      expect(await scene.spends('q', 5, limiter)).toBe(true)
      await scene.configureUser('q=10/5h!')
      expect(await scene.spends('q', 10, limiter)).toBe(true)
    })

    it('is noticed by a process that has cached the bucket, also for requests above the allowance', async () => {
      const limiter = scene.limiter({denyCacheMs: 0})
      await scene.admitted(1, {q: 3}, limiter)
      await expect(limiter.acquire({...USER, consume: {q: 11}})).rejects.toThrow(RequestTooLarge)
      const [before] = await scene.shards(USER.entity, USER.resource)
      await scene.topUp({q: 5})
      const [after] = await scene.shards(USER.entity, USER.resource)
      expect(after?.limitsRevision).not.toBe(before?.limitsRevision)
      expect(await scene.spends('q', 12, limiter)).toBe(true)
      const idle = scene.limiter({denyCacheMs: 0})
      const other = {entity: 'user-2', resource: USER.resource}
      await expect(idle.acquire({...other, consume: {q: 11}})).rejects.toThrow(RequestTooLarge)
      expect(await scene.shards('user-2', USER.resource)).toEqual([])
      await scene.operator().topUpBucket({entity: 'user-2', resource: USER.resource}, {q: 5})
      await idle.acquire({...other, consume: {q: 15}})
    })

    it('pays a debt first, and later refunds are kept', async () => {
      const limiter = scene.limiter({denyCacheMs: 0})
      const lease = await limiter.acquire({...USER, consume: {q: 10}})
      await lease.adjust({q: 4})
      await scene.topUp({q: 5})
      expect(await scene.balance('q')).toBe(1)
      await lease.release({q: 8})
      expect([await scene.balance('q'), await scene.spends('q', 9)]).toEqual([9, true])
    })

    it('advances a bucket of an earlier period first', async () => {
      await scene.admitted(1, {q: 10})
      await scene.topUp({q: 3})
      scene.nowMs += DAY_MS
      await scene.topUp({q: 5})
      expect([await scene.balance('q'), await scene.toppedUp('q')]).toEqual([15, [5]])
    })

    it('creates a missing bucket, which starts with the allowance and the top-up', async () => {
      await scene.entity('user-1', 'team-1')
      expect(await scene.topUp({q: 5, rpm: 7})).toMatchObject({shards: 1, amounts: {q: 5, rpm: 0}})
      const [record] = await scene.shards(USER.entity, USER.resource)
      expect(record).toMatchObject({parent: 'team-1', cascade: true, shardCount: 1})
      expect(record?.validUntilMs).toBe(MORNING + 15 * HOUR_MS)
      expect(await scene.spends('q', 10)).toBe(true)
      // The parent has ten.
      expect([await scene.balance('q'), await scene.balance('rpm')]).toEqual([5, 1000])
    })

    it('writes nothing for a missing bucket when all named limits start full', async () => {
      expect(await scene.topUp({rpm: 7})).toMatchObject({shards: 0, amounts: {rpm: 0}})
      expect([await scene.shards(USER.entity, USER.resource), await scene.events()]).toEqual([[], []])
      expect(await scene.topUp({rpm: 7}, 'k')).toMatchObject({shards: 0, isRepeated: false})
      expect(await scene.topUp({rpm: 7}, 'k')).toMatchObject({shards: 0, isRepeated: true})
    })

    it('is divided among the shards by their grants, and each request up to the sum is admitted', async () => {
      await scene.admitted(1, {q: 3})
      await scene.split()
      await scene.topUp({q: 7})
      expect([await scene.balance('q', 2), await scene.toppedUp('q', 2)]).toEqual([14, [4, 3]])
      const limiter = scene.limiter({denyCacheMs: 0})
      await expect(limiter.acquire({...USER, consume: {q: 18}})).rejects.toThrow(RequestTooLarge)
      await limiter.acquire({...USER, consume: {q: 13}})
      expect(await scene.spends('q', 1, limiter)).toBe(true)
      scene.nowMs += DAY_MS
      expect(await scene.spends('q', 10)).toBe(true)
    })

    it.each([1, 3])('is neither lost nor doubled by %i splits after it', async splits => {
      await scene.admitted(1, {q: 3})
      await scene.topUp({q: 9})
      await scene.split(splits)
      const count = 2 ** splits
      expect(await scene.balance('q', count)).toBe(16)
      scene.nowMs += 60_000
      expect(await scene.spends('q', 16)).toBe(true)
      scene.nowMs += DAY_MS
      expect(await scene.spends('q', 10)).toBe(true)
    })

    it('marks the grant of a quota without a mark, so that it is not misread later', async () => {
      await scene.admitted(1, {q: 2})
      await scene.split()
      for (const shard of [0, 1]) {
        const Key = wireKey(keys.bucket(scene.namespace, USER.entity, USER.resource, shard))
        await table.transport.send('UpdateItem', {TableName: table.name, Key, UpdateExpression: 'REMOVE b_q_gc'})
      }
      await scene.topUp({q: 40})
      expect((await scene.limits('q', 2)).map(({kind}) => kind?.quota?.grantCount)).toEqual([2, 2])
      expect(await scene.spends('q', 48)).toBe(true)
    })

    it('includes shards whose count lags behind a split', async () => {
      await scene.admitted(1, {q: 2})
      await scene.split()
      const Key = wireKey(keys.bucket(scene.namespace, USER.entity, USER.resource, 1))
      await table.transport.send('UpdateItem', {
        TableName: table.name,
        Key,
        UpdateExpression: 'SET shard_count = :one',
        ExpressionAttributeValues: {':one': n(1)},
      })
      await scene.reset()
      expect(await scene.balance('q', 2)).toBe(10)
      expect((await scene.shards(USER.entity, USER.resource, 2)).map(({shardCount}) => shardCount)).toEqual([2, 2])
    })

    it('keeps the bucket until its period is over', async () => {
      await scene.admitted(1, {q: 1})
      const Key = wireKey(keys.bucket(scene.namespace, USER.entity, USER.resource, 0))
      await table.transport.send('UpdateItem', {
        TableName: table.name,
        Key,
        UpdateExpression: 'SET #ttl = :soon',
        ExpressionAttributeNames: {'#ttl': 'ttl'},
        ExpressionAttributeValues: {':soon': n(Math.floor(scene.nowMs / 1000) + 60)},
      })
      await scene.topUp({q: 1})
      const [record] = await scene.shards(USER.entity, USER.resource)
      expect(record?.ttlSeconds).toBeGreaterThan((MORNING + 15 * HOUR_MS) / 1000)
    })

    it('keeps a bucket in which the quota is new until the quota resets', async () => {
      await scene.configureUser('rpm=1000/min')
      await scene.admitted(1, {rpm: 1})
      await scene.configureUser('rpm=1000/min', 'q=10/day@UTC')
      await scene.topUp({q: 1})
      const [record] = await scene.shards(USER.entity, USER.resource)
      expect(record?.ttlSeconds).toBeGreaterThan((MORNING + 15 * HOUR_MS) / 1000)
    })

    it('is refused when an older aggregator would remove it, and changes nothing', async () => {
      await scene.admitted(1, {q: 1})
      const version = {schemaVersion: '0.10.0', clientMinVersion: '0.0.0', updatedAt: '', updatedBy: undefined}
      const write = (lambdaVersion: string | undefined) =>
        table.transport.send('PutItem', {TableName: table.name, Item: encodeVersion({...version, lambdaVersion})})
      await write('0.15.2')
      await expect(scene.topUp({q: 5}, 'k')).rejects.toMatchObject({code: 'aggregator.too-old', kind: 'conflict'})
      expect([await scene.balance('q'), await scene.record('k')]).toEqual([9, undefined])
      expect(await scene.topUp({rpm: 5})).toMatchObject({shards: 1})
      await write('0.17.0')
      expect(await scene.topUp({q: 5}, 'k')).toMatchObject({isRepeated: false})
      // Clients that would take it away can no longer open the table.
      expect((await readVersion(scene.tenant)).record?.clientMinVersion).toBe('0.17.0')
      await table.transport.send('DeleteItem', {TableName: table.name, Key: wireKey(keys.version())})
    })

    it('works on a disabled bucket, which stays disabled', async () => {
      await scene.admitted(1, {q: 1})
      const operator = scene.operator()
      await operator.setAccess({level: 'resource', resource: USER.resource}, 'disabled')
      await scene.topUp({q: 5})
      const [record] = await scene.shards(USER.entity, USER.resource)
      expect([record?.isDisabled, await scene.balance('q')]).toEqual([true, 14])
      await expect(operator.topUpBucket({entity: 'user-2', resource: USER.resource}, {q: 1})).rejects.toMatchObject({
        code: 'bucket.disabled',
      })
    })
  })

  it('opens a session, and ends with it', async () => {
    await scene.configureUser('q=10/5h!', 'other=10/5h!')
    await scene.admitted(1, {other: 1})
    scene.nowMs += 6 * HOUR_MS
    await scene.topUp({q: 5})
    const [q, other] = [(await scene.limits('q'))[0], (await scene.limits('other'))[0]]
    expect(q?.kind?.quota?.session).toMatchObject({startMs: scene.nowMs, appliedMs: scene.nowMs})
    expect(other?.kind?.quota?.session?.startMs).toBe(MORNING)
    scene.nowMs += 5 * HOUR_MS - 1
    expect(await scene.spends('q', 15)).toBe(true)
    scene.nowMs += 1
    expect(await scene.spends('q', 10)).toBe(true)
  })

  it('opens one session window on all shards', async () => {
    await scene.configureUser('q=10/5h!')
    await scene.admitted(1, {q: 4})
    await scene.split(2)
    await scene.topUp({q: 6})
    expect(await scene.spends('q', 12)).toBe(true)
    scene.nowMs += 5 * HOUR_MS
    await scene.topUp({q: 6})
    expect(new Set((await scene.limits('q', 4)).map(({kind}) => kind?.quota?.session?.startMs)).size).toBe(1)
    expect(await scene.spends('q', 16)).toBe(true)
  })

  it.each([1, 4])('adds at most the missing tokens of a limit that refills, over %i shards', async count => {
    await scene.configureUser('rpm=100/min')
    const limiter = scene.limiter({denyCacheMs: 0})
    await limiter.acquire({...USER, consume: {rpm: 60}})
    await scene.split(Math.log2(count))
    expect(await scene.topUp({rpm: 25})).toMatchObject({shards: count, amounts: {rpm: 25}})
    expect(await scene.balance('rpm', count)).toBe(65)
    expect(await scene.topUp({rpm: 70})).toMatchObject({amounts: {rpm: 35}})
    expect(await scene.balance('rpm', count)).toBe(100)
    expect(await scene.topUp({rpm: 70})).toMatchObject({amounts: {rpm: 0}})
    expect(await scene.toppedUp('rpm', count)).toEqual(Array.from({length: count}, () => 0))
  })

  it.each([1, 2])(
    'S6 adds exactly the reported amount to a rate: whole tokens, as many as fit, with %i shards',
    async shards => {
      await scene.configureUser('rpm=80/day')
      await scene.admitted(1, {rpm: 9})
      if (shards > 1) await scene.split()
      scene.nowMs += 4320
      const sumMilli = async () =>
        (await scene.limits('rpm', shards)).reduce((sum, {tokensMilli}) => sum + tokensMilli, 0n)
      const before = await sumMilli()
      // 80 per day are 4 millitokens in 4.32 s.
      expect(await scene.topUp({rpm: 39})).toMatchObject({amounts: {rpm: 8}})
      expect(await sumMilli()).toBe(before + 4n + 8000n)
    },
  )

  it('updates the bucket to the configuration: a new limit is topped up', async () => {
    await scene.configureUser('rpm=100/min')
    await scene.admitted(1, {rpm: 1})
    await scene.configureUser('rpm=100/min', 'q=10/day@UTC')
    await scene.topUp({q: 5})
    expect(await scene.spends('q', 15)).toBe(true)
  })

  it('adds to limits that only the code configures, and does not count the remains of a refund twice', async () => {
    const limiter = scene.limiter({
      defaultLimits: [{name: 'rpm', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60}],
      denyCacheMs: 0,
    })
    await limiter.acquire({...USER, consume: {rpm: 10}})
    expect(await scene.topUp({rpm: 4})).toMatchObject({amounts: {rpm: 4}})
    expect(await scene.spends('rpm', 4, limiter)).toBe(true)
    await scene.configureUser('q=10/day@UTC')
    const {PK, SK} = keys.bucket(scene.namespace, 'user-2', USER.resource, 0)
    const ghost = {PK: s(PK), SK: s(SK), b_q_tk: n(3000), b_q_tc: n(-3000)}
    await table.transport.send('PutItem', {TableName: table.name, Item: ghost})
    await scene.operator().topUpBucket({entity: 'user-2', resource: USER.resource}, {q: 5})
    expect((await scene.totals('user-2', USER.resource, 'q')).tokens).toBe(15)
  })

  it.each([
    ['no amount', {}, 'bucket.amount'],
    ['nothing', {q: 0}, 'bucket.amount'],
    ['less than nothing', {q: -1}, 'bucket.amount'],
    ['a fraction', {q: 0.5}, 'bucket.amount'],
    ['too much', {q: 1e15}, 'bucket.amount'],
    ['more than can be counted together', {q: 9_007_199_254_740}, 'bucket.amount'],
    ['a limit that is not there', {qq: 1}, 'limit.unknown'],
    ['a name that no limit can have', {'a#b': 1}, 'name.invalid'],
    ['the limit that measures writes', {wcu: 1}, 'name.invalid'],
  ])('refuses %s before it writes anything', async (_, amounts, code) => {
    await scene.configureUser('q=10/day@UTC')
    await scene.admitted(1, {q: 1})
    await expect(scene.topUp(amounts as Record<string, number>, 'k')).rejects.toMatchObject({code, kind: 'usage'})
    await expect(scene.topUp({q: 1}, 'no key')).rejects.toMatchObject({code: 'bucket.key'})
    expect([await scene.balance('q'), await scene.record('k'), await scene.events()]).toEqual([9, undefined, []])
  })

  it.each([
    ['a limit that is not there', {qq: 1}, 'limit.unknown'],
    ['one that is there and one that is not', {q: 1, qq: 1}, 'limit.unknown'],
    ['more than can be counted together', {q: 9_007_199_254_740}, 'bucket.amount'],
  ])('refuses %s without a bucket, too', async (_, amounts, code) => {
    await scene.configureUser('q=10/day@UTC')
    await expect(scene.topUp(amounts as Record<string, number>, 'k')).rejects.toMatchObject({code, kind: 'usage'})
    expect([await scene.record('k'), await scene.events()]).toEqual([undefined, []])
    expect(await scene.shards(USER.entity, USER.resource)).toEqual([])
  })

  it('fails when no limits are configured', async () => {
    await expect(scene.topUp({q: 1})).rejects.toMatchObject({code: 'limits.missing'})
  })

  it.each([
    ['q=4/1h!', 1],
    ['q=4/1h!', 2],
    ['q=4/hour@UTC', 1],
    ['q=4/hour@UTC', 2],
  ])('for an expired period of %s allows no larger request, with %i shards (L2, seed 600905)', async (text, shards) => {
    await scene.configureUser(text)
    expect(await scene.admitted(1, {q: 1})).toBe(1)
    if (shards > 1) await splitBucket(scene.tenant, USER.entity, USER.resource, 1)
    await scene.topUp({q: 4})
    expect(await scene.admitted(1, {q: 5})).toBe(1)
    scene.nowMs += 2 * HOUR_MS
    await expect(scene.limiter().acquire({...USER, consume: {q: 5}})).rejects.toBeInstanceOf(RequestTooLarge)
    expect(await scene.admitted(1, {q: 4})).toBe(1)
  })
})
