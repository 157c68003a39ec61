import {randomBytes} from 'node:crypto'
import {expect, it} from 'vitest'
import {sleepMs} from '../../../src/lib/dynamo/retry.js'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {encodeNamespaceByName} from '../../../src/lib/schema/namespace-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {bucketItem, indexedItems, putAll, scanNamespace, strayItems} from '../namespace-items.js'
import {newTenant} from '../namespace-table.js'

describeOnBoth('S11 a namespace that clients still write to', {}, table => {
  /** A namespace of 307 items that was deleted just now. */
  async function deleted(name: string) {
    const tenant = newTenant(table)
    // An id that could be a name: it begins with a letter.
    const startWithLetter = (count: number) => randomBytes(count).fill(0, 0, 1)
    const namespaces = new Namespaces({...tenant, randomBytes: startWithLetter})
    const {namespace} = await namespaces.register(name)
    await putAll(tenant, [...indexedItems(namespace.id), ...strayItems(namespace.id)])
    await namespaces.delete(name)
    return {tenant, namespaces, id: namespace.id}
  }

  it('is purged only after all clients must have noticed, with their last writes', async () => {
    const {tenant, id} = await deleted('busy')
    const waits: number[] = []
    const late = bucketItem(id, 'late', 'r1')
    const table = {
      ...tenant,
      backoff: {
        ...tenant.backoff,
        sleep: async (ms: number, signal?: AbortSignal) => {
          if (ms < 1_000) return sleepMs(ms, signal)
          // Clients looked the namespace up before it was deleted; meanwhile it shows as being purged.
          await putAll(tenant, [late])
          expect(await new Namespaces(tenant).show(id)).toMatchObject({status: 'purging'})
          tenant.nowMs += ms
        },
      },
    }
    const removed = await new Namespaces(table).purge(id, {onWait: ms => waits.push(ms)})
    expect(removed.deleted).toBe(308)
    expect(waits).toEqual([60_000])
    expect(await scanNamespace(tenant, id)).toEqual([])
  })

  it('is purged at once when it was deleted a minute ago', async () => {
    const {tenant, namespaces, id} = await deleted('rested')
    tenant.nowMs += 60_000
    const waits: number[] = []
    await namespaces.purge(id, {onWait: ms => waits.push(ms)})
    expect(waits).toEqual([])
  })

  it('is listed as unregistered, and can be purged by its id', async () => {
    const {tenant, namespaces, id} = await deleted('haunted')
    await namespaces.purge(id)
    expect((await namespaces.unregistered()).map(found => found.id)).not.toContain(id)
    await putAll(tenant, [bucketItem(id, 'late', 'r1'), ...strayItems(id)])
    expect(await namespaces.unregistered()).toContainEqual({
      id,
      name: '',
      status: 'deleted',
      createdAt: '',
      deletedAt: undefined,
      halfDeleted: false,
      isUnregistered: true,
    })
    expect(await namespaces.purgeable(id)).toMatchObject({id, isUnregistered: true})
    const {deleted: count} = await namespaces.purge(id)
    expect(count).toBe(1 + strayItems(id).length)
    expect(await scanNamespace(tenant, id)).toEqual([])
    expect((await namespaces.unregistered()).map(found => found.id)).not.toContain(id)
    await expect(namespaces.purgeable(id)).rejects.toMatchObject({code: 'namespace.missing'})
  })

  it('is found and purged when its records are in no index', async () => {
    const {tenant, namespaces, id} = await deleted('hidden')
    await namespaces.purge(id)
    const {GSI4PK: _, GSI4SK: __, ...ghost} = bucketItem(id, 'late', 'r1')
    await putAll(tenant, [ghost])
    expect((await namespaces.unregistered()).map(found => found.id)).toContain(id)
    expect((await namespaces.purge(id)).deleted).toBe(1)
  })

  it('is found again after an interrupted purge of an unregistered id', async () => {
    const tenant = newTenant(table)
    const id = 'wild-id'
    await putAll(tenant, indexedItems(id))
    const stop = new AbortController()
    const interruptible = new Namespaces({...tenant, transport: table.transport})
    const onProgress = () => stop.abort()
    await expect(interruptible.purge(id, {signal: stop.signal, onProgress})).rejects.toMatchObject({
      code: 'dynamo.aborted',
    })
    const namespaces = new Namespaces(tenant)
    expect(await namespaces.orphans()).toContainEqual(expect.objectContaining({id, status: 'purging'}))
    await namespaces.purge(id)
    expect((await namespaces.orphans()).map(found => found.id)).not.toContain(id)
    expect(await scanNamespace(tenant, id)).toEqual([])
  })

  it('is never listed as unregistered while in use, even when registered by name alone', async () => {
    const tenant = newTenant(table)
    const namespaces = new Namespaces(tenant)
    const {namespace} = await namespaces.register('in-use')
    const record = {...namespace, id: 'by-name-only', name: 'by-name'}
    await putAll(tenant, [
      encodeNamespaceByName(record),
      ...indexedItems('by-name-only'),
      ...indexedItems(namespace.id),
    ])
    const ids = (await namespaces.unregistered()).map(({id}) => id)
    expect(ids).not.toContain(namespace.id)
    expect(ids).not.toContain('by-name-only')
  })

  it('refuses a name that is the id of another namespace, whatever its state', async () => {
    const {namespaces, id} = await deleted('first')
    for (const work of [() => namespaces.register(id), () => namespaces.registerMany(['other', id])]) {
      await expect(work()).rejects.toMatchObject({code: 'namespace.name-is-id', kind: 'conflict'})
    }
    await namespaces.recover(id)
    await expect(namespaces.register(id)).rejects.toMatchObject({code: 'namespace.name-is-id'})
    expect(await namespaces.register('first')).toMatchObject({created: false, namespace: {id}})
  })
})
