import {expect, it} from 'vitest'
import {BucketPoller} from '../../../src/lib/live/poll/poller.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant} from '../../repository/namespace-table.js'
import {putUsers} from '../support.js'

describeOnBoth('names of entities', {}, table => {
  it('are read once for the visible rows, then cached', async () => {
    const tenant = newTenant(table)
    const names = new Repository({stack: table.name, transport: table.transport}).namespaceById(tenant.namespace)
    await names.entities.create({id: 'user-0', name: 'Ada Ltd'})
    await names.entities.create({id: 'user-1'})
    await names.entities.create({id: 'user-2', name: 'user-2'})
    await names.entities.create({id: 'user-3', name: 'Off screen'})
    await putUsers(tenant, 4, [{name: 'rpm', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60}])
    const poller = new BucketPoller(tenant, {kind: 'namespace'})
    const poll = async (...focus: string[]) => {
      const {names: found, lastPoll} = await poller.poll(new Set(focus), new AbortController().signal)
      return {found: [...found], units: lastPoll.readUnits, calls: lastPoll.calls}
    }
    const first = await poll()
    expect(first.found).toEqual([])
    const visible = ['user-0#r', 'user-1#r', 'user-2#r']
    const second = await poll(...visible)
    expect(second.found).toEqual([['user-0', 'Ada Ltd']])
    expect([second.units - first.units, second.calls - first.calls]).toEqual([1.5, 1])
    expect(await poll(...visible)).toEqual({...first, found: second.found})
  })
})
