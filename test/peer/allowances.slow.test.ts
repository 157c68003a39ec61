import {beforeEach, describe, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {n, s} from '../../src/lib/schema/attribute-value.js'
import {type PeerScene, usePeers} from './peers.js'
import {describeWithPeers, limit, quota} from './python-client.js'

const DAILY = {cron: '0 0 * * *'}
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

/** 100 per minute, always scaled to 10. */
const SCALED = limit('rpm', 100, 60, {schedule: [{cron: '* * * * *', scale: 0.1}]})

describeWithPeers('quotas and schedules of zae-limiter 0.17', () => {
  const peers = usePeers('0.17')
  let scene: PeerScene

  beforeEach(async () => {
    scene = await peers.currentScene()
  })

  const setLimits = (entity: string, ...limits: readonly object[]) =>
    scene.client.repository('set_limits', {entity_id: entity, resource: 'gpt', limits})

  const python = (consume: Readonly<Record<string, number>>, times: number) =>
    scene.client.acquire('u', 'gpt', consume, {times})

  const zael = (consume: Readonly<Record<string, number>>, times: number) => scene.ask('u', 'gpt', consume, times)

  it('G1: gives zael the rest that Python left of a calendar quota, and restores nothing', async () => {
    await setLimits('u', quota('rpd', 10, DAILY), limit('rpm', 1000))
    for (let day = 1; day <= 2; day++) {
      expect(await python({rpd: 1}, 6)).toMatchObject({admitted: 6})
      expect(await zael({rpm: 1}, 3)).toMatchObject({admitted: 3})
      expect(await zael({rpd: 1}, 40)).toEqual({admitted: 4, refused: 36, errors: []})
      expect(await zael({rpm: 1}, 3)).toMatchObject({admitted: 3})
      expect(await python({rpd: 1}, 20)).toMatchObject({admitted: 0, refused: 20, errors: 0})
      expect(await scene.totals('u', 'gpt', 'rpd')).toEqual({tokens: 0, consumed: 10 * day})
      await scene.pass(DAY_MS)
    }
  })

  it('G1: gives Python the rest that zael left of a calendar quota in a bucket of zael', async () => {
    await setLimits('u', quota('rpd', 10, DAILY), limit('rpm', 1000))
    for (let day = 1; day <= 2; day++) {
      expect(await zael({rpd: 1}, 6)).toMatchObject({admitted: 6})
      expect(await python({rpd: 1}, 20)).toMatchObject({admitted: 4, refused: 16, errors: 0})
      expect(await zael({rpd: 1}, 3)).toMatchObject({admitted: 0, refused: 3})
      expect(await scene.totals('u', 'gpt', 'rpd')).toEqual({tokens: 0, consumed: 10 * day})
      await scene.pass(DAY_MS)
    }
  })

  it.each([
    ['Python', () => scene.client.acquire('u', 'gpt', {rpd: 2, rpm: 2})],
    ['zael', () => scene.ask('u', 'gpt', {rpd: 2, rpm: 2})],
  ])('G1: restores a quota that %s spends only at its reset, by both stream processors', async (_, spend) => {
    for (const run of [
      (records: Parameters<PeerScene['aggregate']>[0]) => scene.aggregate(records).then(({failures}) => failures),
      (records: readonly object[]) => peers.python.stream(scene.client.stack, records).then(({errors}) => errors),
    ]) {
      await setLimits('u', quota('rpd', 10, DAILY), limit('rpm', 4))
      await python({rpd: 1, rpm: 1}, 1)
      for (let i = 0; i < 6; i++) {
        await scene.pass(15_000)
        const records = await scene.changes(spend)
        await scene.pass(15_000)
        expect(await run(records)).toEqual([])
      }
      // One, and four times two.
      expect(await scene.totals('u', 'gpt', 'rpd')).toMatchObject({tokens: 1})
      expect(await python({rpd: 1}, 20)).toMatchObject({admitted: 1, refused: 19})
      await scene.at(Math.ceil(scene.nowMs / DAY_MS) * DAY_MS - 5000)
      const late = await scene.changes(() => python({rpm: 3}, 1))
      await scene.pass(10_000)
      expect(await run(late)).toEqual([])
      expect((await zael({rpd: 1}, 7)).admitted + (await python({rpd: 1}, 20)).admitted).toBe(10)
      await scene.pass(DAY_MS)
    }
  })

  describe('G1: days whose midnight is skipped or repeated', () => {
    const daily = (tz: string) => setLimits('u', quota('rpd', 10, {...DAILY, tz}), limit('rpm', 1000))

    it('are started by zael if midnight is skipped, and recognised by Python', async () => {
      await daily('Africa/Cairo')
      await scene.at(Date.parse('2026-04-23T20:00Z'))
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 10})
      // 1:30 in Cairo: there was no midnight.
      await scene.at(Date.parse('2026-04-23T22:30Z'))
      expect(await python({rpd: 1}, 5)).toMatchObject({admitted: 0, errors: 0})
      expect(await zael({rpd: 1}, 4)).toMatchObject({admitted: 4})
      expect(await python({rpd: 1}, 20)).toMatchObject({admitted: 6, errors: 0})
      await scene.at(Date.parse('2026-04-24T21:30Z'))
      expect(await python({rpd: 1}, 6)).toMatchObject({admitted: 6})
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 4})
    })

    it('are not granted by zael if Python wrote in them without starting them', async () => {
      await daily('Africa/Cairo')
      await scene.at(Date.parse('2026-04-23T20:00Z'))
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 10})
      await scene.at(Date.parse('2026-04-23T22:30Z'))
      expect(await python({rpm: 1}, 1)).toMatchObject({admitted: 1})
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 0})
      await scene.at(Date.parse('2026-04-24T21:30Z'))
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 10})
    })

    it('are started once by zael if midnight is repeated, and followed by Python', async () => {
      await daily('Atlantic/Azores')
      await scene.at(Date.parse('2026-10-25T00:30Z'))
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 10})
      // Clocks go back from 1:00 to 0:00.
      await scene.at(Date.parse('2026-10-25T01:30Z'))
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 0})
      expect(await python({rpd: 1}, 6)).toMatchObject({admitted: 0, errors: 0})
      await scene.at(Date.parse('2026-10-26T01:30Z'))
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 10})
      expect(await python({rpd: 1}, 5)).toMatchObject({admitted: 0})
    })

    it('get nothing from zael on top of the second grant of Python if midnight is repeated', async () => {
      await daily('Atlantic/Azores')
      await scene.at(Date.parse('2026-10-25T00:30Z'))
      expect(await python({rpd: 1}, 20)).toMatchObject({admitted: 10})
      await scene.at(Date.parse('2026-10-25T01:30Z'))
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 0})
      expect(await python({rpd: 1}, 6)).toMatchObject({admitted: 6})
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 4})
      await scene.at(Date.parse('2026-10-25T02:30Z'))
      expect(await zael({rpd: 1}, 20)).toMatchObject({admitted: 0})
      expect(await python({rpd: 1}, 5)).toMatchObject({admitted: 0})
    })
  })

  it('G2: share one session window, whichever opens it', async () => {
    await setLimits('u', quota('session', 10, {afterSeconds: 3600}), limit('rpm', 1000))
    expect(await python({session: 1}, 6)).toMatchObject({admitted: 6})
    await scene.pass(HOUR_MS - 1)
    expect(await zael({rpm: 1}, 3)).toMatchObject({admitted: 3})
    expect(await zael({session: 1}, 10)).toEqual({admitted: 4, refused: 6, errors: []})
    expect(await python({session: 1}, 10)).toMatchObject({admitted: 0, refused: 10})
    await scene.pass(1)
    expect(await zael({session: 1}, 6)).toMatchObject({admitted: 6})
    await scene.pass(HOUR_MS - 1)
    expect(await python({session: 1}, 10)).toMatchObject({admitted: 4, refused: 6})
    await scene.pass(1)
    expect(await python({session: 1}, 20)).toMatchObject({admitted: 10, errors: 0})
    expect(await scene.totals('u', 'gpt', 'session')).toEqual({tokens: 0, consumed: 30})
  })

  it('G2: are not opened as sessions by the aggregator', async () => {
    await setLimits('u', quota('session', 10, {afterSeconds: 60}), limit('rpm', 4))
    await python({session: 10, rpm: 1}, 1)
    await scene.pass(45_000)
    const records = await scene.changes(() => python({rpm: 2}, 1))
    await scene.pass(45_000)
    expect((await scene.aggregate(records)).failures).toEqual([])
    await scene.pass(10_000)
    expect(await python({session: 1}, 4)).toMatchObject({admitted: 4})
    await scene.pass(59_999)
    expect(await zael({session: 1}, 10)).toMatchObject({admitted: 6, refused: 4})
  })

  it('G4: do not replace a session quota of the same name at a more specific level', async () => {
    await setLimits('u', quota('session', 10, {afterSeconds: 3600}))
    const scope = {level: 'entity', entity: 'u', resource: 'gpt'} as const
    await scene.repository.setLimits(scope, parseLimits(['session=5/min']))
    expect(await python({session: 1}, 12)).toMatchObject({admitted: 5, errors: 0})
  })

  it('G5: admit together what a schedule permits', async () => {
    await setLimits('u', SCALED)
    expect(await zael({rpm: 1}, 4)).toMatchObject({admitted: 4})
    expect(await python({rpm: 1}, 3)).toMatchObject({admitted: 3})
    expect(await zael({rpm: 1}, 40)).toEqual({admitted: 3, refused: 37, errors: []})
    await scene.pass(30_000)
    expect(await python({rpm: 1}, 40)).toMatchObject({admitted: 5, refused: 35})
    await scene.pass(120_000)
    expect(await zael({rpm: 1}, 40)).toMatchObject({admitted: 10, refused: 30})
    expect(await scene.totals('u', 'gpt', 'rpm')).toEqual({tokens: 0, consumed: 25})
  })

  it.each(['Python clients under zael’s aggregator', 'zael under the processor of 0.17'])(
    'G5: admit no more by a schedule to %s',
    async which => {
      await setLimits('u', SCALED)
      const isOurs = which.includes('aggregator')
      const aggregator = scene.aggregator()
      let admitted = 0
      const ask = async (times: number) => {
        admitted += (await (isOurs ? python({rpm: 1}, times) : zael({rpm: 1}, times))).admitted
      }
      await ask(20)
      for (let i = 0; i < 20; i++) {
        await scene.pass(15_000)
        const records = await scene.changes(() => ask(9))
        await scene.pass(15_000)
        if (isOurs) await scene.aggregate(records, aggregator)
        else expect((await peers.python.stream(scene.client.stack, records)).errors).toEqual([])
      }
      // Ten at the start, and ten in each of the ten minutes.
      expect(admitted).toBeGreaterThanOrEqual(100)
      expect(admitted).toBeLessThanOrEqual(110)
      expect((await scene.totals('u', 'gpt', 'rpm')).consumed).toBe(admitted)
    },
  )

  it('G6: copy every attribute to a shard that zael creates', async () => {
    const {client, tenant, table} = scene
    await client.repository('create_entity', {entity_id: 'org'})
    await client.repository('create_entity', {entity_id: 'u', parent_id: 'org', cascade: true})
    await client.repository('set_resource_defaults', {resource: 'gpt', limits: [limit('rpm', 100)]})
    await client.acquire('u', 'gpt', {rpm: 1})
    const {PK, SK, ...known} = await scene.bucketItem('u', 'gpt')
    const later = {later: s('of a release to come')}
    await table.transport.send('PutItem', {TableName: table.name, Item: {PK, SK, ...known, ...later} as never})
    expect(Object.keys(known)).toEqual(expect.arrayContaining(['pgen', 'pinc']))
    expect(await splitBucket(tenant, 'u', 'gpt', 1)).toBe(2)
    const {GSI2SK, GSI3SK, GSI4SK, b_rpm_tk, b_rpm_tc, b_wcu_tk, b_wcu_tc, shard_count, ...kept} = known
    expect(await scene.bucketItem('u', 'gpt', 1)).toMatchObject({...kept, ...later, shard_count: n(2)})
    expect(await scene.totals('u', 'gpt', 'rpm', 2)).toEqual({tokens: 99, consumed: 1})
    // Python gives up after a few shards; zael can use the rest.
    const theirs = await client.acquire('u', 'gpt', {rpm: 1}, {times: 120})
    expect(theirs.errors).toBe(0)
    expect(theirs.admitted + (await scene.ask('u', 'gpt', {rpm: 1}, 30)).admitted).toBe(99)
  })

  it.each([
    ['a schedule', SCALED, 'rpm', 60_000],
    ['a calendar quota', quota('rpm', 10, DAILY), 'rpm', DAY_MS],
    ['a session', quota('rpm', 10, {afterSeconds: 3600}), 'rpm', HOUR_MS],
  ])('G6: grant the allowance of %s once over the shards that zael creates', async (_, kind, name, periodMs) => {
    await setLimits('u', kind)
    await python({[name]: 1}, 1)
    for (const count of [1, 2]) expect(await splitBucket(scene.tenant, 'u', 'gpt', count)).toBe(2 * count)
    let consumed = 10
    expect(await scene.totals('u', 'gpt', name, 4)).toEqual({tokens: 9, consumed: 1})
    const first = await python({[name]: 1}, 20)
    expect(first.errors).toBe(0)
    expect(first.admitted + (await zael({[name]: 1}, 20)).admitted).toBe(9)
    expect(await scene.totals('u', 'gpt', name, 4)).toEqual({tokens: 0, consumed})
    // Python starts the first period, zael the second.
    for (const begin of [() => python({[name]: 1}, 20), () => zael({[name]: 1}, 7)]) {
      await scene.pass(periodMs)
      const {admitted} = await begin()
      const theirs = await python({[name]: 1}, 20)
      expect(theirs.errors).toBe(0)
      expect(admitted + theirs.admitted + (await zael({[name]: 1}, 20)).admitted).toBe(10)
      consumed += 10
      expect(await scene.totals('u', 'gpt', name, 4)).toEqual({tokens: 0, consumed})
    }
  })

  it('G2: use a session that zael opens on one shard on all of them', async () => {
    await setLimits('u', quota('session', 12, {afterSeconds: 3600}))
    await python({session: 1}, 1)
    for (const count of [1, 2]) expect(await splitBucket(scene.tenant, 'u', 'gpt', count)).toBe(2 * count)
    await scene.pass(2 * HOUR_MS)
    expect(await zael({session: 1}, 1)).toMatchObject({admitted: 1})
    await scene.pass(HOUR_MS / 2)
    expect((await python({session: 1}, 20)).admitted + (await zael({session: 1}, 20)).admitted).toBe(11)
    await scene.pass(HOUR_MS / 2 - 1)
    expect(await zael({session: 1}, 5)).toMatchObject({admitted: 0})
    await scene.pass(1)
    expect((await python({session: 1}, 20)).admitted + (await zael({session: 1}, 20)).admitted).toBe(12)
  })
})
