import {expect, it} from 'vitest'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {putAbsent} from '../../../src/lib/migrate/records/conditional.js'
import {openMigrationContext, readMigration} from '../../../src/lib/migrate/walk/lease.js'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {type Item, n, readNumber, readString, s} from '../../../src/lib/schema/attribute-value.js'
import {encodeEntity} from '../../../src/lib/schema/entity-record.js'
import {encodeNamespaceById, encodeNamespaceByName} from '../../../src/lib/schema/namespace-record.js'
import {decodeUsage, encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {describeOnEngine} from '../../helpers/table.js'
import {inNamespace} from '../fixtures/generation-5.js'
import {writeItems} from '../fixtures/old-table.js'
import {oldBucketItem} from '../old-clients.js'
import {type OldTableScene, useOldTable} from '../old-table-scene.js'

const TEAM = {id: 'tEaM_a-1234', name: 'team-a', status: 'active', createdAt: '', deletedAt: undefined} as const

const entityItem = (id: string): Item => ({
  PK: s(`ENTITY#${id}`),
  SK: s('#META'),
  entity_id: s(id),
  name: s(id),
  parent_id: {NULL: true},
  metadata: {M: {}},
  created_at: s('2026-01-01T00:00:00Z'),
})

/** A table of 0.10.0 in which everything has a namespace, and none of them is called `default`. */
const teamOnly = ({nowMs}: {nowMs: number}): Item[] => [
  encodeNamespaceByName(TEAM),
  encodeNamespaceById(TEAM),
  {PK: s('_/SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.8.0')},
  ...['a', 'b', 'c', 'd', 'e', 'f'].flatMap(id => [
    inNamespace(entityItem(id), TEAM.id),
    inNamespace(oldBucketItem(`ENTITY#${id}`, 60, nowMs, 'composite'), TEAM.id),
  ]),
]

/** Items that a client without namespaces adds. */
const late = ({nowMs}: {nowMs: number}): Item[] => [
  entityItem('late'),
  oldBucketItem('ENTITY#late', 37, nowMs, 'composite'),
]

const partitions = async (scene: OldTableScene): Promise<string[]> =>
  (await scene.items()).map(item => readString(item, 'PK') ?? '')

async function expectLateInDefault(scene: OldTableScene): Promise<void> {
  const home = (await new Namespaces(scene.table).resolve('default'))?.id
  expect(home).toMatch(/^[\w-]{11}$/)
  expect((await partitions(scene)).filter(PK => PK.startsWith('?'))).toEqual([])
  const items = await scene.items()
  const bucket = items.find(item => readString(item, 'PK') === `${home}/BUCKET#late#gpt-4#0`)
  expect(bucket && readNumber(bucket, 'b_rpm_tk')).toBe(37_000)
  expect(await partitions(scene)).toContain(`${home}/ENTITY#late`)
  expect((await scene.verify()).differences.shown).toEqual([])
}

describeOnEngine('data without a namespace in a table that has no namespace "default"', () => {
  const between = useOldTable(5, teamOnly)
  const during = useOldTable(5, teamOnly)
  const onOnePage = useOldTable(5, teamOnly)
  const afterwards = useOldTable(5, teamOnly)

  it('is copied to that namespace when it appears between two runs', async () => {
    await between.migrate({until: 'configuration'})
    expect(await new Namespaces(between.table).resolve('default')).toBeUndefined()
    await writeItems({name: between.name, transport: between.own}, late(between))
    expect(await between.migrate()).toMatchObject({finished: true, settled: true, conflicts: {count: 0}})
    await expectLateInDefault(between)
    expect((await between.cleanUp()).left.count).toBe(0)
    expect((await between.census()).old).toEqual({})
  })

  it('is copied there too when it appears during a run, together with items under the literal id', async () => {
    // An entity under the literal id is current until the namespace is registered with another id.
    const entity = {entity: 'literal', name: 'Literal', parent: undefined, cascade: false, metadata: {}, version: 0}
    const literal = encodeEntity({...entity, namespace: 'default', createdAt: '2026-01-01T00:00:00Z'})
    await writeItems({name: during.name, transport: during.own}, [literal])
    let isWritten = false
    during.transport = smallPages(during, async () => {
      if (isWritten || (await readMigration({...during.table, transport: during.own}))?.step !== 'data') return
      isWritten = true
      await writeItems({name: during.name, transport: during.own}, late(during))
    })
    expect(await during.migrate()).toMatchObject({finished: true, settled: true, conflicts: {count: 0}})
    expect(isWritten).toBe(true)
    during.transport = during.own
    await expectLateInDefault(during)
    const home = (await new Namespaces(during.table).resolve('default'))?.id
    expect(await partitions(during)).toContain(`${home}/ENTITY#literal`)
  })

  it('has items under the literal id copied in the same pass when they are on the same page', async () => {
    const usage = {entity: 'literal', resource: 'gpt-4', window: 'hourly', start: '2026-06-14T05:00:00Z'} as const
    const counts = {tokens: new Map([['rpm', 7]]), totalEvents: 7, ttlSeconds: undefined}
    const {own, name} = onOnePage
    await onOnePage.migrate({until: 'configuration'})
    await writeItems({name, transport: own}, [
      encodeUsage({namespace: 'default', ...usage, ...counts}),
      ...late(onOnePage),
    ])
    await onOnePage.migrate({until: 'data'})
    const home = (await new Namespaces(onOnePage.table).resolve('default'))?.id
    const copied = (await onOnePage.items()).flatMap(item => decodeUsage(item) ?? [])
    expect(copied.filter(({namespace}) => namespace === home)).toMatchObject([{...usage, tokens: counts.tokens}])
  })

  it('is reported as not copied before there is a namespace, and is not deleted', async () => {
    await afterwards.migrate()
    await writeItems({name: afterwards.name, transport: afterwards.own}, late(afterwards))
    const {clean, differences} = await afterwards.verify()
    expect(clean).toBe(false)
    expect(differences.shown.map(({key, state, reason}) => [key, state, reason]).sort()).toEqual([
      ['ENTITY#late #BUCKET#gpt-4', 'behind', 'has no namespace yet'],
      ['ENTITY#late #META', 'behind', 'has no namespace yet'],
    ])
    await expect(afterwards.cleanUp()).rejects.toMatchObject({code: 'migrate.not-clean'})
    // Nothing can be written under the placeholder for a missing namespace.
    const context = await openMigrationContext(afterwards.table)
    await expect(putAbsent(context, {PK: s('?/ENTITY#late'), SK: s('#META'), v: n(1)})).rejects.toThrow(/no namespace/)
    expect((await partitions(afterwards)).filter(PK => PK.startsWith('?'))).toEqual([])
  })
})

/** Small pages; calls `before` before each request. */
function smallPages(scene: OldTableScene, before: () => Promise<void>): Transport {
  return {
    async send(operation, input, options) {
      await before()
      const request = operation === 'Scan' ? {...input, Limit: 4} : input
      return scene.own.send(operation, request as typeof input, options)
    },
  }
}
