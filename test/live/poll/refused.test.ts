import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {refusedPerSecond} from '../../../src/lib/live/model/request-counts.js'
import {rowAt} from '../../../src/lib/live/model/status.js'
import {totalsAt} from '../../../src/lib/live/model/totals.js'
import {BucketPoller} from '../../../src/lib/live/poll/poller.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {PATIENT_MS} from '../../helpers/table.js'
import {newTenant} from '../../repository/namespace-table.js'

describeOnBoth('a customer whose requests are refused', {}, table => {
  /** A namespace with limiters and a poller, and the row of a bucket after each poll. */
  async function scene(limits: readonly string[]) {
    const tenant = newTenant(table)
    const {transport} = table
    const repository = new Repository({stack: table.name, transport, clock: tenant.clock})
    const names = repository.namespaceById(tenant.namespace)
    await names.setLimits({level: 'system'}, parseLimits([...limits]))
    const settings = {clock: tenant.clock, timeoutMs: PATIENT_MS}
    const limiter = () => new RateLimiter({stack: table.name, namespaceId: tenant.namespace, transport, ...settings})
    const poller = new BucketPoller({...tenant, transport}, {kind: 'namespace'})
    const poll = async () => {
      const result = await poller.poll(new Set(), new AbortController().signal)
      const find = (id: string) => result.readings.get(id)
      const row = (id: string) => {
        const reading = find(id)
        if (!reading) throw new Error(`nothing of ${id}`)
        return rowAt(reading, tenant.nowMs, find)
      }
      return {...result, row, totals: totalsAt(result.readings.values(), tenant.nowMs, find)}
    }
    return {tenant, names, limiter, poll}
  }

  it('is over in the first poll, and has a rate of refusals in the poll after they were written', async () => {
    const {tenant, limiter, poll} = await scene(['tpd=2000/day'])
    const one = limiter()
    const request = {entity: 'cust-08', resource: 'batch', consume: {tpd: 900}}
    for (let taken = 0; taken < 2; taken++) await one.acquire(request)
    expect(await one.tryAcquire(request)).toMatchObject({admitted: false})
    const first = await poll()
    // 200 of 2,000 tokens are left, which is not even one request.
    expect(first.row('cust-08#batch')).toMatchObject({status: 'over', refusedBy: 'entity'})
    expect(first.row('cust-08#batch').typical).toEqual(new Map([['tpd', 900]]))
    for (let more = 0; more < 49; more++) await one.tryAcquire(request)
    await one.close()
    tenant.nowMs += 2000
    const second = await poll()
    expect(second.row('cust-08#batch').requests).toMatchObject({refused: 50, lastRefusedAtMs: tenant.nowMs - 2000})
    expect(refusedPerSecond(second.row('cust-08#batch').requests)).toBe(5)
    expect(second.totals).toMatchObject({over: 1, refusedPerSecond: 5})
    // The same reads as before there was anything to refuse.
    expect(second.lastPoll.calls).toBe(first.lastPoll.calls)
    expect(second.lastPoll.readUnits).toBe(first.lastPoll.readUnits)
  })

  it('is shown as refused by its parent, which has counted the requests', async () => {
    const {tenant, names, limiter, poll} = await scene(['tpm=1000/day'])
    await names.entities.create({id: 'team'})
    for (const child of ['ada', 'ben']) await names.entities.create({id: child, parent: 'team', cascade: true})
    const one = limiter()
    const ask = (entity: string, tpm: number) => one.tryAcquire({entity, resource: 'gpt-4', consume: {tpm}})
    await ask('ada', 100)
    await ask('ben', 850)
    await poll()
    for (let times = 0; times < 20; times++) expect(await ask('ada', 100)).toMatchObject({admitted: false})
    await one.close()
    tenant.nowMs += 2000
    const {row, totals} = await poll()
    expect(row('ada#gpt-4')).toMatchObject({status: 'over', refusedBy: 'parent', tightest: {name: 'tpm'}})
    expect(row('ada#gpt-4').requests).toMatchObject({refused: 0, refusedByParent: 20})
    expect(row('team#gpt-4')).toMatchObject({status: 'over', refusedBy: 'entity', requests: {refused: 20}})
    // Each request once, although both buckets have counted it.
    expect(totals.refusedPerSecond).toBe(2)
  })
})
