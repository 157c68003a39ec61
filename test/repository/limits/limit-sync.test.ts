import {beforeEach, describe, expect, it} from 'vitest'
import {refillBucket} from '../../../src/lib/core/buckets/bucket.js'
import {shareOfBucket} from '../../../src/lib/core/buckets/shards.js'
import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import {Aborted, ConditionFailed, Throttled} from '../../../src/lib/dynamo/errors.js'
import type {OperationInput} from '../../../src/lib/dynamo/transport.js'
import {Buckets, visibleLimits} from '../../../src/lib/repository/buckets/buckets.js'
import {admissionUpdate, takeStored} from '../../../src/lib/repository/buckets/consume-write.js'
import {readShards} from '../../../src/lib/repository/buckets/split.js'
import {newMark} from '../../../src/lib/repository/buckets/writes.js'
import type {SyncResult} from '../../../src/lib/repository/limits/bucket-sync.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import type {BucketRecord} from '../../../src/lib/schema/bucket-record.js'
import type {ConfigScope} from '../../../src/lib/schema/config-record.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, put, putBucket, stored, type TestTenant, totalOf} from '../namespace-table.js'
import {syncLimits} from './sync-limits.js'

/** The least that an idle bucket lives, in seconds. */
const WEEK = 7 * 86_400

const limits = (...texts: string[]): Limit[] => texts.map(parseLimit)
const system: ConfigScope = {level: 'system'}
const ofResource: ConfigScope = {level: 'resource', resource: 'r'}
const entityDefault: ConfigScope = {level: 'entity', entity: 'e', resource: DEFAULT_RESOURCE}
const ofEntity: ConfigScope = {level: 'entity', entity: 'e', resource: 'r'}
const cases = [ofEntity, entityDefault, ofResource, system].flatMap(scope =>
  [1, 4].map(shardCount => ({level: `${scope.level} ${'resource' in scope ? scope.resource : ''}`, scope, shardCount})),
)

/** The partitions that a BatchGetItem reads. */
function keysIn(input: unknown): string[] {
  const {RequestItems = {}} = input as OperationInput<'BatchGetItem'>
  return Object.values(RequestItems).flatMap(({Keys = []}) => Keys.map(({PK}) => JSON.stringify(PK)))
}

describeOnBoth('limits in sync', {eachIndex: true}, (table, _, resourceIndex) => {
  let tenant: TestTenant
  let configs: Configs

  beforeEach(() => {
    tenant = newTenant(table)
    configs = new Configs(tenant, {audit: newAudit(tenant)})
  })

  const find = (entity = 'e', resource = 'r') => new Buckets(tenant).find(entity, resource)
  const records = async (): Promise<BucketRecord[]> =>
    ((await find())?.shards ?? []).flatMap(shard => (shard.kind === 'bucket' ? [shard.record] : []))
  const consume = async (shard: number, limit: string, tokens: number): Promise<boolean> => {
    const amounts = new Map([[limit, BigInt(tokens) * 1000n]])
    const address = {entity: 'e', resource: 'r', shard}
    try {
      const shardCount = (await readShards(tenant, 'e', 'r', 1)).get(0)?.shardCount ?? 1
      const room = {bounds: [{earliestRefillMs: 0, highestMilli: new Map()}], shardCount}
      const write = takeStored(amounts, room, {requests: 1, nowMs: tenant.nowMs, repairsPressure: false})
      const update = admissionUpdate(tenant, address, write, newMark(tenant))
      await tenant.transport.send('UpdateItem', update)
      return true
    } catch (error) {
      if (error instanceof ConditionFailed) return false
      throw error
    }
  }

  // Only buckets of a resource are found through that index.
  const concerned = resourceIndex === 'KEYS_ONLY' ? cases : cases.filter(({scope}) => scope === ofResource)
  describe.each(concerned)('after a change at $level, $shardCount shards', ({scope, shardCount}) => {
    const start = async (consumed: number, ...texts: string[]) => {
      await configs.set(scope, limits(...texts))
      const lifetime = scope === ofEntity ? {} : {ttlSeconds: tenant.nowMs / 1000 + 420}
      await putBucket(tenant, {entity: 'e', resource: 'r', limits: limits(...texts), shardCount, consumed, ...lifetime})
    }
    const change = async (...texts: string[]) => {
      await configs.set(scope, limits(...texts), {replace: true})
      return syncLimits(tenant, scope)
    }

    it('raises a capacity without adding tokens', async () => {
      await start(5, 'rpm=100/min')
      expect(await change('rpm=200/min')).toEqual({checked: shardCount, updated: shardCount, failed: 0})
      const bucket = await find()
      expect(totalOf(bucket, 'rpm')).toBe(100 - 5 * shardCount)
      expect(totalOf(bucket, 'rpm', 'capacityMilli')).toBe(200 * shardCount)
      expect(totalOf(bucket, 'rpm', 'consumedMilli')).toBe(5 * shardCount)
    })

    it('lowers with a clamp, each shard to its share', async () => {
      await start(1, 'rpm=100/min')
      await change('rpm=10/min')
      expect((await records()).map(({state}) => state.limits.get('rpm')?.tokensMilli)).toEqual(
        Array.from({length: shardCount}, () => 10_000n / BigInt(shardCount)),
      )
      expect(totalOf(await find(), 'rpm', 'consumedMilli')).toBe(shardCount)
    })

    it('keeps the depth of a debt', async () => {
      await start(150, 'rpm=100/min')
      const before = totalOf(await find(), 'rpm')
      await change('rpm=10/min')
      expect(totalOf(await find(), 'rpm')).toBe(before)
    })

    it('adds, removes and renames limits, and every shard keeps admitting', async () => {
      await start(5, 'rpm=100/min', 'tpm=40/min')
      await change('rpm=100/min', 'tpm=40/min', 'rpd=400/day')
      expect(totalOf(await find(), 'rpd')).toBe(400)
      expect(totalOf(await find(), 'rpm')).toBe(100 - 5 * shardCount)
      await change('rpm=100/min', 'requests=400/day')
      for (const record of await records()) {
        expect([...visibleLimits(record).keys()].sort()).toEqual(['requests', 'rpm'])
        expect(await consume(record.shard, 'requests', 1)).toBe(true)
        expect(await consume(record.shard, 'rpm', 1)).toBe(true)
      }
      expect(totalOf(await find(), 'requests')).toBe(400 - shardCount)
      const item = await stored(tenant, keys.bucket(tenant.namespace, 'e', 'r', 0))
      expect(Object.keys(item ?? {}).filter(name => /^b_(tpm|rpd)/.test(name))).toEqual([])
    })

    it('credits the elapsed time at the old rate', async () => {
      await start(20, 'rpm=60/min')
      const before = totalOf(await find(), 'rpm') ?? 0
      tenant.nowMs += 4000
      await change('rpm=6000/min:60')
      expect(totalOf(await find(), 'rpm')).toBe(before + 4)
    })

    it('writes nothing where nothing differs', async () => {
      await start(5, 'rpm=100/min')
      const before = await records()
      tenant.nowMs += 1000
      expect(await syncLimits(tenant, scope)).toEqual({checked: shardCount, updated: 0, failed: 0})
      expect(await records()).toEqual(before)
    })

    it('does not change a bucket when no limits apply any more', async () => {
      await start(5, 'rpm=100/min')
      const before = await records()
      await configs.delete(scope)
      expect(await syncLimits(tenant, scope)).toMatchObject({updated: 0, failed: 0})
      expect(await records()).toEqual(before)
    })

    it('conserves tokens to the milli while others consume and time passes', async () => {
      const beginMs = tenant.nowMs
      await start(1000, 'rpm=6000/min:100000')
      const initial = 100_000 - 1000 * shardCount
      let admitted = 0
      let isSyncing = true
      const consumers = Array.from({length: 8}, async (_, at) => {
        for (let turn = at; isSyncing || turn < at + 20; turn++) {
          tenant.nowMs += 1
          if (await consume(turn % shardCount, 'rpm', 3)) admitted += 3
        }
      })
      let updated = 0
      for (const burst of [200_000, 150_000, 300_000, 120_000, 400_000]) {
        const result = await change(`rpm=6000/min:${burst}`)
        expect(result.failed).toBe(0)
        updated += result.updated
      }
      isSyncing = false
      await Promise.all(consumers)
      expect(updated).toBe(5 * shardCount)
      const bucket = await find()
      expect(totalOf(bucket, 'rpm', 'consumedMilli')).toBe(1000 * shardCount + admitted)
      const held = (await records())
        .map(({state, shard}) => refillBucket(shareOfBucket(state, shard, shardCount), tenant.nowMs).limits.get('rpm'))
        .reduce((sum, limit) => sum + (limit?.tokensMilli ?? 0n), 0n)
      // 6,000 a minute are 100 milli per millisecond; the capacity was never reached.
      expect(held).toBe(1000n * BigInt(initial - admitted) + 100n * BigInt(tenant.nowMs - beginMs))
    })

    it('clamps below the new capacity, without a debt, while others consume', async () => {
      await start(0, 'rpm=1000/day')
      let admitted = 0
      const consumers = Array.from({length: 40}, async (_, at) => {
        if (await consume(at % shardCount, 'rpm', 7)) admitted += 7
      })
      const [result] = await Promise.all([change('rpm=100/day'), ...consumers])
      expect(result).toEqual({checked: shardCount, updated: shardCount, failed: 0})
      const all = (await records()).map(({state}) => state.limits.get('rpm')?.tokensMilli ?? 0n)
      for (const tokens of all) {
        expect(tokens).toBeGreaterThanOrEqual(0n)
        expect(tokens).toBeLessThanOrEqual(100_000n / BigInt(shardCount))
      }
      expect(totalOf(await find(), 'rpm', 'consumedMilli')).toBe(admitted)
    })
  })

  it('touches only buckets whose limits come from the changed level or below', async () => {
    const old = limits('rpm=100/min')
    const sketches = [
      ['own', 'r'],
      ['default', 'r'],
      ['plain', 'r'],
      ['plain', 'other'],
    ] as const
    for (const [entity, resource] of sketches) await putBucket(tenant, {entity, resource, limits: old, ttlSeconds: 2e9})
    await configs.set({level: 'entity', entity: 'own', resource: 'r'}, limits('rpm=1/min'))
    await configs.set({level: 'entity', entity: 'default', resource: DEFAULT_RESOURCE}, limits('rpm=2/min'))
    const capacities = async () =>
      Promise.all(sketches.map(async ([e, r]) => totalOf(await find(e, r), 'rpm', 'capacityMilli')))

    await configs.set(ofResource, limits('rpm=3/min'))
    expect(await syncLimits(tenant, ofResource)).toEqual({checked: 1, updated: 1, failed: 0})
    expect(await capacities()).toEqual([100, 100, 3, 100])
    await configs.set(system, limits('rpm=4/min'))
    expect(await syncLimits(tenant, system)).toEqual({checked: 1, updated: 1, failed: 0})
    expect(await capacities()).toEqual([100, 100, 3, 4])
    await syncLimits(tenant, {level: 'entity', entity: 'default', resource: DEFAULT_RESOURCE})
    await syncLimits(tenant, {level: 'entity', entity: 'own', resource: 'r'})
    expect(await capacities()).toEqual([1, 2, 3, 4])

    await configs.delete({level: 'entity', entity: 'own', resource: 'r'})
    await syncLimits(tenant, {level: 'entity', entity: 'own', resource: 'r'})
    expect(await capacities()).toEqual([3, 2, 3, 4])
  })

  it('never lets buckets of entities with limits of their own expire', async () => {
    await configs.set(ofResource, limits('rpm=100/min'))
    await putBucket(tenant, {entity: 'e', resource: 'r', limits: limits('rpm=100/min'), ttlSeconds: 2e9})
    await configs.set(ofEntity, limits('rpm=100/min'))
    expect(await syncLimits(tenant, ofEntity)).toMatchObject({updated: 1})
    expect((await records())[0]?.ttlSeconds).toBeUndefined()
    await configs.delete(ofEntity)
    expect(await syncLimits(tenant, ofEntity)).toMatchObject({updated: 1})
    expect((await records())[0]?.ttlSeconds).toBe(tenant.nowMs / 1000 + WEEK)
  })

  it.each([
    {was: 'full', text: 'rpm=100/min', shardCount: 1, consumed: 0, seconds: WEEK},
    {was: 'full after two days', text: 'rpm=100/day:200', shardCount: 1, consumed: 0, seconds: 2 * WEEK},
    {was: 'in debt by two capacities', text: 'rpm=100/day', shardCount: 1, consumed: 300, seconds: 3 * WEEK},
    {was: 'in debt by three shares', text: 'rpm=100/day', shardCount: 4, consumed: 100, seconds: 4 * WEEK},
  ])('lets a bucket live for seven times its fill time, seven days at least, when it $was', async sketch => {
    const {text, shardCount, consumed, seconds} = sketch
    await putBucket(tenant, {entity: 'e', resource: 'r', limits: limits(text), shardCount, consumed})
    await configs.set(system, limits(text))
    await syncLimits(tenant, system)
    const expiries = (await records()).map(({ttlSeconds}) => ttlSeconds)
    // The first of several shards never expires.
    const expected = (shard: number) => (shard === 0 && shardCount > 1 ? undefined : tenant.nowMs / 1000 + seconds)
    expect(expiries).toEqual(Array.from({length: shardCount}, (_, shard) => expected(shard)))
  })

  it('repairs limits without parameters and skips ghosts', async () => {
    await configs.set(system, limits('rpm=100/min'))
    await putBucket(tenant, {entity: 'e', resource: 'r', limits: limits('rpm=100/min'), ttlSeconds: 2e9})
    const {b_rpm_cp, b_rpm_ra, b_rpm_rp, ...broken} = (await stored(
      tenant,
      keys.bucket(tenant.namespace, 'e', 'r', 0),
    )) as Item
    await put(tenant, {...broken, b_rpm_tk: {N: '-4000'}, b_rpm_tc: {N: '4000'}})
    expect(await syncLimits(tenant, system)).toEqual({checked: 1, updated: 1, failed: 0})
    expect(totalOf(await find(), 'rpm')).toBe(96)
    const {PK, SK} = keys.bucket(tenant.namespace, 'e', 'r', 0)
    await put(tenant, {PK: {S: PK}, SK: {S: SK}, b_rpm_tk: {N: '-1'}})
    expect(await syncLimits(tenant, ofEntity)).toEqual({checked: 0, updated: 0, failed: 0})
  })

  it('loses no credit of requests that consumed after its read', async () => {
    const old = limits('rpm=6000/min:100')
    await putBucket(tenant, {entity: 'e', resource: 'r', limits: old, consumed: 5, ttlSeconds: 2e9})
    await configs.set(system, limits('rpm=3000/min:100'))
    tenant.nowMs += 200
    let between = 1
    tenant.transport.before = async operation => {
      if (operation === 'UpdateItem' && between-- > 0) await consume(0, 'rpm', 10)
    }
    expect(await syncLimits(tenant, system)).toMatchObject({updated: 1})
    // 95 less 10, and 20 for the time: cut at the capacity.
    expect(totalOf(await find(), 'rpm')).toBe(100)
  })

  it('does not use the cached limits of other levels', async () => {
    await putBucket(tenant, {entity: 'e', resource: 'r', limits: limits('rpm=100/min')})
    await configs.set(system, limits('rpm=100/min'))
    await configs.resolve({entity: 'e', resource: 'r'})
    await new Configs(tenant, {audit: newAudit(tenant)}).set(ofEntity, limits('rpm=7/min'))
    await configs.set(system, limits('rpm=50/min'))
    await syncLimits(tenant, system)
    expect(totalOf(await find(), 'rpm', 'capacityMilli')).toBe(100)
  })

  describe('under faults', () => {
    const many = async () => {
      for (const entity of ['e', 'f', 'g'])
        await putBucket(tenant, {entity, resource: 'r', limits: limits('rpm=100/min'), ttlSeconds: 2e9})
      await configs.set(system, limits('rpm=50/min'))
    }
    const keyOf = (input: unknown) => (input as {Key?: {PK?: {S: string}}}).Key?.PK?.S ?? ''
    /** Another client refills the bucket of `e` just before the write. */
    const refillBefore = (times: number) => {
      let left = times
      tenant.transport.before = async (operation, input) => {
        if (operation !== 'UpdateItem' || !keyOf(input).includes('#e#') || left-- <= 0) return
        await table.transport.send('UpdateItem', {
          TableName: tenant.name,
          Key: (input as {Key: Item}).Key,
          UpdateExpression: 'ADD rf :one',
          ExpressionAttributeValues: {':one': {N: '1'}},
        })
      }
    }

    it('S9 decides again at once on a bucket that is written constantly, without a read or a pause', async () => {
      await many()
      refillBefore(40)
      const slept: number[] = []
      const patient = {...tenant.backoff, sleep: async (ms: number) => void slept.push(ms)}
      tenant.transport.calls.length = 0
      expect(await syncLimits({...tenant, backoff: patient}, system)).toEqual({checked: 3, updated: 3, failed: 0})
      expect(tenant.transport.count('UpdateItem')).toBe(43)
      expect(tenant.transport.count('GetItem')).toBe(0)
      expect(tenant.transport.count('BatchGetItem')).toBe(2) // the buckets, and their configurations
      expect(slept).toEqual([])
    })

    it.each(['with a revision', 'by a client without revisions'])(
      'reads the configuration again for a bucket whose limits were changed in between, %s',
      async how => {
        await many()
        refillBefore(1)
        const refill = tenant.transport.before
        tenant.transport.before = async (operation, input) => {
          if (operation === 'UpdateItem' && tenant.transport.count('UpdateItem') === 1) {
            const others = new Configs({...tenant, transport: table.transport}, {audit: newAudit(tenant)})
            await others.set(system, limits('rpm=70/min'), {replace: true})
            const isRevised = how === 'with a revision'
            await table.transport.send('UpdateItem', {
              TableName: tenant.name,
              Key: {PK: {S: keys.bucket(tenant.namespace, 'e', 'r', 0).PK}, SK: {S: '#STATE'}},
              UpdateExpression: isRevised ? 'SET lr = :lr' : 'SET b_rpm_cp = :cp',
              ExpressionAttributeValues: isRevised ? {':lr': {S: 'theirs'}} : {':cp': {N: '60000'}},
            })
          }
          await refill(operation, input)
        }
        tenant.transport.calls.length = 0
        await syncLimits(tenant, system)
        expect(totalOf(await find(), 'rpm', 'capacityMilli')).toBe(70)
      },
    )

    it('gives up on a bucket that always changes in between and continues with the others', async () => {
      await many()
      refillBefore(Infinity)
      expect(await syncLimits(tenant, system)).toEqual({checked: 3, updated: 2, failed: 1})
    })

    it('counts a throttled bucket as failed and continues', async () => {
      await many()
      tenant.transport.before = (operation, input) => {
        if (operation === 'UpdateItem' && keyOf(input).includes('#f#')) throw new Throttled(operation)
      }
      expect(await syncLimits(tenant, system)).toEqual({checked: 3, updated: 2, failed: 1})
    })

    it('stops at once on a signal, and at a failure that is not an outage', async () => {
      await many()
      const controller = new AbortController()
      const seen: SyncResult[] = []
      tenant.transport.before = operation => {
        if (operation === 'UpdateItem' && controller.signal.aborted) throw new Aborted(operation, false)
      }
      controller.abort()
      await expect(
        syncLimits(tenant, system, {signal: controller.signal, onProgress: soFar => seen.push(soFar)}),
      ).rejects.toBeInstanceOf(Aborted)
      expect(seen).toEqual([])
      tenant.transport.before = operation => {
        if (operation === 'UpdateItem') throw new TypeError('a bug')
      }
      await expect(syncLimits(tenant, system)).rejects.toThrow(TypeError)
    })

    it('reads the configurations of many buckets together, after the buckets', async () => {
      await configs.set(entityDefault, limits('rpm=50/min'))
      for (let at = 0; at < 30; at++)
        await putBucket(tenant, {entity: 'e', resource: `r${at}`, limits: limits('rpm=100/min'), ttlSeconds: 2e9})
      const read: string[] = []
      tenant.transport.before = (operation, input) => {
        if (operation !== 'BatchGetItem') return
        read.push(keysIn(input).some(key => key.includes('BUCKET#')) ? 'buckets' : 'configurations')
      }
      expect(await syncLimits(tenant, entityDefault)).toEqual({checked: 30, updated: 30, failed: 0})
      expect(read).toEqual(['buckets', 'configurations'])
    })

    it('reads the configuration of each bucket where they cannot be read together', async () => {
      await many()
      tenant.transport.before = (operation, input) => {
        if (operation !== 'BatchGetItem' || keysIn(input).some(key => key.includes('BUCKET#'))) return
        if (keysIn(input).length > 4) throw new Throttled(operation)
      }
      expect(await syncLimits(tenant, system)).toEqual({checked: 3, updated: 3, failed: 0})
    })

    it('reports progress and has at most 8 writes in flight', async () => {
      await configs.set(system, limits('rpm=50/min'))
      for (let at = 0; at < 30; at++)
        await putBucket(tenant, {entity: `e${at}`, resource: 'r', limits: limits('rpm=100/min'), ttlSeconds: 2e9})
      let inFlight = 0
      let most = 0
      tenant.transport.before = operation => {
        if (operation === 'UpdateItem') most = Math.max(most, ++inFlight)
      }
      tenant.transport.after = operation => {
        if (operation === 'UpdateItem') inFlight--
      }
      const seen: number[] = []
      await syncLimits(tenant, system, {onProgress: ({checked}) => seen.push(checked)})
      expect(seen).toEqual(Array.from({length: 30}, (_, at) => at + 1))
      expect(most).toBeGreaterThan(1)
      expect(most).toBeLessThanOrEqual(8)
    })
  })
})
