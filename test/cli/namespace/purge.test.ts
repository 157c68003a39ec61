import {expect, it} from 'vitest'
import {purgeWithProgress} from '../../../src/lib/cli/namespace/presenter.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {
  bucketItem,
  entityConfigItem,
  entityItem,
  putAll,
  scanNamespace,
  strayItems,
  usageItem,
} from '../../repository/namespace-items.js'
import {newTenant} from '../../repository/namespace-table.js'

const ITEMS = process.env.ZAEL_TEST_SIZE === 'full' ? 20_000 : 600

/** Four kinds of items in equal parts, and seven that are in no index. */
function manyItems(namespace: string): Item[] {
  const entities = Array.from({length: Math.ceil((ITEMS - 7) / 4)}, (_, i) => `e${i}`)
  const items = entities.flatMap(entity => [
    entityItem(namespace, entity),
    entityConfigItem(namespace, entity, 'r1'),
    usageItem(namespace, entity, 'r1', 1),
    bucketItem(namespace, entity, 'r1'),
  ])
  return [...items.slice(0, ITEMS - 7), ...strayItems(namespace)]
}

/** The reference printed no counts, estimate, progress, cost or way to resume. */
describeOnEngine('C-44 purge and delete', () => {
  const table = useTable()
  const cli = tableCli(table)
  const tenant = newTenant(table)
  // A purge waits until a minute after the deletion.
  const clock = () => Date.now() - 60_000
  const {namespaces} = new Repository({stack: table.name, transport: table.transport, clock})

  it('shows the plan and cost of a purge, resumes after an interruption, and leaves no item', {
    timeout: 600_000,
  }, async () => {
    const {namespace: doomed} = await namespaces.register('doomed')
    const {namespace: neighbour} = await namespaces.register('neighbour')
    await putAll(tenant, [...manyItems(doomed.id), ...manyItems(neighbour.id)])
    const untouched = await scanNamespace(tenant, neighbour.id)
    await namespaces.delete('doomed')

    const plan = await cli.run('namespace purge doomed --dry-run')
    expect(plan.stdout).toMatch(new RegExp(`^ +total +${ITEMS.toLocaleString('en')}$`, 'm'))
    expect(plan.stdout).toContain('Each deleted item costs one write')

    const interrupted = await interruptedPurge(ITEMS / 50, doomed.id)
    expect(interrupted).toMatchObject({
      kind: 'interrupted',
      message: expect.stringMatching(/^Interrupted: at least [\d,]+ items of namespace "doomed"/),
      hint: `Run it again to continue: zael namespace purge ${doomed.id} --confirm doomed`,
    })
    const left = (await scanNamespace(tenant, doomed.id)).length
    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThanOrEqual(ITEMS - interrupted.details.counts.total)
    expect(await cli.tell(`namespace show ${doomed.id}`)).toMatchObject({status: 'purging'})

    const {counts} = await cli.tell(`namespace purge ${doomed.id} --confirm doomed`)
    expect(counts.total).toBe(left)
    expect(await scanNamespace(tenant, doomed.id)).toEqual([])
    expect(await namespaces.orphans()).toEqual([])
    expect(await scanNamespace(tenant, neighbour.id)).toEqual(untouched)
  })

  it('counts the items deleted with an entity', async () => {
    const {namespace} = await namespaces.register('default')
    const inDefault = [
      entityItem(namespace.id, 'e'),
      usageItem(namespace.id, 'e', 'r1', 1),
      bucketItem(namespace.id, 'e', 'r1'),
    ]
    await putAll(tenant, inDefault)
    const {stdout} = await cli.run('entity delete e --yes')
    expect(stdout).toContain(
      'Deleted entity "e":\n  entity          1\n  bucket shard    1\n  usage snapshot  1\n  total           3\nIts audit events are kept.\n',
    )
  })

  /** The error of a purge that Ctrl-C interrupts while the next request after that many is in flight. */
  async function interruptedPurge(requests: number, id: string) {
    let writes = 0
    const transport: Transport = {
      send: (operation, input, options) => {
        if (operation === 'BatchWriteItem' && ++writes === requests + 1) process.emit('SIGINT')
        return table.transport.send(operation, input, options)
      },
    }
    const {namespaces: interruptible} = new Repository({stack: table.name, transport})
    const namespace = await interruptible.purgeable(id)
    return purgeWithProgress(interruptible, namespace, {confirm: 'doomed'}).catch(error => error)
  }
})
