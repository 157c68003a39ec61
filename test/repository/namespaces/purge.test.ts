import {expect, it} from 'vitest'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import type {Removed} from '../../../src/lib/repository/table/kind-counter.js'
import type {Table} from '../../../src/lib/repository/table/table.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {encodeNamespaceById, encodeNamespaceByName} from '../../../src/lib/schema/namespace-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {bucketItem, indexedItems, putAll, scanNamespace, scanWhere, strayItems} from '../namespace-items.js'
import {newTenant} from '../namespace-table.js'

const BY_KIND = {
  entity: 31,
  'entity-config': 53,
  usage: 100,
  bucket: 61,
  audit: 40,
  'resource-config': 17,
  'system-config': 1,
  'resource-registry': 1,
  'entity-config-registry': 1,
  provisioner: 1,
  other: 1,
}

/** A namespace with a chosen id and 307 items. */
async function filled(table: Table, id: string, status: 'active' | 'deleted' = 'deleted'): Promise<void> {
  const record = {id, name: `name-${id}`, status, createdAt: '2026-01-01T00:00:00Z', deletedAt: '2026-02-01T00:00:00Z'}
  const registration = status === 'active' ? [encodeNamespaceByName(record)] : []
  await putAll(table, [encodeNamespaceById(record), ...registration, ...indexedItems(id), ...strayItems(id)])
}

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'no error',
    error => error.code,
  )

describeOnBoth('purging a namespace', {}, table => {
  const arranged = () => {
    const tenant = newTenant(table)
    return {tenant, transport: tenant.transport, namespaces: new Namespaces(tenant)}
  }

  it('S11 D-31 deletes all its items, including those in no index, and none of any other', async () => {
    const {tenant, namespaces} = arranged()
    const neighbours = ['purge1b', 'purge1_', 'purge', 'Purge1']
    await filled(tenant, 'purge1')
    for (const id of neighbours) await filled(tenant, id, 'active')
    // Points into the purged namespace by its index key and is still not its item.
    const misled: Item = {...bucketItem('purge', 'misled', 'r1'), GSI4PK: {S: 'purge1'}}
    await putAll(tenant, [misled])
    const others = (PK: string) => !PK.startsWith('purge1/') && PK !== '_/SYSTEM#'
    const before = await scanWhere(tenant, others)

    expect(await namespaces.countItems('purge1')).toEqual(BY_KIND)
    const reports: Removed[] = []
    const removed = await namespaces.purge('purge1', {onProgress: report => reports.push(report)})
    expect(removed).toEqual({deleted: 307, byKind: BY_KIND})
    expect(reports.map(({deleted}) => deleted)).toEqual([100, 200, 300, 307])
    expect(reports.at(-1)).toEqual(removed)
    expect(await scanNamespace(tenant, 'purge1')).toEqual([])
    expect(await codeOf(namespaces.show('purge1'))).toBe('namespace.missing')
    expect(await scanWhere(tenant, others)).toEqual(before)
    expect((await namespaces.list()).map(({id}) => id).sort()).toEqual([...neighbours].sort())
    expect(await codeOf(namespaces.purge('purge1'))).toBe('namespace.missing')
  })

  it('stops on a signal, shows as being purged, cannot be recovered, and continues when run again', async () => {
    const {tenant, namespaces} = arranged()
    await filled(tenant, 'purge2')
    const stop = new AbortController()
    // The engine's own transport, which knows signals.
    const interruptible = new Namespaces({...tenant, transport: table.transport})
    const first = interruptible.purge('purge2', {
      signal: stop.signal,
      onProgress: ({deleted}) => {
        if (deleted >= 100) stop.abort()
      },
    })
    expect(await codeOf(first)).toBe('dynamo.aborted')
    const left = (await scanNamespace(tenant, 'purge2')).length
    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThanOrEqual(207)
    expect(await namespaces.show('purge2')).toMatchObject({status: 'purging'})
    expect((await namespaces.orphans()).map(({id}) => id)).toContain('purge2')
    expect(await codeOf(namespaces.recover('purge2'))).toBe('namespace.state')
    expect(await codeOf(namespaces.delete('purge2'))).toBe('namespace.state')

    expect((await namespaces.purge('purge2')).deleted).toBe(left)
    expect(await scanNamespace(tenant, 'purge2')).toEqual([])
    expect(await codeOf(namespaces.show('purge2'))).toBe('namespace.missing')
  })

  it('can be interrupted after any request and finishes when run again', async () => {
    const {tenant, transport, namespaces} = arranged()
    await filled(tenant, 'purge3')
    for (let cuts = 0, done = false; !done; cuts++) {
      let requests = cuts + 1
      transport.before = () => {
        if (requests-- === 0) throw new Error('cut off')
      }
      done = await namespaces.purge('purge3').then(
        () => true,
        error => {
          expect(error.message).toBe('cut off')
          return false
        },
      )
      transport.before = () => {}
    }
    expect(await scanNamespace(tenant, 'purge3')).toEqual([])
    expect(await codeOf(namespaces.show('purge3'))).toBe('namespace.missing')
  })

  it('D-38 sends unprocessed items again', async () => {
    const {tenant, transport, namespaces} = arranged()
    await filled(tenant, 'purge4')
    let refusals = 0
    transport.after = async (operation, output, input) => {
      if (operation !== 'BatchWriteItem' || refusals++ % 2 === 1) return
      const {RequestItems} = input as {RequestItems: Record<string, Array<{DeleteRequest: {Key: Item}}>>}
      const last = RequestItems[tenant.name]?.at(-1)
      if (!last) return
      // As if the engine had left the last one undone.
      await table.transport.send('PutItem', {TableName: tenant.name, Item: last.DeleteRequest.Key})
      Object.assign(output as object, {UnprocessedItems: {[tenant.name]: [last]}})
    }
    expect((await namespaces.purge('purge4')).deleted).toBe(307)
    expect(await scanNamespace(tenant, 'purge4')).toEqual([])
  })

  it('refuses an active namespace and writes nothing', async () => {
    const {tenant, transport, namespaces} = arranged()
    await filled(tenant, 'purge5', 'active')
    transport.calls.length = 0
    await expect(namespaces.purge('purge5')).rejects.toMatchObject({
      code: 'namespace.state',
      kind: 'conflict',
      hint: 'Delete it first.',
    })
    expect(new Set(transport.calls)).toEqual(new Set(['GetItem', 'TransactGetItems']))
    expect(await scanNamespace(tenant, 'purge5')).toHaveLength(307)
  })

  it('loses against a recovery that came first, before anything is deleted', async () => {
    const {tenant, transport, namespaces} = arranged()
    await filled(tenant, 'purge6')
    transport.before = async operation => {
      if (operation !== 'TransactWriteItems') return
      transport.before = () => {}
      await new Namespaces({...tenant, transport: table.transport}).recover('purge6')
    }
    expect(await codeOf(namespaces.purge('purge6'))).toBe('namespace.changed')
    expect(await scanNamespace(tenant, 'purge6')).toHaveLength(307)
    expect((await namespaces.show('purge6')).status).toBe('active')
  })

  it('does not purge the registry', async () => {
    const {namespaces} = arranged()
    expect(await codeOf(namespaces.purge('_'))).toBe('namespace.missing')
    expect(await codeOf(namespaces.countItems('_'))).toBe('namespace.id')
  })
})
