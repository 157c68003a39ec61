import {expect, it} from 'vitest'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {encodeNamespaceById, encodeNamespaceByName} from '../../../src/lib/schema/namespace-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {indexedItems, putAll, strayItems} from '../namespace-items.js'
import {newTenant} from '../namespace-table.js'

describeOnBoth('finding a namespace by name or id', {}, table => {
  const tenant = newTenant(table)
  const namespaces = new Namespaces(tenant)
  const record = (id: string, name: string, status: 'active' | 'deleted' | 'purging') => ({
    id,
    name,
    status,
    createdAt: '2026-01-01T00:00:00Z',
    deletedAt: undefined,
  })
  const active = (id: string, name: string) => [
    encodeNamespaceByName(record(id, name, 'active')),
    encodeNamespaceById(record(id, name, 'active')),
  ]
  const nameless = (id: string, name: string, status: 'active' | 'deleted' | 'purging') =>
    encodeNamespaceById(record(id, name, status))

  it('prefers an id to a name, and finds a deleted namespace by its former name', async () => {
    await putAll(tenant, [...active('id-1', 'one'), nameless('id-2', 'two', 'deleted'), ...active('id-3', 'id-2')])
    expect(await namespaces.find('one')).toMatchObject({id: 'id-1', status: 'active'})
    expect(await namespaces.find('two')).toMatchObject({id: 'id-2', status: 'deleted'})
    expect(await namespaces.find('id-2')).toMatchObject({name: 'two'})
    await expect(namespaces.find('three')).rejects.toMatchObject({code: 'namespace.missing', kind: 'notFound'})
  })

  it('refuses a name of several namespaces, with their ids', async () => {
    await putAll(tenant, [nameless('twin-1', 'twin', 'deleted'), nameless('twin-2', 'twin', 'purging')])
    await expect(namespaces.find('twin')).rejects.toMatchObject({
      code: 'namespace.ambiguous',
      kind: 'conflict',
      message: 'Several namespaces are or were called "twin": twin-1, twin-2.',
      details: {name: 'twin', active: null, ids: ['twin-1', 'twin-2']},
    })
    await putAll(tenant, [...active('again-2', 'again'), nameless('again-1', 'again', 'deleted')])
    await expect(namespaces.find('again')).rejects.toMatchObject({details: {active: 'again-2', ids: ['again-1']}})
    expect(await namespaces.find('again-1')).toMatchObject({status: 'deleted'})
  })

  it('checks whether a namespace may be deleted or purged before anything is written', async () => {
    await putAll(tenant, [
      ...active('id-default', 'default'),
      ...active('id-a', 'a'),
      nameless('id-d', 'd', 'deleted'),
      nameless('id-h', 'h', 'active'),
    ])
    const before = tenant.transport.calls.length
    expect(await namespaces.deletable('a')).toMatchObject({id: 'id-a'})
    await expect(namespaces.deletable('default')).rejects.toMatchObject({code: 'namespace.protected'})
    await expect(namespaces.deletable('id-d')).rejects.toMatchObject({code: 'namespace.state'})
    expect(await namespaces.purgeable('d')).toMatchObject({id: 'id-d'})
    expect(await namespaces.purgeable('h')).toMatchObject({id: 'id-h', halfDeleted: true})
    await expect(namespaces.purgeable('a')).rejects.toMatchObject({code: 'namespace.state', kind: 'conflict'})
    const calls = new Set(tenant.transport.calls.slice(before))
    expect([...calls].filter(operation => !/^(Query|GetItem|TransactGetItems)$/.test(operation))).toEqual([])
  })

  it('counts items by the namespace index alone, or by a scan of the table', async () => {
    await putAll(tenant, [...indexedItems('counted'), ...strayItems('counted'), ...indexedItems('counted2')])
    const before = tenant.transport.calls.length
    const counts = await namespaces.countIndexed('counted')
    expect(counts).toMatchObject({entity: 31, bucket: 60, usage: 100, audit: 40})
    expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(300)
    expect(new Set(tenant.transport.calls.slice(before))).toEqual(new Set(['Query']))
    expect(await namespaces.countItems('counted')).toMatchObject({bucket: 61, other: 1})
  })
})
