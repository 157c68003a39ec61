import {hostname} from 'node:os'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import type {Lease} from '../../src/lib/limiter/lease.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {declareDead, readHolder} from '../../src/lib/repository/buckets/holders.js'
import {endReservation, storeReservation} from '../../src/lib/repository/buckets/reservations.js'
import {type NamespaceRepository, Repository} from '../../src/lib/repository/repository.js'
import {openTable} from '../../src/lib/repository/table/open-table.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'

describeOnEngine('holders of slots', () => {
  const table = useTable()
  const cli = tableCli(table)
  const seams = {stack: table.name, transport: table.transport}
  const repository = new Repository(seams)
  const gateways = [new RateLimiter(seams), new RateLimiter(seams)]
  const leases: Lease[] = []
  let namespace: NamespaceRepository

  beforeAll(async () => {
    await repository.namespaces.register('default')
    namespace = await repository.namespace()
    await namespace.setLimits(
      {level: 'resource', resource: 'gpt-4'},
      parseLimits(['rpm=100/min', 'parallel=3/inflight']),
    )
    await namespace.setLimits({level: 'resource', resource: 'batch'}, parseLimits(['jobs=2/inflight']))
    for (const at of [0, 0, 1]) await hold(at, 'user-1', 'gpt-4')
    await hold(0, 'user-1', 'batch')
  })
  afterAll(async () => {
    for (const lease of leases) await lease.commit()
    for (const gateway of gateways) await gateway.close()
  })

  async function hold(gateway: number, entity: string, resource: string): Promise<void> {
    leases.push(await (gateways[gateway] as RateLimiter).acquire({entity, resource, consume: {}}))
  }

  const idOf = async (slots: number): Promise<string> => {
    const {buckets} = await cli.tell('bucket show user-1 --resource gpt-4')
    return buckets[0].inFlight[0].holders.find((holder: {slots: number}) => holder.slots === slots).id
  }

  it('are shown with a bucket, most slots first', async () => {
    const process = `${hostname()} (pid ${globalThis.process.pid})`
    const shown = (await cli.show('bucket show user-1 --resource gpt-4', 160)).replaceAll(/beat [^,·]*ago/g, 'beat')
    expect(shown).toContain(`\nparallel  3 of 3 in flight  ${process} 2, beat · ${process} 1, beat\n`)
    const all = await cli.show('bucket show user-1', 160)
    expect(all).toMatch(/\nbatch {2}jobs {6}1 of 2 in flight .*\ngpt-4 {2}parallel {2}3 of 3 in flight /)
    const {buckets} = await cli.tell('bucket show user-1 --resource gpt-4')
    const holder = {
      id: expect.stringMatching(/^[\w-]{11}$/),
      host: hostname(),
      pid: globalThis.process.pid,
      isDead: false,
    }
    expect(buckets).toMatchObject([
      {
        limits: [{name: 'rpm'}],
        inFlight: [
          {
            limit: 'parallel',
            capacity: 3,
            free: 0,
            inUse: 3,
            holders: [
              {...holder, slots: 2},
              {...holder, slots: 1},
            ],
          },
        ],
      },
    ])
    expect(await idOf(2)).not.toBe(await idOf(1))
  })

  it('L6 are levels of the live view and its metrics', async () => {
    const {buckets} = await cli.tell('watch --once')
    const level = {name: 'parallel', level: 0, capacity: 3, inFlight: true, ratePerSecond: null}
    expect(buckets).toMatchObject([
      {resource: 'gpt-4', status: 'over', limit: 'parallel', emptyInMs: 0, limits: [{name: 'rpm'}, level]},
      {resource: 'batch', status: 'ok', limit: 'jobs', limits: [{level: 1, capacity: 2, inFlight: true}]},
    ])
    expect(await cli.show('watch --once', 160)).toMatch(/\nover +user-1 +gpt-4 +parallel +0 +3 +0% +0 +0 /)
    const {stdout} = await cli.run('watch --prometheus')
    expect(stdout).toContain('\nzael_slots_in_use{namespace="default",resource="gpt-4",limit="parallel"} 3\n')
    expect(stdout).toContain('\nzael_slots_capacity{namespace="default",resource="batch",limit="jobs"} 2\n')
  })

  it('are the reason why a request is refused', async () => {
    const result = JSON.parse((await cli.run('why user-1 gpt-4 --json')).stdout)
    expect(schemaProblems('why', result)).toEqual([])
    expect(result).toMatchObject({
      admitted: false,
      limits: [{name: 'rpm', exceeded: false}],
      inFlight: [{limit: 'parallel', inUse: 3, requested: 1, exceeded: true, text: 'parallel=3/inflight'}],
    })
    expect(result.inFlight[0].remedies).toMatchObject([
      {command: expect.stringContaining('zael holders list')},
      {command: expect.stringContaining('zael limits set --entity user-1 --resource gpt-4 parallel=6/inflight')},
    ])
    const {code, stderr} = await cli.run('acquire user-1 gpt-4 rpm=1')
    expect([code, stderr]).toEqual([6, expect.stringContaining('add --wait 60s\n')])
    expect((await cli.run('acquire user-1 gpt-4 rpm=1 --wait 1ms')).stderr).not.toContain('add --wait')
    const {stdout} = await cli.run('why user-1 batch')
    expect(stdout).toMatch(/admitted now.*\n\njobs of user-1 has room: 1 of 2 in flight\n/)
  })

  it('are listed, with their slots on request', async () => {
    const [two, one] = [await idOf(2), await idOf(1)]
    const {holders, next} = await cli.tell('holders list')
    expect([next, holders.map(({id}: {id: string}) => id).sort()]).toEqual([null, [one, two].sort()])
    expect(holders[0]).toMatchObject({host: hostname(), isDead: false, state: 'unknown', buckets: null, reserved: null})
    const first = await cli.tell('holders list --limit 1')
    expect(await cli.tell(`holders list --limit 1 --cursor ${first.next}`)).toMatchObject({holders: [{}], next: null})
    const withSlots = await cli.tell('holders list --slots')
    expect(withSlots.holders.find(({id}: {id: string}) => id === two)).toMatchObject({
      buckets: [
        {entity: 'user-1', resource: 'batch', slots: {jobs: 1}},
        {entity: 'user-1', resource: 'gpt-4', slots: {parallel: 2}},
      ],
    })
    const {table: open} = openTable(seams)
    const inNamespace = {...open, namespace: namespace.id}
    const quota = {entity: 'user-1', shard: 0, incarnation: undefined, limit: 'tpd'}
    const period = {definition: 'former', isSession: false}
    const tokens = ['gpt-4', 'batch'].map(resource => ({...quota, resource, milli: 4_000_000n, period}))
    await storeReservation(inNamespace, {holder: two, id: '1.aaaa'}, tokens)
    const {holders: reserving} = await cli.tell('holders list --slots')
    expect(reserving.find(({id}: {id: string}) => id === two).reserved).toEqual([
      {entity: 'user-1', resource: 'batch', tokens: {tpd: 4000}},
      {entity: 'user-1', resource: 'gpt-4', tokens: {tpd: 4000}},
    ])
    const reserved = await cli.show('holders list --slots --columns holder,reserved', 160)
    expect(reserved.split('\n')).toEqual(
      expect.arrayContaining([`${two}  user-1 · batch tpd 4,000, user-1 · gpt-4 tpd 4,000`, `${one}  none`]),
    )
    await endReservation(inNamespace, {holder: two, id: '1.aaaa'})
    const lines = await cli.show('holders list --slots --columns holder,state,slots', 160)
    expect(lines.split('\n')).toContain(`${two}  not compared  user-1 · batch jobs 1, user-1 · gpt-4 parallel 2`)
    expect(await cli.fail('holders list --cursor x')).toMatchObject({code: 2, error: {code: 'page.cursor'}})
  })

  it('are listed with their state, however narrow the terminal is', async () => {
    expect(await cli.show('holders list', 40)).toMatch(/ STATE\n.* not compared\n/)
  })

  it('are released by force only after confirmation, and audited', async () => {
    const id = await idOf(1)
    expect(await cli.fail(`holders release ${id} --force`)).toMatchObject({
      code: 2,
      error: {code: 'confirm.needed', message: expect.stringContaining('not counted')},
    })
    expect(await cli.fail('holders release nobody --force --yes')).toMatchObject({
      code: 3,
      error: {code: 'holder.missing'},
    })
    expect(await cli.fail('holders release nobody --yes')).toMatchObject({code: 2})
    expect(await cli.tell('audit list --action holder_released --since 1h')).toMatchObject({events: []})
    expect(await cli.tell(`holders release ${id} --force --yes`)).toMatchObject({
      holder: id,
      wasDead: false,
      returned: [{entity: 'user-1', resource: 'gpt-4', slots: {parallel: 1}}],
    })
    expect(await cli.show(`holders release ${id} --force --yes`, 100)).toContain(
      'holds no slots and no reserved tokens: nothing to release',
    )
    const {events} = await cli.tell('audit list --action holder_released --since 1h')
    expect(events).toMatchObject([{entity: '$SYSTEM', details: {holder: id, forced: true, slots: 1}}])
    const {holders} = await cli.tell('holders list')
    expect(holders.find((each: {id: string}) => each.id === id)).toMatchObject({isDead: true, state: 'dead'})
    const {buckets} = await cli.tell('bucket show user-1 --resource gpt-4')
    expect(buckets[0].inFlight[0]).toMatchObject({free: 1, inUse: 2})
  })

  it('are released without force once they are declared dead', async () => {
    const id = await idOf(2)
    const {id: namespaceId} = namespace
    const {table: open} = openTable(seams)
    const inNamespace = {...open, namespace: namespaceId}
    await declareDead(inNamespace, id, await readHolder(inNamespace, id))
    const {code, stdout, stderr} = await cli.run(`holders release ${id}`)
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    expect(stdout).toContain('was already declared dead; returned 3 slots of 2 buckets:\n  user-1 · batch jobs 1\n')
    const {events} = await cli.tell('audit list --action holder_released --since 1h')
    expect(events[0]).toMatchObject({details: {holder: id, forced: false, slots: 3}})
  })
})
