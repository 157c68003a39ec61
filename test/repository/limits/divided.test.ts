import {expect, it} from 'vitest'
import {Unavailable} from '../../../src/lib/dynamo/errors.js'
import {Provisioner} from '../../../src/lib/repository/limits/provisioner.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {itemBytes, MAX_ITEM_BYTES} from '../../../src/lib/schema/item-size.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {encodeProvisioner, type Managed} from '../../../src/lib/schema/provisioner-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, stored, type TestTenant} from '../namespace-table.js'
import {anotherOf, found, hold, listOf, manyManaged, storedParts} from './support.js'

const SMALL: Managed = {managesSystem: true, resources: ['a', 'b'], entities: new Map([['u', ['_default_', 'a']]])}

/** Long enough for two and for three parts. */
const TWO = manyManaged(25)
const THREE = manyManaged(45, 'other')

describeOnBoth('the record of managed limits', {timeout: 120_000}, (table, extent) => {
  const scene = (options?: {attempts?: number}) => {
    const tenant = newTenant(table, options)
    return {tenant, provisioner: new Provisioner(tenant), headKey: keys.provisioner(tenant.namespace)}
  }
  const saved = async (provisioner: Provisioner, managed: Managed, hash?: string) =>
    provisioner.save(managed, await provisioner.get(), hash)

  it('is one item in the shared format while it fits, on this engine', async () => {
    const {tenant, provisioner, headKey} = scene()
    const bytesOf = (count: number) =>
      itemBytes(
        encodeProvisioner({
          ...manyManaged(count),
          namespace: tenant.namespace,
          lastApplied: undefined,
          appliedHash: undefined,
        }),
      )
    const [base, perEntity] = [bytesOf(0), bytesOf(1) - bytesOf(0)]
    const largest = Math.floor((MAX_ITEM_BYTES - 1024 - base) / perEntity)
    const seen = await saved(provisioner, manyManaged(largest))
    const {rev, ...item} = (await stored(tenant, headKey)) as Item
    const record = {namespace: tenant.namespace, lastApplied: undefined, appliedHash: undefined}
    expect(item).toEqual(encodeProvisioner({...manyManaged(largest), ...record}))
    expect(rev).toEqual({S: expect.any(String)})
    expect(await storedParts(tenant)).toEqual([])

    expect((await provisioner.save(manyManaged(largest + 1), seen)).parts).toEqual({set: expect.any(String), count: 2})
    expect(listOf((await found(tenant)).record)).toEqual(listOf(manyManaged(largest + 1)))
  })

  it('is divided into items that fit, and becomes one item again', async () => {
    const {tenant, provisioner, headKey} = scene()
    const managed = {...THREE, managesSystem: true}
    await saved(provisioner, managed, 'sha256:1')
    expect(await found(tenant)).toMatchObject({parts: {count: 3}, record: {appliedHash: 'sha256:1'}})
    expect(listOf((await found(tenant)).record)).toEqual(listOf(managed))
    const parts = await storedParts(tenant)
    expect(parts).toHaveLength(3)
    expect(Math.max(...parts.map(itemBytes))).toBeLessThan(MAX_ITEM_BYTES)
    for (const part of parts) expect(part).toMatchObject({GSI4PK: s(tenant.namespace), GSI4SK: part.PK})

    await saved(provisioner, SMALL, 'sha256:2')
    expect(await storedParts(tenant)).toEqual([])
    const {lastApplied} = (await found(tenant)).record
    const whole = {...SMALL, namespace: tenant.namespace, lastApplied, appliedHash: 'sha256:2'}
    expect(await stored(tenant, headKey)).toEqual({...encodeProvisioner(whole), rev: {S: expect.any(String)}})
  })

  it('divides resources too, and the resources of one entity', async () => {
    const {tenant, provisioner} = scene()
    const resources = Array.from({length: 30}, (_, at) => `r-${String(at).padStart(20_000, '0')}`)
    const managed = {managesSystem: true, resources, entities: new Map([['u', resources]])}
    await saved(provisioner, managed)
    expect((await found(tenant)).parts?.count).toBeGreaterThan(2)
    expect(listOf((await found(tenant)).record)).toEqual(listOf(managed))
  })

  it('keeps its parts when only the hash changes', async () => {
    const {tenant, provisioner} = scene()
    await saved(provisioner, TWO)
    const before = await storedParts(tenant)
    tenant.transport.calls.length = 0
    const seen = await saved(provisioner, TWO, 'sha256:3')
    expect(tenant.transport.count('PutItem')).toBe(0)
    expect(await storedParts(tenant)).toEqual(before)
    expect(await found(tenant)).toMatchObject({parts: seen.parts, record: {appliedHash: 'sha256:3'}})
  })

  it.each([
    ['from one item to parts', SMALL, TWO],
    ['from parts to other parts', TWO, THREE],
    ['from parts to one item', THREE, SMALL],
  ])('is completely old or completely new, wherever a process dies on the way %s', async (_name, before, after) => {
    const run = scene()
    await saved(run.provisioner, before)
    run.tenant.transport.calls.length = 0
    await saved(run.provisioner, after)
    // Its own reads included.
    const steps = run.tenant.transport.calls.length
    expect(steps).toBeGreaterThan(4)
    const results = new Set<string>()
    for (let at = 1; at <= steps; at += extent === 'all' ? 1 : 3) {
      for (const isApplied of [true, false]) {
        const {tenant, provisioner} = scene({attempts: 1})
        await saved(provisioner, before)
        let calls = 0
        tenant.transport.before = operation => {
          calls++
          if (calls > at || (calls === at && !isApplied)) throw new Unavailable(operation, false)
        }
        tenant.transport.after = operation => {
          if (calls >= at) throw new Unavailable(operation, true)
        }
        await saved(provisioner, after).catch(() => {})
        tenant.transport.before = () => {}
        tenant.transport.after = () => {}

        const list = listOf((await found(tenant)).record)
        const isNew = list.length === listOf(after).length
        expect(list).toEqual(listOf(isNew ? after : before))
        results.add(isNew ? 'new' : 'old')

        // The next run that writes parts leaves nothing behind.
        const next = manyManaged(25, 'next')
        await saved(provisioner, next)
        expect(listOf((await found(tenant)).record)).toEqual(listOf(next))
        expect(await storedParts(tenant)).toHaveLength(2)
      }
    }
    expect([...results].sort()).toEqual(['new', 'old'])
  })

  it('is written by one of two processes that have read the same', async () => {
    for (const first of [SMALL, TWO]) {
      const {tenant, provisioner} = scene()
      await saved(provisioner, first)
      const others = [anotherOf(tenant), anotherOf(tenant)]
      const both = [THREE, manyManaged(28, 'third')]
      const seen = await Promise.all(others.map(other => other.provisioner.get()))
      const outcomes = await Promise.allSettled(
        others.map((other, at) => other.provisioner.save(both[at] as Managed, seen[at] as (typeof seen)[number])),
      )
      const winner = outcomes.findIndex(({status}) => status === 'fulfilled')
      expect(outcomes.map(({status}) => status).sort()).toEqual(['fulfilled', 'rejected'])
      expect(outcomes[1 - winner]).toMatchObject({reason: {code: 'manifest.changed'}})
      expect(listOf((await found(tenant)).record)).toEqual(listOf(both[winner] as Managed))
    }
  })

  it('keeps the unnamed parts of a running write when another one cleans up late', async () => {
    const {tenant} = scene()
    await saved(anotherOf(tenant).provisioner, TWO)
    // The first has named its parts, and lists obsolete ones only now.
    const first = anotherOf(tenant)
    const tidying = hold(first.tenant, operation => operation === 'Query')
    const firstSave = saved(first.provisioner, THREE)
    await tidying.reached
    await saved(anotherOf(tenant).provisioner, manyManaged(27, 'second'))
    // The third has written its parts and is about to name them.
    const third = anotherOf(tenant)
    const naming = hold(third.tenant, operation => operation === 'UpdateItem')
    const wanted = manyManaged(30, 'third')
    const thirdSave = saved(third.provisioner, wanted)
    await naming.reached
    tidying.release()
    await firstSave
    naming.release()
    await thirdSave
    expect(listOf((await found(tenant)).record)).toEqual(listOf(wanted))
    expect(await storedParts(tenant)).toHaveLength(2)
  })

  it('is read completely new when it is replaced between its first item and its parts', async () => {
    const {tenant} = scene()
    await saved(anotherOf(tenant).provisioner, TWO)
    const reader = anotherOf(tenant)
    const part = keys.provisionerPart(tenant.namespace, '', 0).SK.split('#').slice(0, 3).join('#')
    const reading = hold(reader.tenant, (_operation, input) => JSON.stringify(input).includes(part))
    const read = reader.provisioner.get()
    await reading.reached
    await saved(anotherOf(tenant).provisioner, THREE)
    reading.release()
    expect(listOf((await read).record)).toEqual(listOf(THREE))
  })

  it('is reported as damaged when a part is missing', async () => {
    const {tenant, provisioner} = scene()
    const {parts} = await saved(provisioner, THREE)
    const key = keys.provisionerPart(tenant.namespace, parts?.set ?? '', 1)
    await tenant.transport.send('DeleteItem', {TableName: tenant.name, Key: wireKey(key)})
    await expect(provisioner.get()).rejects.toMatchObject({code: 'manifest.record-damaged', kind: 'failed'})
  })

  it('refuses the write of an older zael, which reads no revision in a divided record', async () => {
    const {tenant, provisioner, headKey} = scene()
    await saved(provisioner, TWO, 'sha256:4')
    const head = (await stored(tenant, headKey)) as Item
    expect(head).toMatchObject({managed_system: {BOOL: false}, managed_entities: {M: {}}})
    await expect(olderWrite(tenant, head)).rejects.toMatchObject({name: 'ConditionFailed'})
    expect(await stored(tenant, headKey)).toEqual(head)
  })
})

/** Writes like versions before parts, which ignore a revision that is not text. */
function olderWrite(tenant: TestTenant, head: Item): Promise<unknown> {
  const rev = head.rev && 'S' in head.rev ? head.rev : undefined
  return tenant.transport.send('UpdateItem', {
    TableName: tenant.name,
    Key: wireKey(keys.provisioner(tenant.namespace)),
    UpdateExpression: 'SET managed_entities = :entities',
    ConditionExpression: `attribute_exists(PK) AND ${rev ? 'rev = :rev' : 'attribute_not_exists(rev)'} AND last_applied = :applied`,
    ExpressionAttributeValues: {
      ':entities': {M: {}},
      ':applied': head.last_applied ?? s(''),
      ...(rev && {':rev': rev}),
    },
  })
}
