import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {RollupSchedule, windowStart} from '../../../src/lib/core/window.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import type {FindingKind} from '../../../src/lib/insight/verify/finding.js'
import {verifyTable} from '../../../src/lib/insight/verify/verify.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {openReservations, storeReservation} from '../../../src/lib/repository/buckets/reservations.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import type {Item, Key} from '../../../src/lib/schema/attribute-value.js'
import {attributes} from '../../../src/lib/schema/attributes.js'
import {limitAttribute} from '../../../src/lib/schema/bucket-record.js'
import {configAttribute} from '../../../src/lib/schema/config-limits.js'
import {encodeHolder, holderExpiry} from '../../../src/lib/schema/holder-record.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {encodeRollups} from '../../../src/lib/schema/registry-records.js'
import {slotAttribute} from '../../../src/lib/schema/slot-attributes.js'
import {usageMark} from '../../../src/lib/schema/usage-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {VerifyScene} from './scene.js'

const {bucket, entity, usage} = attributes
const number = (value: number | bigint) => ({N: String(value)})
const text = (value: string) => ({S: value})

interface Corruption {
  readonly name: string
  readonly kind: FindingKind
  readonly plant: (scene: VerifyScene) => Promise<void>
  readonly reason: RegExp
  /** Listed, and left as it is. */
  readonly isUndecided?: true
}

const bucketOf = ({table}: VerifyScene, shard = 0) => keys.bucket(table.namespace, 'user-1', 'gpt-4', shard)
const singleBucket = ({table}: VerifyScene) => keys.bucket(table.namespace, 'user-2', 'gpt-4', 0)
const dayOf = ({table, startMs}: VerifyScene) =>
  keys.usage(table.namespace, 'user-1', 'gpt-4', 'daily', new Date(startMs).toISOString().replace('.000', ''))

/** Two of three slots are held; `free` is what the bucket says is left. */
const holding = (holder: string, free: number) => ({
  [slotAttribute.capacity('parallel')]: number(3),
  [slotAttribute.free('parallel')]: number(free),
  [slotAttribute.account(holder)]: text('1.aaaa parallel:2'),
})

/** A holder whose last beat is some seconds ago. */
async function putHolder({table}: VerifyScene, id: string, seconds: number, more: Item = {}): Promise<void> {
  const Key = wireKey(keys.holder(table.namespace, id))
  const holder = encodeHolder({namespace: table.namespace, id, host: 'gw-a', pid: 991, startedAt: undefined})
  const ttl = number(holderExpiry(Date.now() - seconds * 1000))
  const Item = {
    ...Key,
    ...holder,
    [attributes.holder.beat]: text('1.aaaa'),
    [attributes.holder.expiresAt]: ttl,
    ...more,
  }
  await table.transport.send('PutItem', {TableName: table.name, Item})
}

/** Of a former bucket, so that its tokens do not come back. */
function putReservation({table}: VerifyScene, holder: string): Promise<void> {
  const place = {entity: 'user-2', resource: 'gpt-4', shard: 0, incarnation: 'former'}
  const period = {definition: 'former', isSession: false}
  return storeReservation(table, {holder, id: '1.aaaa'}, [{...place, limit: 'tpd', milli: 500_000n, period}])
}

const CORRUPTIONS: readonly Corruption[] = [
  {
    name: 'a lost slot',
    kind: 'slots',
    plant: async scene => {
      await putHolder(scene, 'alive', 1)
      await scene.change(singleBucket(scene), holding('alive', 0))
    },
    reason: /^parallel has 3 slots, but 0 free and 2 in use: 1 lost\.$/,
  },
  {
    name: 'a slot too many',
    kind: 'slots',
    plant: async scene => {
      await putHolder(scene, 'alive', 1)
      await scene.change(singleBucket(scene), holding('alive', 2))
    },
    reason: /2 free and 2 in use: 1 too many\.$/,
  },
  {
    name: 'slots of a holder without a record',
    kind: 'holder',
    plant: scene => scene.change(singleBucket(scene), holding('gone', 1)),
    reason: /^Holder gone has 2 slots and has no record\.$/,
  },
  {
    name: 'slots of a process that stopped beating',
    kind: 'holder',
    plant: async scene => {
      await putHolder(scene, 'silent', 60)
      await scene.change(singleBucket(scene), holding('silent', 1))
    },
    reason: /^Holder silent \(gw-a, pid 991\) has 2 slots and writes no beats\.$/,
  },
  {
    name: 'slots of a holder that was declared dead',
    kind: 'holder',
    plant: async scene => {
      await putHolder(scene, 'dead', 1, {[attributes.holder.dead]: {BOOL: true}})
      await scene.change(singleBucket(scene), holding('dead', 1))
    },
    reason: /was declared dead\.$/,
  },
  {
    name: 'reserved tokens of a holder without a record',
    kind: 'holder',
    plant: scene => putReservation(scene, 'gone'),
    reason: /^Holder gone has reserved 500 tpd of user-2 · gpt-4 and has no record\.$/,
  },
  {
    name: 'reserved tokens of a process that stopped beating',
    kind: 'holder',
    plant: async scene => {
      await putHolder(scene, 'silent', 60)
      await putReservation(scene, 'silent')
    },
    reason: /^Holder silent \(gw-a, pid 991\) has reserved 500 tpd .* and writes no beats\.$/,
  },
  {
    name: 'a bucket that is missing in the index of its resource',
    kind: 'index',
    plant: scene => scene.change(bucketOf(scene), {GSI2PK: undefined, GSI2SK: undefined}),
    reason: /GSI2PK, GSI2SK are missing or wrong/,
  },
  {
    name: 'a bucket under another entity in the index',
    kind: 'index',
    plant: scene => scene.change(bucketOf(scene), {GSI3PK: text(`${scene.table.namespace}/ENTITY#other`)}),
    reason: /GSI3PK is missing or wrong/,
  },
  {
    name: 'an entity outside the index of its namespace',
    kind: 'index',
    plant: scene => scene.change(keys.entity(scene.table.namespace, 'user-2'), {GSI4PK: undefined, GSI4SK: undefined}),
    reason: /GSI4PK, GSI4SK/,
  },
  {
    name: 'a child outside the index of its parent',
    kind: 'index',
    plant: scene => scene.change(keys.entity(scene.table.namespace, 'user-1'), {GSI1PK: undefined, GSI1SK: undefined}),
    reason: /GSI1PK, GSI1SK/,
  },
  {
    name: 'a child in the index of a parent it does not have',
    kind: 'index',
    plant: scene =>
      scene.change(keys.entity(scene.table.namespace, 'user-2'), {
        GSI1PK: text(`${scene.table.namespace}/PARENT#team-1`),
        GSI1SK: text('CHILD#user-2'),
      }),
    reason: /GSI1PK, GSI1SK/,
  },
  {
    name: 'a boost that has ended and was never tidied up',
    kind: 'boost',
    plant: async ({table}) => {
      const pastMs = Date.now() - 3 * 3_600_000
      const past = new NamespaceRepository({...table, clock: () => pastMs}, undefined)
      const until = new Date(pastMs + 3_600_000)
      await past.configs.set({level: 'resource', resource: 'idle'}, [parseLimit('rpm=1/min')])
      await past.configs.set({level: 'resource', resource: 'idle'}, [parseLimit('rpm=2/min')], {until})
    },
    reason: /^The temporary limit rpm expired at .* but is still configured/,
  },
  {
    name: 'a switch that has expired and was never removed',
    kind: 'boost',
    plant: async ({table}) => {
      const pastMs = Date.now() - 3 * 3_600_000
      const past = new NamespaceRepository({...table, clock: () => pastMs}, undefined)
      await past.setAccess({level: 'resource', resource: 'idle'}, 'disabled', {until: new Date(pastMs + 3_600_000)})
    },
    reason: /^The temporary switch expired at .* but is still configured\. Clients of zae-limiter still obey it\./,
  },
  {
    name: 'usage outside the index of its resource',
    kind: 'index',
    plant: scene => scene.change(dayOf(scene), {GSI2PK: undefined}),
    reason: /GSI2PK is missing or wrong/,
  },
  {
    name: 'system limits outside the index of their namespace',
    kind: 'index',
    plant: scene => scene.change(keys.systemConfig(scene.table.namespace), {GSI4SK: undefined}),
    reason: /GSI4SK/,
  },
  {
    name: 'a bucket that is refilled until next year',
    kind: 'refill',
    plant: scene => scene.change(bucketOf(scene), {[bucket.refilledAt]: number(Date.now() + 365 * 86_400_000)}),
    reason: /which is in the future/,
  },
  {
    name: 'fractions that are none',
    kind: 'remainder',
    plant: scene => scene.change(bucketOf(scene), {[bucket.remainders]: text('1|tpm:9/2')}),
    reason: /cannot be read/,
  },
  {
    name: 'a capacity that is not configured',
    kind: 'limits',
    plant: scene => scene.change(bucketOf(scene), {[limitAttribute('tpm', 'capacity')]: number(90_000_000)}),
    reason: /tpm has capacity 90,000 and .*the configuration has capacity 20,000/,
  },
  {
    name: 'a rate that is not configured',
    kind: 'limits',
    plant: scene => scene.change(singleBucket(scene), {[limitAttribute('rpm', 'refillAmount')]: number(1)}),
    reason: /rpm has .*\(resource level\)/,
  },
  {
    name: 'a configured limit that the bucket lacks',
    kind: 'limits',
    plant: scene =>
      scene.change(
        singleBucket(scene),
        Object.fromEntries(
          (['tokens', 'capacity', 'refillAmount', 'refillPeriod', 'consumed'] as const).map(field => [
            limitAttribute('rpm', field),
            undefined,
          ]),
        ),
      ),
    reason: /rpm is configured but not in the bucket/,
  },
  {
    name: 'a limit without a capacity in a bucket',
    kind: 'malformed',
    plant: scene => scene.change(singleBucket(scene), {[limitAttribute('rpm', 'capacity')]: undefined}),
    reason: /rpm has counters without a capacity/,
    isUndecided: true,
  },
  {
    name: 'a bucket with another parent than its entity',
    kind: 'parent',
    plant: scene => scene.change(bucketOf(scene), {[bucket.parent]: text('team-2')}),
    reason: /has parent team-2; its entity has parent team-1/,
  },
  {
    name: 'a bucket that is not charged to the parent',
    kind: 'parent',
    plant: scene => scene.change(bucketOf(scene, 1), {[bucket.cascade]: {BOOL: false}}),
    reason: /parent team-1, which is not charged; its entity has parent team-1\./,
  },
  {
    name: 'a bucket whose entity has no parent',
    kind: 'parent',
    plant: scene =>
      scene.change(singleBucket(scene), {[bucket.parent]: text('team-1'), [bucket.cascade]: {BOOL: true}}),
    reason: /its entity has no parent/,
  },
  {
    name: 'a bucket with the parent of a deleted entity',
    kind: 'parent',
    plant: scene => scene.delete(keys.entity(scene.table.namespace, 'user-1')),
    reason: /The bucket has parent team-1; its entity has no record, so it has no parent\./,
  },
  {
    name: 'an entity whose parent does not exist',
    kind: 'parent',
    plant: scene => scene.delete(keys.entity(scene.table.namespace, 'team-1')),
    reason: /Its parent team-1 does not exist/,
    isUndecided: true,
  },
  {
    name: 'a shard with another number of shards',
    kind: 'shards',
    plant: scene => scene.change(bucketOf(scene, 1), {[bucket.shardCount]: number(1)}),
    reason: /Shard 0 counts 2 shards; shard 1 counts another number/,
  },
  {
    name: 'a missing shard of a bucket that does not expire',
    kind: 'shards',
    plant: scene => scene.delete(bucketOf(scene, 1)),
    reason: /Missing shards \(of 2\): 1\./,
  },
  {
    name: 'a shard beyond the last one',
    kind: 'shards',
    plant: async scene => {
      const item = await scene.get(singleBucket(scene))
      const PK = text(keys.bucket(scene.table.namespace, 'user-2', 'gpt-4', 3).PK)
      const tail = (value: string) => text(value.replace(/#0$/, '#3'))
      const {GSI2SK, GSI3SK, GSI4SK} = item as {[name: string]: {S: string}}
      await scene.put({
        ...item,
        PK,
        GSI2SK: tail((GSI2SK as {S: string}).S),
        GSI3SK: tail((GSI3SK as {S: string}).S),
        GSI4SK: tail((GSI4SK as {S: string}).S),
      })
    },
    reason: /The bucket has 1 shard, and this is number 3/,
    isUndecided: true,
  },
  {
    name: 'more shards than possible',
    kind: 'shards',
    plant: scene => scene.change(singleBucket(scene), {[bucket.shardCount]: number(5000)}),
    reason: /It claims 5,000 shards/,
    isUndecided: true,
  },
  {
    name: 'a ghost',
    kind: 'ghost',
    plant: scene =>
      scene.put({
        PK: text(keys.bucket(scene.table.namespace, 'gone', 'gpt-4', 0).PK),
        SK: text(keys.bucket(scene.table.namespace, 'gone', 'gpt-4', 0).SK),
        [limitAttribute('tpm', 'tokens')]: number(5),
      }),
    reason: /A refund created it/,
  },
  {
    name: 'a resource that the registry lacks',
    kind: 'registry',
    plant: scene => scene.change(keys.resourceRegistry(scene.table.namespace), {resources: undefined}),
    reason: /The registry does not list gpt-4/,
  },
  {
    name: 'a resource without limits in the registry',
    kind: 'registry',
    plant: scene => scene.change(keys.resourceRegistry(scene.table.namespace), {resources: {SS: ['gpt-4', 'gone']}}),
    reason: /lists gone, which has no limits/,
  },
  {
    name: 'a wrong count of entities with limits',
    kind: 'registry',
    plant: scene => scene.change(keys.entityConfigRegistry(scene.table.namespace), {'gpt-4': number(5)}),
    reason: /counts 5 entities with limits for gpt-4; there is 1/,
  },
  {
    name: 'limits without a capacity',
    kind: 'malformed',
    plant: scene =>
      scene.change(keys.systemConfig(scene.table.namespace), {[configAttribute('tpm', 'refillAmount')]: number(5)}),
    reason: /tpm has no capacity/,
    isUndecided: true,
  },
  {
    name: 'a day that is not the sum of its hours',
    kind: 'usage',
    plant: scene => scene.change(dayOf(scene), {tpm: number(150)}),
    reason: /daily record of .* has 150 tpm, its hourly records 200/,
    isUndecided: true,
  },
  {
    name: 'a day with other requests than its hours',
    kind: 'usage',
    plant: scene => scene.change(dayOf(scene), {[usage.totalEvents]: number(9)}),
    reason: /has 9 requests, its hourly records 2/,
    isUndecided: true,
  },
  {
    name: 'consumption that was never counted',
    kind: 'usage',
    plant: async scene => {
      // At rest for a day, and nothing of it is in the usage.
      await scene.change(keys.entity(scene.table.namespace, 'user-2'), {
        [entity.createdAt]: text(new Date(Date.now() - 3 * 86_400_000).toISOString()),
      })
      await scene.change(singleBucket(scene), {
        [bucket.refilledAt]: number(Date.now() - 86_400_000),
        [bucket.expiresAt]: undefined,
      })
      const month = await scene.get(dayOf(scene))
      const start = `${new Date().toISOString().slice(0, 7)}-01T00:00:00Z`
      const {PK, SK} = keys.usage(scene.table.namespace, 'user-2', 'gpt-4', 'monthly', start)
      await scene.put({
        ...month,
        PK: text(PK),
        SK: text(SK),
        [usage.entity]: text('user-2'),
        [usage.window]: text('monthly'),
        [usage.start]: text(start),
        tpm: number(5),
        _seq_0: {S: 's#9'},
        GSI2SK: text(`USAGE#${start}#user-2`),
        GSI4SK: text(PK),
      })
    },
    reason: /2 tpm were consumed but are not in the monthly usage/,
    isUndecided: true,
  },
  {
    name: 'records of a namespace that does not exist',
    kind: 'orphan',
    plant: async scene => {
      await scene.delete(keys.namespaceById(scene.table.namespace))
    },
    reason: /No namespace has the id/,
    isUndecided: true,
  },
  {
    name: 'a namespace that is registered by id only',
    kind: 'namespace',
    plant: async scene => {
      const {namespace_name: name} = (await scene.get(keys.namespaceById(scene.table.namespace))) as {
        [name: string]: {S: string}
      }
      await scene.delete(keys.namespaceByName((name as {S: string}).S))
    },
    reason: /its record by name is missing/,
    isUndecided: true,
  },
  {
    name: 'an item of no known kind',
    kind: 'unknown',
    plant: scene => scene.put({PK: text(`${scene.table.namespace}/WHAT#1`), SK: text('#X')}),
    reason: /matches no known record/,
    isUndecided: true,
  },
]

/** The first corruption of each kind. */
const ONE_OF_EACH = CORRUPTIONS.filter(({kind}, at) => CORRUPTIONS.findIndex(each => each.kind === kind) === at)

describeOnBoth('a verification', {timeout: 300_000}, (table, extent) => {
  let scene: VerifyScene

  beforeEach(async () => {
    scene = await VerifyScene.open(table)
  })
  afterEach(() => scene.clear())

  it('finds no problem in records that zael wrote', async () => {
    expect(await scene.findings()).toEqual([])
    const {items, oldItems} = await verifyTable(scene.table)
    expect(items).toBeGreaterThan(15)
    expect(oldItems).toBe(0)
  })

  describe.each(extent === 'all' ? CORRUPTIONS : ONE_OF_EACH)('of $name', ({kind, plant, reason, isUndecided}) => {
    it(isUndecided ? 'lists it without a repair' : 'finds it and repairs it', async () => {
      await plant(scene)
      const found = (await scene.findings()).filter(each => each.kind === kind)
      expect(found.map(each => each.reason)).toContainEqual(expect.stringMatching(reason))
      const outcomes = await scene.repair()
      if (isUndecided) {
        expect(found.every(each => each.repair === undefined)).toBe(true)
        expect([...outcomes.values()]).toContain('undecided')
      } else {
        expect([...new Set(outcomes.values())]).toEqual(['repaired'])
        expect(await scene.findings()).toEqual([])
        const {records} = await scene.repository.namespaceById(scene.table.namespace).audit.listAll({limit: 50})
        expect(records.filter(({action}) => action === 'verify_repaired').length).toBeGreaterThan(0)
        const ended = records.filter(({action}) => action === 'limits_boost_ended')
        expect(ended.every(({principal}) => principal === 'tester')).toBe(true)
      }
    })
  })

  it('compares a rolled-up day with its hours, and skips other days', async () => {
    const schedule = new RollupSchedule({daily: ['2000-01-01T00:00:00Z'], monthly: ['2000-01-01T00:00:00Z']})
    await scene.put(encodeRollups(schedule))
    const found = async () => (await scene.findings()).filter(({kind}) => kind === 'usage')
    const wrong = {tpm: number(150)}
    await scene.change(dayOf(scene), wrong)
    expect(await found()).toEqual([])
    await scene.change(dayOf(scene), {[usage.rolledUp]: text('1')})
    expect((await found()).map(({reason}) => reason)).toEqual([
      expect.stringMatching(/has 150 tpm, its hourly records 200/),
    ])
    await scene.change(dayOf(scene), {tpm: number(200)})
    expect(await found()).toEqual([])
    const month = keys.usage(scene.table.namespace, 'user-1', 'gpt-4', 'monthly', windowStart('monthly', scene.startMs))
    await scene.change(month, {[usage.rolledUp]: text('1'), tpm: number(170)})
    expect((await found()).map(({reason}) => reason)).toEqual([
      expect.stringMatching(/has 170 tpm, its daily records 200/),
    ])
  })

  it('finds a day that lacks a late record, once the stream no longer holds it', async () => {
    await scene.put(encodeRollups(new RollupSchedule({daily: ['2000-01-01T00:00:00Z']})))
    await scene.change(dayOf(scene), {[usage.rolledUp]: text('1'), [usageMark(0)]: text('s#3'), tpm: number(100)})
    const foundAt = async (clock: () => number) =>
      (await verifyTable({...scene.table, clock})).findings.filter(({key}) => key.endsWith('#daily'))
    const endMs = scene.startMs + 86_400_000
    expect(await foundAt(() => endMs + 3_600_000)).toEqual([])
    expect(await foundAt(() => endMs + 25 * 3_600_000)).toMatchObject([{kind: 'usage', subject: 'tpm'}])
  })

  it('accepts the usage of a day on which zael replaced an aggregator of zae-limiter', async () => {
    const hour = 3_600_000
    const {[usageMark(0)]: _, ...day} = await scene.get(dayOf(scene))
    const entry = (key: Key, startMs: number, tpm: number): Item => ({
      ...day,
      ...{PK: text(key.PK), SK: text(key.SK), tpm: number(tpm)},
      [usage.start]: text(new Date(startMs).toISOString().replace('.000', '')),
    })
    const keyAt = (startMs: number) =>
      keys.usage(
        scene.table.namespace,
        'user-1',
        'gpt-4',
        'hourly',
        new Date(startMs).toISOString().replace('.000', ''),
      )
    // 70 before, in an hour of its own and in the hour in which zael began; the day has no type in its key.
    await scene.put(entry(keyAt(scene.startMs), scene.startMs, 70))
    const secondMs = scene.startMs + 2 * hour
    const second = {...entry(keyAt(secondMs), secondMs, 30), [usage.window]: text('hourly')}
    await scene.put(second)
    await scene.change(keyAt(scene.startMs + 3 * hour), {tpm: number(140)})
    expect((await scene.findings()).filter(({kind}) => kind === 'usage')).toEqual([])
    // No month contains the earlier consumption of its bucket.
    const uncounted = CORRUPTIONS.find(({name}) => name === 'consumption that was never counted')
    await uncounted?.plant(scene)
    const {PK} = keys.entity(scene.table.namespace, 'user-2')
    await scene.put({...second, PK: text(PK), [usage.entity]: text('user-2')})
    expect((await scene.findings()).filter(({kind}) => kind === 'usage')).toEqual([])
  })

  it('accepts buckets of all kinds of limits, and finds a bucket whose kind differs from the configuration', async () => {
    const {name: stack, transport, namespace} = scene.table
    const {configs} = scene.repository.namespaceById(namespace)
    const configure = (...limits: string[]) =>
      configs.set({level: 'resource', resource: 'kinds'}, limits.map(parseLimit))
    await configure(
      'day=10/day@Europe/Berlin',
      'five=5/5h!',
      'soft=3/min,soft',
      'rpm=60/min,x0.1@"* 22-23 * * * Europe/Berlin"',
    )
    const limiter = new RateLimiter({stack, transport, namespaceId: namespace})
    await limiter.acquire({entity: 'user-2', resource: 'kinds', consume: {day: 1, five: 1, soft: 5, rpm: 1}})
    await limiter.close()
    await splitBucket(scene.table, 'user-2', 'kinds', 1)
    expect(await scene.findings()).toEqual([])
    await configure('day=10/month@Europe/Berlin', 'five=5/day@Europe/Berlin', 'soft=3/min', 'rpm=60/min')
    const found = (await scene.findings()).filter(({kind}) => kind === 'limits')
    expect([...new Set(found.map(({subject}) => subject))].sort()).toEqual(['day', 'five', 'rpm', 'soft'])
    // The first repair of a shard brings all of its limits in line.
    expect([...(await scene.repair()).values()].filter(each => each === 'repaired')).toHaveLength(2)
    expect(await scene.findings()).toEqual([])
  })

  it('does not look for in-flight limits among the tokens of a bucket', async () => {
    const {namespace} = scene.table
    const {configs} = scene.repository.namespaceById(namespace)
    const change = await configs.set({level: 'resource', resource: 'gpt-4'}, [parseLimit('parallel=20/inflight')])
    expect(change.after.map(({name}) => name)).toEqual(['parallel', 'rpm', 'tpm'])
    expect(await scene.findings()).toEqual([])
  })

  it('ignores the refill period of a quota, for which other clients store any value', async () => {
    const {name: stack, transport, namespace} = scene.table
    const {configs} = scene.repository.namespaceById(namespace)
    await configs.set({level: 'resource', resource: 'daily'}, [parseLimit('rpd=10/day@UTC')])
    const configKey = keys.resourceConfig(namespace, 'daily')
    await scene.change(configKey, {[configAttribute('rpd', 'refillPeriod')]: number(86_400)})
    const asked = {entity: 'user-2', resource: 'daily', consume: {rpd: 1}}
    const limiter = new RateLimiter({stack, transport, namespaceId: namespace})
    await limiter.acquire(asked)
    const key = keys.bucket(namespace, 'user-2', 'daily', 0)
    const period = {[limitAttribute('rpd', 'refillPeriod')]: number(86_400_000)}
    await scene.change(key, period)
    expect(await scene.findings()).toEqual([])
    // Neither a process that knows the bucket nor a new one rewrites the other client's value.
    await limiter.acquire(asked)
    await limiter.close()
    const writes: unknown[] = []
    const send: Transport['send'] = (operation, input, options) => {
      if (operation === 'UpdateItem') writes.push(input)
      return transport.send(operation, input, options)
    }
    const other = new RateLimiter({stack, transport: {send}, namespaceId: namespace})
    for (let i = 0; i < 2; i++) await other.acquire({...asked, entity: 'user-3'})
    writes.length = 0
    for (let i = 0; i < 3; i++) await other.acquire(asked)
    await other.close()
    expect(writes).toHaveLength(3)
    expect(await scene.get(key)).toMatchObject({...period, [limitAttribute('rpd', 'tokens')]: number(5000)})
    expect(await scene.findings()).toEqual([])
  })

  it('ignores values that change between two reads', async () => {
    await scene.change(bucketOf(scene, 1), {[bucket.shardCount]: number(1)})
    const sleep = async () => scene.change(bucketOf(scene, 1), {[bucket.shardCount]: number(2)})
    const backoff = {...scene.table.backoff, sleep}
    const {findings} = await verifyTable({...scene.table, backoff})
    expect(findings.filter(({namespace}) => namespace === scene.table.namespace)).toEqual([])
  })

  it('S12 spares a process that beats, however wrong its clock is', async () => {
    await putHolder(scene, 'slow', 60)
    await scene.change(singleBucket(scene), holding('slow', 1))
    const holder = keys.holder(scene.table.namespace, 'slow')
    let [beats, isBeating, sinceMs] = [1, true, 0]
    const sleep = async (ms: number) => {
      sinceMs += ms
      if (!isBeating || sinceMs < 10_000) return
      sinceMs = 0
      await scene.change(holder, {[attributes.holder.beat]: text(`${++beats}.aaaa`)})
    }
    const beside = {...scene.table, backoff: {...scene.table.backoff, sleep}}
    expect((await verifyTable(beside)).findings).toEqual([])
    isBeating = false
    const [late, ...others] = (await verifyTable(beside)).findings
    expect([late?.kind, others]).toEqual(['holder', []])
    isBeating = true
    expect(await late?.repair?.()).toBe(false)
    expect((await scene.get(singleBucket(scene)))[slotAttribute.free('parallel')]).toEqual(number(1))
  })

  it('S13 returns the reserved tokens of a dead process, and spares those of a process that beats', async () => {
    await putHolder(scene, 'slow', 60)
    await putReservation(scene, 'slow')
    const holder = keys.holder(scene.table.namespace, 'slow')
    const [late, ...others] = await scene.findings()
    expect([late?.kind, others]).toEqual(['holder', []])
    await scene.change(holder, {[attributes.holder.beat]: text('2.aaaa')})
    expect(await late?.repair?.()).toBe(false)
    expect(await openReservations(scene.table, 'slow')).toHaveLength(1)
    const [again] = await scene.findings()
    expect(await again?.repair?.()).toBe(true)
    expect(await openReservations(scene.table, 'slow')).toEqual([])
    expect(await scene.findings()).toEqual([])
  })

  it('does not repair a record that was written since it was read', async () => {
    await scene.change(bucketOf(scene), {[bucket.parent]: text('team-2')})
    const [finding] = await scene.findings()
    await scene.change(bucketOf(scene), {[bucket.parent]: text('team-3')})
    expect(await finding?.repair?.()).toBe(false)
    expect((await scene.get(bucketOf(scene)))[bucket.parent]).toEqual(text('team-3'))
  })

  describe('of a bucket that is some months old', () => {
    const SPRING_MS = Date.parse('2026-03-20T00:00:00Z')
    const instantIn = (month: string) => Date.parse(`2026-${month}-15T10:00:00Z`)
    const february = () => keys.usage(scene.table.namespace, 'user-2', 'gpt-4', 'hourly', '2026-02-15T10:00:00Z')

    beforeEach(async () => {
      await scene.put(encodeRollups(new RollupSchedule({monthly: ['2026-02-01T00:00:00Z']})))
      const user = keys.entity(scene.table.namespace, 'user-2')
      await scene.change(user, {[entity.createdAt]: text('2026-01-10T00:00:00Z')})
      await scene.change(singleBucket(scene), {
        [bucket.refilledAt]: number(instantIn('03')),
        [limitAttribute('rpm', 'consumed')]: number(0),
      })
      // January was counted as a whole, February and March are the sums of their hours: 2 + 4 + 1 of the 7 that were consumed.
      await scene.putUsage('monthly', instantIn('01'), 2, 's#1', 'user-2')
      await scene.putUsage('hourly', instantIn('02'), 4, 's#2', 'user-2')
      await scene.putUsage('hourly', instantIn('03'), 1, 's#3', 'user-2')
    })

    async function missing(table = scene.table): Promise<string[]> {
      const {findings} = await verifyTable({...table, clock: () => SPRING_MS})
      return findings
        .filter(({kind, subject}) => kind === 'usage' && subject === 'tpm')
        .map(({reason}) => reason.slice(0, 'n tpm were consumed'.length))
    }

    it('adds up all months, including rolled-up ones, in one request', async () => {
      const {transport} = scene.table
      // Each look reads it again.
      const ranges = new Set<string>()
      const send: Transport['send'] = (operation, input, options) => {
        const asked = JSON.stringify(input)
        if (operation === 'Query' && asked.includes('ENTITY#user-2')) ranges.add(asked)
        return transport.send(operation, input, options)
      }
      expect(await missing({...scene.table, transport: {send}})).toEqual([])
      expect(ranges.size).toBe(1)
      await scene.change(singleBucket(scene), {[limitAttribute('tpm', 'consumed')]: number(9000)})
      expect(await missing()).toEqual(['2 tpm were consumed'])
    })

    it('trusts the keys of usage: skips a day that no month has, and ignores another start in the record', async () => {
      await scene.change(february(), {[usage.start]: text('2026-01-15T10:00:00Z')})
      expect(await missing()).toEqual([])
      const item = await scene.get(february())
      await scene.delete(february())
      await scene.put({...item, SK: text(february().SK.replace('02-15', '02-31'))})
      expect(await missing()).toEqual(['4 tpm were consumed'])
    })

    it('reports an impossible number as a finding', async () => {
      await scene.change(february(), {tpm: {N: '1e120'}})
      const {findings} = await verifyTable({...scene.table, clock: () => SPRING_MS})
      expect(findings.filter(({kind}) => kind === 'malformed')).toMatchObject([
        {entity: 'user-2', reason: expect.stringContaining('cannot be read: not an exact integer')},
      ])
    })
  })

  it('reports an impossible limit as a finding', async () => {
    const {namespace} = scene.table
    await scene.change(keys.resourceConfig(namespace, 'gpt-4'), {[configAttribute('rpm', 'capacity')]: {N: '1e120'}})
    expect(await scene.findings()).toContainEqual(
      expect.objectContaining({kind: 'malformed', resource: 'gpt-4', entity: undefined}),
    )
  })

  it('reports an impossible start of usage as a finding', async () => {
    await scene.change(dayOf(scene), {[usage.start]: text('2026-13-45')})
    expect(await scene.findings()).toMatchObject([{kind: 'malformed', entity: 'user-1'}])
  })

  it('judges all records at one instant, even if the clock is set back', async () => {
    const expiresSeconds = 1_800_000_000
    await scene.change(singleBucket(scene), {[bucket.expiresAt]: number(expiresSeconds)})
    const {namespace} = scene.table
    for (let aheadMs = 0; aheadMs < 20; aheadMs++) {
      let nowMs = expiresSeconds * 1000 + aheadMs
      const table = {...scene.table, clock: () => nowMs--}
      const {findings} = await verifyTable(table, {entity: {namespace, entity: 'user-2'}})
      expect(findings).toEqual([])
    }
  })

  it('reads the records that buckets refer to in one batch: twenty more make no further request', async () => {
    let requests = 0
    const counted = {
      ...scene.table,
      transport: {
        send: (...sent: Parameters<typeof scene.table.transport.send>) => {
          requests++
          return scene.table.transport.send(...sent)
        },
      },
    } as VerifyScene['table']
    await verifyTable(counted)
    const before = requests
    const limiter = new RateLimiter({stack: scene.table.name, transport: scene.table.transport})
    for (let user = 0; user < 20; user++)
      await limiter.acquire({entity: `more-${user}`, resource: 'gpt-4', consume: {rpm: 1}})
    await limiter.close()
    requests = 0
    expect((await verifyTable(counted)).findings).toEqual([])
    expect(requests).toBe(before)
  })

  it('reads only the records of one entity on request', async () => {
    await scene.change(bucketOf(scene, 1), {[bucket.shardCount]: number(1)})
    await scene.change(singleBucket(scene), {[bucket.parent]: text('team-1')})
    const {namespace} = scene.table
    const found = await scene.findings({entity: {namespace, entity: 'user-1'}})
    expect(found.map(({kind, entity: id}) => `${kind} ${id}`)).toEqual(['shards user-1'])
  })

  it('resumes where an interrupted one stopped', async () => {
    await scene.put({PK: text(`${scene.table.namespace}/WHAT#1`), SK: text('#X')})
    const cursors: (string | undefined)[] = []
    const small = {
      ...scene.table,
      transport: {
        send: (operation: never, input: object, options: never) =>
          scene.table.transport.send(operation, ('Limit' in input ? {...input, Limit: 5} : input) as never, options),
      },
    } as VerifyScene['table']
    const whole = await verifyTable(small, {onProgress: ({cursor}) => cursors.push(cursor)})
    expect(cursors.length).toBeGreaterThan(3)
    const rest = await verifyTable(small, {cursor: cursors[0]})
    expect(rest.items).toBe(whole.items - 5)
  })
})
