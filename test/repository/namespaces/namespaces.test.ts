import {describe, expect, it} from 'vitest'
import {Throttled, Unavailable} from '../../../src/lib/dynamo/errors.js'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {encodeNamespaceById} from '../../../src/lib/schema/namespace-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {scanWhere} from '../namespace-items.js'
import {newTenant, put, stored} from '../namespace-table.js'

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'no error',
    error => error.code,
  )

describeOnBoth('namespaces', {}, table => {
  const arranged = () => {
    const tenant = newTenant(table)
    return {tenant, transport: tenant.transport, namespaces: new Namespaces(tenant)}
  }

  describe('register', () => {
    it('gives the name an id of eleven characters, and writes both records as other clients do', async () => {
      const {tenant, namespaces} = arranged()
      const {namespace, created} = await namespaces.register('team-a')
      expect(created).toBe(true)
      expect(namespace).toMatchObject({name: 'team-a', status: 'active', halfDeleted: false})
      expect(namespace.id).toMatch(/^[A-Za-z0-9_][A-Za-z0-9_-]{10}$/)
      const shared = {
        namespace_id: s(namespace.id),
        namespace_name: s('team-a'),
        status: s('active'),
        created_at: s('2027-01-15T08:00:00Z'),
        GSI4PK: s('_'),
        GSI4SK: s('_/SYSTEM#'),
      }
      expect(await stored(tenant, keys.namespaceByName('team-a'))).toEqual({
        PK: s('_/SYSTEM#'),
        SK: s('#NAMESPACE#team-a'),
        ...shared,
      })
      expect(await stored(tenant, keys.namespaceById(namespace.id))).toEqual({
        PK: s('_/SYSTEM#'),
        SK: s(`#NSID#${namespace.id}`),
        ...shared,
      })
    })

    it('gives twenty concurrent callers one id', async () => {
      const {tenant, namespaces} = arranged()
      const answers = await Promise.all(Array.from({length: 20}, () => namespaces.register('crowd')))
      expect(new Set(answers.map(({namespace}) => namespace.id)).size).toBe(1)
      expect(answers.filter(({created}) => created)).toHaveLength(1)
      const records = await scanWhere(tenant, PK => PK === '_/SYSTEM#')
      expect(records.filter(({namespace_name}) => JSON.stringify(namespace_name).includes('crowd'))).toHaveLength(2)
    })

    it('is one request, and a lost response does not create a second id', async () => {
      const {transport, namespaces} = arranged()
      let losses = 1
      transport.after = operation => {
        if (operation === 'TransactWriteItems' && losses-- > 0) throw new Unavailable(operation, true)
      }
      const {namespace, created} = await namespaces.register('lost-answer')
      expect(transport.calls).toEqual(['TransactWriteItems', 'TransactWriteItems'])
      expect(created).toBe(true)
      expect((await namespaces.resolve('lost-answer'))?.id).toBe(namespace.id)
    })

    it('draws again while the id starts with a dash', async () => {
      const {tenant} = arranged()
      const draws = [0xf8, 0xfb, 0x04]
      const randomBytes = (count: number) => new Uint8Array(count).fill(count === 8 ? (draws.shift() ?? 0) : 7)
      const {namespace} = await new Namespaces({...tenant, randomBytes}).register('dashing')
      expect(namespace.id).toBe('BAQEBAQEBAQ')
    })

    it('draws again when the id belongs to another name', async () => {
      const {tenant} = arranged()
      const draws = [0x11, 0x11, 0x22]
      let token = 0
      const randomBytes = (count: number) => new Uint8Array(count).fill(count === 8 ? (draws.shift() ?? 0) : ++token)
      const namespaces = new Namespaces({...tenant, randomBytes})
      const first = await namespaces.register('id-owner')
      const second = await namespaces.register('id-seeker')
      expect(second.created).toBe(true)
      expect(second.namespace.id).not.toBe(first.namespace.id)
      expect((await namespaces.show(first.namespace.id)).name).toBe('id-owner')
    })

    it('registers many in the order asked, and none when one name is not valid', async () => {
      const {namespaces, transport} = arranged()
      const names = ['many-1', 'many-2', 'many-3', 'many-1', 'many-4', 'many-5']
      const answers = await namespaces.registerMany(names)
      expect(answers.map(({namespace}) => namespace.name)).toEqual(names)
      expect(answers[0]?.namespace.id).toBe(answers[3]?.namespace.id)
      transport.calls.length = 0
      expect(await codeOf(namespaces.registerMany(['fine', 'not fine']))).toBe('name.invalid')
      expect(await codeOf(namespaces.register('_'))).toBe('name.invalid')
      expect(transport.calls).toEqual([])
    })
  })

  describe('reading', () => {
    it('resolves names, shows names and ids, and fails for missing ones', async () => {
      const {namespaces} = arranged()
      const {namespace} = await namespaces.register('visible')
      expect(await namespaces.resolve('visible')).toEqual(namespace)
      expect(await namespaces.resolve('invisible')).toBeUndefined()
      expect(await namespaces.show('visible')).toEqual(namespace)
      expect(await namespaces.show(namespace.id)).toEqual(namespace)
      await expect(namespaces.show('invisible')).rejects.toMatchObject({
        code: 'namespace.missing',
        kind: 'notFound',
        hint: 'Check the spelling, or register it.',
      })
    })

    it('lists all names over several pages, by name', async () => {
      const {namespaces, transport} = arranged()
      await namespaces.registerMany(Array.from({length: 30}, (_, i) => `page-${String(i).padStart(2, '0')}`))
      transport.before = (operation, input) => {
        if (operation === 'Query') Object.assign(input as object, {Limit: 7})
      }
      const names = (await namespaces.list()).map(({name}) => name)
      expect(transport.count('Query')).toBeGreaterThan(4)
      expect(names.filter(name => name.startsWith('page-'))).toHaveLength(30)
      expect(names).toEqual([...names].sort())
    })
  })

  describe('delete and recover', () => {
    it('frees the name, keeps the id, and restores the name, each in one transaction', async () => {
      const {tenant, transport, namespaces} = arranged()
      const {namespace} = await namespaces.register('phoenix')
      transport.calls.length = 0
      const deleted = await namespaces.delete('phoenix')
      expect(deleted).toEqual({...namespace, status: 'deleted', deletedAt: '2027-01-15T08:00:00Z'})
      expect(transport.calls).toEqual(['GetItem', 'TransactWriteItems'])
      expect(await namespaces.resolve('phoenix')).toBeUndefined()
      expect(await namespaces.show(namespace.id)).toEqual(deleted)
      expect((await namespaces.orphans()).find(({id}) => id === namespace.id)).toEqual(deleted)

      tenant.nowMs += 5_000
      transport.calls.length = 0
      expect(await namespaces.recover(namespace.id)).toEqual(namespace)
      expect(transport.calls).toEqual(['GetItem', 'TransactWriteItems'])
      expect(await namespaces.show('phoenix')).toEqual(namespace)
      expect((await stored(tenant, keys.namespaceById(namespace.id)))?.deleted_at).toBeUndefined()
      expect((await namespaces.orphans()).some(({id}) => id === namespace.id)).toBe(false)
    })

    it('retries after throttling, and counts once after a lost response', async () => {
      const {transport, namespaces} = arranged()
      const {namespace} = await namespaces.register('bumpy')
      let throttled = 2
      let lost = 1
      transport.before = operation => {
        if (operation === 'TransactWriteItems' && throttled-- > 0) throw new Throttled(operation)
      }
      transport.after = operation => {
        if (operation === 'TransactWriteItems' && lost-- > 0) throw new Unavailable(operation, true)
      }
      expect((await namespaces.delete('bumpy')).status).toBe('deleted')
      expect((await namespaces.show(namespace.id)).status).toBe('deleted')
    })

    it('gives the name a new id when it is registered again, and then refuses to recover the old one', async () => {
      const {namespaces} = arranged()
      const old = (await namespaces.register('reborn')).namespace
      await namespaces.delete('reborn')
      const {namespace: heir} = await namespaces.register('reborn')
      expect(heir.id).not.toBe(old.id)
      await expect(namespaces.recover(old.id)).rejects.toMatchObject({
        code: 'namespace.name-taken',
        kind: 'conflict',
        details: {takenBy: heir.id},
      })
      expect((await namespaces.show(old.id)).status).toBe('deleted')
      expect(await namespaces.resolve('reborn')).toEqual(heir)
    })

    it('refuses with the reason', async () => {
      const {namespaces} = arranged()
      const {namespace} = await namespaces.register('stubborn')
      expect(await codeOf(namespaces.recover(namespace.id))).toBe('namespace.state')
      expect(await codeOf(namespaces.recover('AAAAAAAAAAA'))).toBe('namespace.missing')
      expect(await codeOf(namespaces.delete('unknown'))).toBe('namespace.missing')
      await namespaces.delete('stubborn')
      expect(await codeOf(namespaces.delete('stubborn'))).toBe('namespace.missing')
      expect(await codeOf(namespaces.delete(namespace.id))).toBe('namespace.state')
    })

    it('lets one of several callers win', async () => {
      const {namespaces} = arranged()
      const {namespace} = await namespaces.register('contested')
      const deletions = await Promise.all(Array.from({length: 6}, () => codeOf(namespaces.delete('contested'))))
      expect(deletions.filter(code => code === 'no error')).toHaveLength(1)
      const recoveries = await Promise.all(Array.from({length: 6}, () => codeOf(namespaces.recover(namespace.id))))
      expect(recoveries.filter(code => code === 'no error')).toHaveLength(1)
      expect(await namespaces.show('contested')).toEqual(namespace)
    })

    it.each(['properly', 'half'])(
      'does not delete a namespace that took over the name after the lookup, the old one being %s deleted',
      async how => {
        const {tenant, transport, namespaces} = arranged()
        const name = `swapped-${how}`
        const {namespace: old} = await namespaces.register(name)
        const others = new Namespaces({...tenant, transport: table.transport})
        transport.before = async operation => {
          if (operation !== 'TransactWriteItems') return
          transport.before = () => {}
          const {PK, SK} = keys.namespaceByName(name)
          if (how === 'properly') await others.delete(name)
          else await table.transport.send('DeleteItem', {TableName: tenant.name, Key: {PK: s(PK), SK: s(SK)}})
          await others.register(name)
        }
        expect(await codeOf(namespaces.delete(name))).toBe('namespace.changed')
        const heir = await namespaces.resolve(name)
        expect(heir?.status).toBe('active')
        expect(heir?.id).not.toBe(old.id)
      },
    )
  })

  describe('a namespace that another client has half deleted', () => {
    const halfDeleted = async (name: string) => {
      const arrangement = arranged()
      const id = `half-${name}`
      const record = {id, name, status: 'active', createdAt: '2026-01-01T00:00:00Z', deletedAt: undefined} as const
      await put(arrangement.tenant, encodeNamespaceById(record))
      return {...arrangement, id, record: {...record, halfDeleted: true}}
    }

    it('is shown as such, also when its name belongs to another one now', async () => {
      const {namespaces, id, record} = await halfDeleted('h1')
      expect(await namespaces.show(id)).toEqual(record)
      expect(await namespaces.orphans()).toContainEqual(record)
      const {namespace: heir} = await namespaces.register('h1')
      expect(await namespaces.show(id)).toEqual(record)
      expect((await namespaces.orphans()).filter(({name}) => name === 'h1')).toEqual([record])
      expect(await codeOf(namespaces.recover(id))).toBe('namespace.name-taken')
      expect((await namespaces.delete(id)).status).toBe('deleted')
      expect(await namespaces.resolve('h1')).toEqual(heir)
    })

    it('can be recovered', async () => {
      const {namespaces, id} = await halfDeleted('h2')
      expect(await namespaces.recover(id)).toMatchObject({status: 'active', halfDeleted: false})
      expect((await namespaces.resolve('h2'))?.id).toBe(id)
    })

    it('can be deleted, even when it was a default', async () => {
      const {namespaces, id} = await halfDeleted('default')
      expect((await namespaces.delete(id)).status).toBe('deleted')
    })

    it.each(['delete', 'purge'] as const)('survives a %s when it is recovered first', async action => {
      const {tenant, transport, namespaces, id} = await halfDeleted(`h-${action}`)
      transport.before = async operation => {
        if (operation !== 'TransactWriteItems') return
        transport.before = () => {}
        await new Namespaces({...tenant, transport: table.transport}).recover(id)
      }
      expect(await codeOf(namespaces[action](id))).toBe('namespace.changed')
      expect(await namespaces.resolve(`h-${action}`)).toMatchObject({id, status: 'active'})
    })

    it('can be purged', async () => {
      const {namespaces, id} = await halfDeleted('h4')
      expect(await namespaces.purge(id)).toEqual({deleted: 0, byKind: {}})
      expect(await codeOf(namespaces.show(id))).toBe('namespace.missing')
    })
  })
})
