import {beforeEach, expect, it} from 'vitest'
import {type Released, releaseHolder, slotsByHolder, waitForBeats} from '../../../src/lib/insight/holders/release.js'
import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {declareDead, HolderRecords, readHolder, sendBeat} from '../../../src/lib/repository/buckets/holders.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {reserveFor} from '../../limiter/fixtures/reserve.js'
import {slotsIn} from '../../limiter/in-flight/slots.js'
import {newAudit} from '../../repository/namespace-table.js'

describeOnBoth('the release of a holder', {timeout: 60_000}, table => {
  let scene: Scene
  let gateway: RateLimiter
  /** Runs in each pause of a comparison. */
  let meanwhile: () => Promise<unknown>
  beforeEach(async () => {
    scene = new Scene(table)
    gateway = scene.limiter()
    meanwhile = async () => {}
    await scene.configure({level: 'system'}, 'rpm=1000/min', 'parallel=5/inflight')
  })

  const tenant = () => {
    const sleep = async (ms: number) => {
      scene.nowMs += ms
      await meanwhile()
    }
    return {...scene.tenant, backoff: {...scene.tenant.backoff, sleep}}
  }
  const hold = (entity: string, slots: number, from = gateway) =>
    from.acquire({entity, resource: 'gpt-4', consume: {parallel: slots}})
  const free = async (entity: string) => (await slotsIn(scene, entity, 'gpt-4'))?.limits.get('parallel')?.free
  const held = () => slotsByHolder(new HolderRecords(scene.tenant))
  const onlyHolder = async () => [...(await held()).keys()][0] as string
  const audit = () => newAudit(scene.tenant)
  const events = async () => (await audit().list({entity: '$SYSTEM'})).records
  const release = (id: string, isForced = false): Promise<Released> => releaseHolder(tenant(), audit(), {id, isForced})
  const beat = async (id: string) => {
    const record = await readHolder(scene.tenant, id)
    const holder = {namespace: scene.namespace, id, host: 'gw', pid: 1, startedAt: ''}
    await sendBeat(scene.tenant, {holder, before: record?.beat, next: `${record?.beat}+`})
  }

  it('S12 returns the slots of a process without a beat in all buckets, once', async () => {
    await hold('ada', 2)
    await hold('ben', 1)
    await hold('ben', 3, scene.limiter())
    const buckets = await held()
    const id = [...buckets].find(([, of]) => of.length === 2)?.[0] as string
    const startMs = scene.nowMs
    const {returned, wasDead, record} = await release(id)
    expect(scene.nowMs - startMs).toBe(35_000)
    expect(returned.map(({entity, slots}) => [entity, slots.get('parallel')]).sort()).toEqual([
      ['ada', 2],
      ['ben', 1],
    ])
    expect([wasDead, record?.pid, await free('ada'), await free('ben')]).toEqual([false, process.pid, 5, 2])
    expect((await readHolder(scene.tenant, id))?.isDead).toBe(true)
    expect(await events()).toMatchObject([
      {action: 'holder_released', principal: 'tester', details: {holder: id, forced: false, slots: 3}},
    ])
    expect(await release(id)).toMatchObject({wasDead: true, returned: []})
    expect(await free('ada')).toBe(5)
  })

  it('S12 changes nothing if the process beats, even at the last moment', async () => {
    await hold('ada', 2)
    const id = await onlyHolder()
    const startMs = scene.nowMs
    meanwhile = async () => {
      if (scene.nowMs === startMs + 35_000) await beat(id)
    }
    await expect(release(id)).rejects.toMatchObject({kind: 'negative', code: 'holder.alive'})
    expect([await free('ada'), (await readHolder(scene.tenant, id))?.isDead, await events()]).toEqual([3, false, []])
  })

  it('by force does not wait for a living process', async () => {
    await hold('ada', 2)
    const id = await onlyHolder()
    const startMs = scene.nowMs
    expect((await release(id, true)).returned).toHaveLength(1)
    expect([scene.nowMs - startMs, await free('ada')]).toEqual([0, 5])
    expect(await events()).toMatchObject([{details: {holder: id, forced: true}}])
  })

  it('returns the rest after others declared the holder dead', async () => {
    await hold('ada', 2)
    const id = await onlyHolder()
    await declareDead(scene.tenant, id, await readHolder(scene.tenant, id))
    const startMs = scene.nowMs
    expect(await release(id)).toMatchObject({wasDead: true, returned: [{entity: 'ada'}]})
    expect([scene.nowMs - startMs, await free('ada')]).toEqual([0, 5])
  })

  it('leaves a process alone that holds nothing, and knows no other ids', async () => {
    const lease = await hold('ada', 2)
    const id = await onlyHolder()
    await lease.commit()
    expect((await release(id)).returned).toEqual([])
    expect((await readHolder(scene.tenant, id))?.isDead).toBe(false)
    await expect(release('unknown')).rejects.toMatchObject({kind: 'notFound', code: 'holder.missing'})
    expect(await readHolder(scene.tenant, 'unknown')).toBeUndefined()
  })

  it.each([
    {name: 'a process without a beat', hasRecord: true, wasDead: false},
    {name: 'a process whose record is gone', hasRecord: false, wasDead: false},
    {name: 'a process that others declared dead', hasRecord: true, wasDead: true},
  ])('S13 returns the reserved tokens of $name once', async ({hasRecord, wasDead}) => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpd=1000/day@UTC')
    for (const tpd of [300, 200]) await reserveFor(scene, 'gone', {tpd, hasRecord: hasRecord && tpd === 300})
    if (wasDead) await declareDead(scene.tenant, 'gone', await readHolder(scene.tenant, 'gone'))
    const tokens = [{entity: 'user-1', resource: 'gpt-4', tokens: new Map([['tpd', 500]])}]
    expect(await release('gone')).toMatchObject({wasDead, returned: [], tokens})
    expect(await scene.totals('user-1', 'gpt-4', 'tpd')).toEqual({tokens: 1000, consumed: 0})
    expect(await events()).toMatchObject([{details: {holder: 'gone', slots: 0, reserved: {tpd: 500}}}])
    expect(await release('gone')).toMatchObject({wasDead: true, returned: [], tokens: []})
  })

  it('returns the slots of a holder whose record is gone', async () => {
    await hold('ada', 2)
    const id = await onlyHolder()
    const Key = {PK: {S: `${scene.namespace}/HOLDER#${id}`}, SK: {S: '#HOLDER'}}
    await scene.table.transport.send('DeleteItem', {TableName: scene.table.name, Key})
    expect(await release(id)).toMatchObject({record: undefined, wasDead: false, returned: [{entity: 'ada'}]})
    expect(await free('ada')).toBe(5)
  })

  it('stops between two looks when it is interrupted', async () => {
    const stop = new AbortController()
    meanwhile = async () => stop.abort()
    await expect(waitForBeats(tenant().backoff, {signal: stop.signal})).rejects.toMatchObject({code: 'dynamo.aborted'})
  })

  it('lists holders in pages', async () => {
    const others = [scene.limiter(), scene.limiter()]
    for (const each of [gateway, ...others]) await hold('ada', 1, each)
    const records = new HolderRecords(scene.tenant)
    const all = (await records.list()).records.map(({id}) => id)
    expect([all.length, new Set(all)]).toEqual([3, new Set((await held()).keys())])
    const first = await records.list({limit: 2})
    const rest = await records.list({limit: 2, cursor: first.next})
    expect([...first.records, ...rest.records].map(({id}) => id)).toEqual(all)
    expect(rest.next).toBeUndefined()
  })
})
