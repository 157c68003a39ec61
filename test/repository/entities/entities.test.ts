import {describe, expect, it} from 'vitest'
import {TransactionConflict, Unavailable} from '../../../src/lib/dynamo/errors.js'
import {Entities} from '../../../src/lib/repository/entities/entities.js'
import {n, s} from '../../../src/lib/schema/attribute-value.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {entityConfigItem, entityItem, putAll, scanNamespace, usageItem} from '../namespace-items.js'
import {newAudit, newTenant, put, stored} from '../namespace-table.js'

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'no error',
    error => error.code,
  )

describeOnBoth('entities', {}, table => {
  const arranged = () => {
    const tenant = newTenant(table)
    const audit = newAudit(tenant)
    const changed: string[] = []
    const entities = new Entities(tenant, {audit, onChanged: entity => changed.push(entity)})
    const events = async (entity: string) => (await audit.list({entity})).records
    return {tenant, transport: tenant.transport, namespace: tenant.namespace, entities, events, changed}
  }

  describe('create', () => {
    it('writes the record as other clients do, with a version, and its event', async () => {
      const {tenant, namespace, entities, events, changed} = arranged()
      await entities.create({id: 'org'})
      const created = await entities.create({
        id: 'user-1',
        name: 'User One',
        parent: 'org',
        cascade: true,
        metadata: {tier: 'gold', seats: 3},
      })
      expect(created).toEqual({
        namespace,
        entity: 'user-1',
        name: 'User One',
        parent: 'org',
        cascade: true,
        metadata: {tier: 'gold', seats: 3},
        createdAt: '2027-01-15T08:00:00Z',
        version: 1,
        parentGeneration: {moves: tenant.nowMs, incarnation: expect.stringMatching(/^[0-9a-f]{16}$/)},
      })
      expect(await entities.get('user-1')).toEqual(created)
      expect(await entities.get('org')).toMatchObject({name: 'org', parent: undefined, cascade: false, metadata: {}})
      expect(await stored(tenant, keys.entity(namespace, 'user-1'))).toEqual({
        PK: s(`${namespace}/ENTITY#user-1`),
        SK: s('#META'),
        entity_id: s('user-1'),
        name: s('User One'),
        parent_id: s('org'),
        cascade: {BOOL: true},
        metadata: {M: {tier: s('gold'), seats: {N: '3'}}},
        created_at: s('2027-01-15T08:00:00Z'),
        version: {N: '1'},
        pgen: {N: String(tenant.nowMs)},
        pinc: s(created.parentGeneration?.incarnation ?? ''),
        GSI1PK: s(`${namespace}/PARENT#org`),
        GSI1SK: s('CHILD#user-1'),
        GSI4PK: s(namespace),
        GSI4SK: s(`${namespace}/ENTITY#user-1`),
      })
      expect(await events('user-1')).toMatchObject([
        {
          action: 'entity_created',
          principal: 'tester',
          details: {name: 'User One', parent_id: 'org', cascade: true, metadata: {tier: 'gold', seats: 3}},
        },
      ])
      expect(changed).toEqual(['org', 'user-1'])
    })

    it('lets one of ten callers create an entity, with one event', async () => {
      const {entities, events} = arranged()
      const outcomes = await Promise.all(Array.from({length: 10}, () => codeOf(entities.create({id: 'same'}))))
      expect(outcomes.filter(code => code === 'no error')).toHaveLength(1)
      expect(outcomes.filter(code => code === 'entity.exists')).toHaveLength(9)
      expect(await events('same')).toHaveLength(1)
    })

    it('S6 is one transaction, and succeeds after a lost response', async () => {
      const {transport, entities, events} = arranged()
      let losses = 1
      transport.after = operation => {
        if (operation === 'TransactWriteItems' && losses-- > 0) throw new Unavailable(operation, true)
      }
      await entities.create({id: 'lost'})
      expect(transport.calls).toEqual(['TransactWriteItems', 'TransactWriteItems', 'Query'])
      expect(await events('lost')).toHaveLength(1)
    })

    it('requires an existing parent, even when it is deleted at the last moment', async () => {
      const {tenant, transport, entities} = arranged()
      expect(await codeOf(entities.create({id: 'a', parent: 'unknown'}))).toBe('entity.parent-missing')
      await entities.create({id: 'fleeting'})
      transport.before = async operation => {
        if (operation !== 'TransactWriteItems') return
        transport.before = () => {}
        const {PK, SK} = keys.entity(tenant.namespace, 'fleeting')
        await table.transport.send('DeleteItem', {TableName: tenant.name, Key: {PK: s(PK), SK: s(SK)}})
      }
      expect(await codeOf(entities.create({id: 'a', parent: 'fleeting'}))).toBe('entity.parent-missing')
      expect(await entities.get('a')).toBeUndefined()
    })

    it('checks names before it reads anything', async () => {
      const {transport, entities} = arranged()
      expect(await codeOf(entities.create({id: 'a#b'}))).toBe('name.invalid')
      expect(await codeOf(entities.create({id: 'a', parent: ''}))).toBe('name.invalid')
      expect(await codeOf(entities.create({id: 'a', parent: 'a'}))).toBe('entity.self-parent')
      expect(transport.calls).toEqual([])
    })

    it('refuses a cycle through a parent that other clients stored', async () => {
      const {tenant, entities} = arranged()
      await put(tenant, entityItem(tenant.namespace, 'x', 'a'))
      await expect(entities.create({id: 'a', parent: 'x'})).rejects.toMatchObject({
        code: 'entity.cycle',
        kind: 'conflict',
        details: {path: ['a', 'x', 'a']},
      })
    })
  })

  describe('update', () => {
    it('changes the given fields, increments the version, keeps foreign attributes and records before and after', async () => {
      const {tenant, namespace, entities, events} = arranged()
      await entities.create({id: 'org'})
      await put(tenant, {...entityItem(namespace, 'e'), theirs: s('kept')})
      tenant.nowMs += 1000
      const moved = await entities.update('e', {parent: 'org', cascade: true})
      expect(moved).toMatchObject({name: 'e', parent: 'org', cascade: true, version: 1})
      expect(await entities.get('e')).toEqual(moved)
      expect(await stored(tenant, keys.entity(namespace, 'e'))).toMatchObject({
        theirs: s('kept'),
        GSI1PK: s(`${namespace}/PARENT#org`),
        GSI1SK: s('CHILD#e'),
      })
      expect((await entities.children('org')).map(({entity}) => entity)).toEqual(['e'])

      tenant.nowMs += 1000
      const freed = await entities.update('e', {parent: null, metadata: {a: [1, {b: null}]}, expectedVersion: 1})
      expect(freed).toMatchObject({parent: undefined, cascade: true, version: 2})
      const item = await stored(tenant, keys.entity(namespace, 'e'))
      expect(item).toMatchObject({theirs: s('kept'), parent_id: {NULL: true}})
      expect(item).not.toHaveProperty('GSI1PK')
      expect(item).not.toHaveProperty('GSI1SK')
      expect(await entities.children('org')).toEqual([])
      expect((await events('e')).map(({action, details}) => ({action, details}))).toEqual([
        {
          action: 'entity_updated',
          details: {
            before: {parent_id: 'org', metadata: {}},
            after: {parent_id: null, metadata: {a: [1, {b: null}]}},
            version: 2,
          },
        },
        {
          action: 'entity_updated',
          details: {before: {parent_id: null, cascade: false}, after: {parent_id: 'org', cascade: true}, version: 1},
        },
      ])
    })

    it('writes nothing when nothing changes', async () => {
      const {transport, entities, events, changed} = arranged()
      const created = await entities.create({id: 'e', metadata: {a: {b: 1}}})
      transport.calls.length = 0
      expect(await entities.update('e', {name: 'e', parent: null, metadata: {a: {b: 1}}})).toEqual(created)
      expect(transport.calls).toEqual(['GetItem', 'Query'])
      expect(await events('e')).toHaveLength(1)
      expect(changed).toEqual(['e', 'e'])
    })

    it('refuses another version than the expected one', async () => {
      const {entities, events} = arranged()
      await entities.create({id: 'e'})
      await entities.update('e', {name: 'second'})
      await expect(entities.update('e', {name: 'third', expectedVersion: 1})).rejects.toMatchObject({
        code: 'entity.version',
        kind: 'conflict',
        details: {expected: 1, version: 2},
      })
      const outcomes = await Promise.all(
        ['a', 'b', 'c', 'd'].map(name => codeOf(entities.update('e', {name, expectedVersion: 2}))),
      )
      expect(outcomes.sort()).toEqual(['entity.version', 'entity.version', 'entity.version', 'no error'])
      expect(await events('e')).toHaveLength(3)
      expect(await codeOf(entities.update('unknown', {name: 'x'}))).toBe('entity.missing')
    })

    it('loses none of several changes at once', async () => {
      const {entities} = arranged()
      await entities.create({id: 'p'})
      await entities.create({id: 'e'})
      await Promise.all([
        entities.update('e', {name: 'new'}),
        entities.update('e', {cascade: true}),
        entities.update('e', {parent: 'p'}),
        entities.update('e', {metadata: {x: 1}}),
      ])
      expect(await entities.get('e')).toMatchObject({
        name: 'new',
        cascade: true,
        parent: 'p',
        metadata: {x: 1},
        version: 5,
      })
    })

    it.each([
      ['another move', {parent: 'q'}, 'q', 3],
      ['a new name', {name: 'new'}, 'p', 2],
    ])('counts a move by a client that changes no version, before %s', async (_, change, parent, moves) => {
      const {tenant, transport, namespace, entities} = arranged()
      for (const id of ['p', 'q']) await entities.create({id})
      await put(tenant, {...entityItem(namespace, 'e'), pgen: n(1)})
      transport.before = async operation => {
        if (operation !== 'TransactWriteItems') return
        transport.before = () => {}
        await put(tenant, {...entityItem(namespace, 'e', 'p'), pgen: n(2)})
      }
      const after = await entities.update('e', change)
      expect(after).toMatchObject({parent, parentGeneration: {moves}})
      expect(await entities.get('e')).toEqual(after)
    })

    it('refuses cycles of any length, and those that two concurrent changes would create', async () => {
      const {tenant, transport, entities} = arranged()
      await entities.create({id: 'a'})
      await entities.create({id: 'b', parent: 'a'})
      await entities.create({id: 'c', parent: 'b'})
      await entities.create({id: 'd', parent: 'c'})
      await expect(entities.update('a', {parent: 'd'})).rejects.toMatchObject({
        code: 'entity.cycle',
        details: {path: ['a', 'd', 'c', 'b', 'a']},
      })
      expect(await codeOf(entities.update('a', {parent: 'a'}))).toBe('entity.self-parent')

      await entities.create({id: 'one'})
      await entities.create({id: 'two'})
      const others = new Entities({...tenant, transport: table.transport}, {audit: newAudit(tenant)})
      transport.before = async operation => {
        if (operation !== 'TransactWriteItems') return
        transport.before = () => {}
        await others.update('one', {parent: 'two'})
      }
      expect(await codeOf(entities.update('two', {parent: 'one'}))).toBe('entity.cycle')
      expect((await entities.parents('one')).map(({entity}) => entity)).toEqual(['two'])
    })

    it('refuses a parent among ancestors that already form a cycle, and more than 64 ancestors', async () => {
      const {tenant, namespace, entities} = arranged()
      await put(tenant, entityItem(namespace, 'x', 'y'), entityItem(namespace, 'y', 'x'))
      await entities.create({id: 'e'})
      await expect(entities.update('e', {parent: 'x'})).rejects.toMatchObject({
        code: 'entity.cycle',
        details: {path: ['x', 'y', 'x']},
      })
      expect((await entities.parents('x')).map(({entity}) => entity)).toEqual(['y'])
      const chain = Array.from({length: 66}, (_, i) =>
        entityItem(namespace, `l${i}`, i === 0 ? undefined : `l${i - 1}`),
      )
      await putAll(tenant, chain)
      expect(await codeOf(entities.update('e', {parent: 'l64'}))).toBe('entity.too-deep')
      expect(await codeOf(entities.update('e', {parent: 'l63'}))).toBe('no error')
      expect(await entities.parents('e')).toHaveLength(64)
    })

    it('retries after conflicts with other transactions', async () => {
      const {transport, entities} = arranged()
      await entities.create({id: 'e'})
      let conflicts = 3
      transport.before = operation => {
        if (operation === 'TransactWriteItems' && conflicts-- > 0) throw new TransactionConflict(operation)
      }
      expect((await entities.update('e', {name: 'x'})).version).toBe(2)
    })
  })

  describe('list', () => {
    it('pages over the entities alone, in order, with any page size', async () => {
      const {tenant, namespace, entities} = arranged()
      const ids = Array.from({length: 25}, (_, i) => `e${String(i).padStart(2, '0')}`)
      await putAll(tenant, [
        ...ids.map(id => entityItem(namespace, id)),
        ...ids.map(id => entityConfigItem(namespace, id, 'r')),
        ...ids.flatMap(id => [1, 2, 3].map(hour => usageItem(namespace, id, 'r', hour))),
        entityConfigItem(namespace, 'e05x-without-record', 'r'),
        entityItem(`${namespace}x`, 'foreign'),
      ])
      for (const limit of [1, 7, 25, 26, undefined]) {
        const found: string[] = []
        let cursor: string | undefined
        do {
          const page = await entities.list({limit, cursor})
          found.push(...page.records.map(({entity}) => entity))
          if (page.next !== undefined) expect(page.records).toHaveLength(limit as number)
          cursor = page.next
        } while (cursor !== undefined)
        expect(found).toEqual(ids)
      }
    })

    it('S11 refuses the cursor of another namespace', async () => {
      const first = arranged()
      const second = arranged()
      for (const {tenant, namespace} of [first, second]) {
        await putAll(
          tenant,
          ['a', 'b'].map(id => entityItem(namespace, id)),
        )
      }
      const {next} = await first.entities.list({limit: 1})
      await expect(second.entities.list({cursor: next})).rejects.toMatchObject({code: 'page.cursor', kind: 'usage'})
      expect((await first.entities.list({cursor: next})).records.map(({entity}) => entity)).toEqual(['b'])
    })
  })

  it('finds all children over several pages, and the parents of an entity', async () => {
    const {tenant, namespace, transport, entities} = arranged()
    await entities.create({id: 'root'})
    await entities.create({id: 'mid', parent: 'root'})
    const ids = Array.from({length: 40}, (_, i) => `c${String(i).padStart(2, '0')}`)
    await putAll(
      tenant,
      ids.map(id => entityItem(namespace, id, 'mid')),
    )
    transport.before = (operation, input) => {
      if (operation === 'Query') Object.assign(input as object, {Limit: 9})
    }
    expect((await entities.children('mid')).map(({entity}) => entity)).toEqual(ids)
    expect((await entities.parents('c00')).map(({entity}) => entity)).toEqual(['mid', 'root'])
    expect(await entities.parents('root')).toEqual([])
    expect(await codeOf(entities.parents('unknown'))).toBe('entity.missing')
    expect(await scanNamespace(tenant, namespace)).toHaveLength(44)
  })
})
