import {beforeEach, expect, it} from 'vitest'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {bool, type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {configKey} from '../../src/lib/schema/config-record.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, request, splitInto} from './visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const

/** Schedules and resets of a newer client, or damaged ones. */
const UNREADABLE: ReadonlyArray<[what: string, stamp: Item]> = [
  ['a schedule', {sched: s('2h9-17s100'), sched_tz: s('UTC'), vu: n(1_700_000_100_000)}],
  ['a schedule of a limit', {b_rpm_sched: s('1|* 0-23 * * *;x0.1'), vu: n(0)}],
  ['resets', {b_rpm_ra: n(0), rsched: s('1|0 0 * * *'), vu: n(1_700_000_100_000)}],
]

describeOnBoth('a bucket of zae-limiter 0.11 to 0.17', {timeout: 60_000}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure(RESOURCE, 'rpm=100/min')
  })

  const bucketKey = (shard = 0) => wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', shard))

  async function stored(Key = bucketKey()): Promise<Item | undefined> {
    return (await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})).Item
  }

  async function stamp(attributes: Item, Key = bucketKey()): Promise<Item> {
    const Item = {...(await stored(Key)), ...Key, ...attributes}
    await table.transport.send('PutItem', {TableName: table.name, Item})
    return Item
  }

  it.each(UNREADABLE)('G1 G5 is not charged while %s cannot be read, in any process', async (_, add) => {
    const known = scene.limiter({onUnavailable: 'allow'})
    await known.acquire(request({rpm: 1}))
    await known.acquire(request({rpm: 1}))
    const item = await stamp(add)
    for (const limiter of [known, scene.limiter({onUnavailable: 'allow'})]) {
      for (const amount of [1, 50, 99]) {
        const error = await failure(limiter.acquire(request({rpm: amount})))
        expect(error).toMatchObject({code: 'schedule.not-honoured', kind: 'conflict'})
      }
    }
    scene.nowMs += 3_600_000
    expect(await failure(known.acquire(request({rpm: 1})))).toMatchObject({code: 'schedule.not-honoured'})
    expect(await stored()).toEqual(item)
  })

  const UNSUPPORTED = {code: 'feature.unsupported', kind: 'conflict'}

  it.each(['b_rpm_xyz', 'b_rpm_x_yz'])(
    'is neither used nor changed if a limit has %s, which a newer client may have written',
    async attribute => {
      const known = scene.limiter({onUnavailable: 'allow'})
      await known.acquire(request({rpm: 1}))
      const lease = await known.acquire(request({rpm: 1}))
      await stamp({[attribute]: n(1)})
      scene.nowMs += 5000
      // What is not known cannot be asked for: one write of a process that knows the bucket shows it.
      await (await known.acquire(request({rpm: 1}))).commit()
      const item = await stored()
      for (const limiter of [known, scene.limiter({onUnavailable: 'allow'}), known]) {
        scene.nowMs += 2000
        for (const amount of [1, 99, 101])
          expect(await failure(limiter.acquire(request({rpm: amount})))).toMatchObject(UNSUPPORTED)
        expect(await failure(limiter.check(request({rpm: 1})))).toMatchObject({
          ...UNSUPPORTED,
          message: expect.stringContaining(`"${attribute}" for the limit "rpm"`),
        })
      }
      const repository = new NamespaceRepository(scene.tenant, undefined)
      expect(await failure(repository.resetBucket({entity: 'user-1', resource: 'gpt-4'}))).toMatchObject(UNSUPPORTED)
      expect(await failure(splitInto(scene, 2))).toMatchObject(UNSUPPORTED)
      expect(await stored()).toEqual(item)
      await lease.rollback()
      expect(await stored()).toMatchObject({[attribute]: n(1)})
    },
  )

  it('is not created if a configured limit has an unknown attribute', async () => {
    const Key = wireKey(configKey(scene.namespace, RESOURCE))
    await stamp({l_rpm_xyz: s('?')}, Key)
    const limiter = scene.limiter({onUnavailable: 'allow'})
    expect(await failure(limiter.acquire(request({rpm: 1})))).toMatchObject(UNSUPPORTED)
    expect(await stored()).toBeUndefined()
    // Another level that applies instead is none of it.
    await scene.configure({level: 'entity', entity: 'user-1', resource: 'gpt-4'}, 'rpm=10/min')
    expect((await scene.limiter().tryAcquire(request({rpm: 1}))).admitted).toBe(true)
  })

  it('is used if the whole item has an unknown attribute, which every write and split keeps', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    await stamp({note: s('mine'), b_gone_xyz: n(1), b_rpm_bx: n(1000)})
    scene.nowMs += 10_000
    for (let time = 0; time < 3; time++) await limiter.acquire(request({rpm: 1}))
    await splitInto(scene, 2)
    for (const shard of [0, 1])
      expect(await stored(bucketKey(shard))).toMatchObject({note: s('mine'), b_gone_xyz: n(1)})
  })

  it('G1 is not healed: a spent quota beside a requested limit stays spent', async () => {
    await scene.configure(RESOURCE, 'rpm=100/min', 'q=10/day@UTC')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1, q: 10}))
    await stamp({vu: n(0)})
    scene.nowMs += 60_000
    await scene.limiter().acquire(request({rpm: 1}))
    expect((await scene.totals('user-1', 'gpt-4', 'q')).tokens).toBe(0)
    expect((await stored())?.vu).toEqual(n(1_700_006_400_000))
  })

  it('is compared once with a changed configuration (vu = 0) if its limits are plain, and then used as before', async () => {
    const first = scene.limiter()
    await first.acquire(request({rpm: 1}))
    await stamp({vu: n(0)})
    scene.calls.length = 0
    await first.acquire(request({rpm: 1}))
    expect((await stored())?.vu).toBeUndefined()
    scene.calls.length = 0
    await first.acquire(request({rpm: 1}))
    expect(scene.calls).toEqual(['UpdateItem'])
    expect((await scene.totals('user-1', 'gpt-4', 'rpm')).consumed).toBe(3)
  })

  it('G5 is compared with the current configuration, not with the cached one', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    await limiter.acquire(request({rpm: 1}))
    await stamp({l_rpm_sched: s('1s100')}, wireKey(keys.resourceConfig(scene.namespace, 'gpt-4')))
    await stamp({vu: n(0)})
    let admitted = 0
    while ((await limiter.tryAcquire(request({rpm: 1}))).admitted) admitted++
    expect(admitted).toBe(10)
    expect(await stored()).toMatchObject({sched: s('1s100')})
  })

  it.each([
    [
      'calendar quota',
      {l_rpm_ra: n(0), l_rpm_rsched: s('1m0h0'), sched_tz: s('UTC')},
      {rsched: s('1m0h0'), b_rpm_gc: n(1)},
    ],
    ['soft limit', {l_rpm_soft: bool(true)}, {b_rpm_soft: n(1_700_000_054_000)}],
  ])('G2 is created from a configuration with a %s like other clients do', async (_, add: Item, expected: Item) => {
    await stamp(add, wireKey(keys.resourceConfig(scene.namespace, 'gpt-4')))
    await scene.limiter().acquire(request({rpm: 1}))
    expect(await stored()).toMatchObject(expected)
  })

  it('G2 follows a level with only a session quota, not the levels below it', async () => {
    const scope = {level: 'entity', entity: 'user-1', resource: 'gpt-4'} as const
    await scene.configure(scope)
    const Key = wireKey(keys.entityConfig(scene.namespace, 'user-1', 'gpt-4'))
    await stamp({w_s_cp: n(10), w_s_ra: n(0), w_s_rp: n(1), w_s_rsa: n(3600)}, Key)
    const strict = scene.limiter({strict: true})
    expect(await failure(strict.acquire(request({rpm: 1})))).toMatchObject({code: 'limit.unknown'})
    await scene.limiter().acquire(request({s: 4}))
    const startMs = n(scene.nowMs)
    expect(await stored()).toMatchObject({b_s_tk: n(6000), b_s_rsa: n(3600), b_s_ws: startMs, b_s_wa: startMs})
  })

  it('G6 copies attributes of other clients to new shards, even unknown ones', async () => {
    await scene.limiter().acquire(request({rpm: 1}))
    const add = {pgen: n(7), pinc: s('abc'), something_new: s('kept')}
    await stamp(add)
    await splitInto(scene, 2)
    expect(await stored(bucketKey(1))).toMatchObject(add)
    expect((await scene.totals('user-1', 'gpt-4', 'rpm', 2)).tokens).toBe(99)
  })

  it("G6 divides a quota's allowance in a split, and marks the grants", async () => {
    await scene.configure(RESOURCE, 'rpm=100/day@UTC')
    await scene.limiter().acquire(request({rpm: 1}))
    await splitInto(scene, 2)
    expect((await scene.totals('user-1', 'gpt-4', 'rpm', 2)).tokens).toBe(99)
    const until = n(1_700_006_400_000)
    expect(await stored()).toMatchObject({b_rpm_gc: n(2), vu: until})
    expect(await stored(bucketKey(1))).toMatchObject({
      b_rpm_gc: n(2),
      rsched: s('1m0h0'),
      sched_tz: s('UTC'),
      vu: until,
    })
  })

  it("G7 charges the parent by the configured policy, not by the entity's record", async () => {
    await scene.entity('team')
    await scene.entity('user-1', 'team')
    await stamp({cascade: bool(false)}, wireKey(keys.resourceConfig(scene.namespace, 'gpt-4')))
    const limiter = scene.limiter()
    for (let at = 0; at < 3; at++) await limiter.acquire(request({rpm: 1}))
    expect(await scene.shards('team', 'gpt-4')).toEqual([])
    expect((await stored())?.cascade).toEqual(bool(false))
  })

  it('keeps the parent of a later move than the read record', async () => {
    await scene.entity('user-1', 'old')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    // Within the creation of the entity that its first request has stamped.
    await stamp({parent_id: s('new'), pgen: n(2), vu: n(0)})
    await limiter.acquire(request({rpm: 1}))
    expect(await stored()).toMatchObject({parent_id: s('new'), pgen: n(2)})
  })
})
