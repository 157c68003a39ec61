import {expect, it} from 'vitest'
import {readString} from '../../src/lib/schema/attribute-value.js'
import {encodeNamespaceById, encodeNamespaceByName} from '../../src/lib/schema/namespace-record.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {indexedItems, putAll, scanWhere, strayItems} from '../repository/namespace-items.js'
import {newTenant} from '../repository/namespace-table.js'
import {tableCli} from './table-cli.js'

/** A namespace with a chosen id, as another client has registered it. */
function registered(id: string, name: string, status: 'active' | 'deleted' = 'active') {
  const deletedAt = status === 'active' ? undefined : '2026-02-01T00:00:00Z'
  const record = {id, name, status, createdAt: '2026-01-01T00:00:00Z', deletedAt}
  return [encodeNamespaceById(record), ...(status === 'active' ? [encodeNamespaceByName(record)] : [])]
}

describeOnEngine('zael namespace', () => {
  const table = useTable()
  const shownTable = useTable()
  const cli = tableCli(table)
  const tenant = newTenant(table)
  const everything = () => scanWhere(tenant, () => true)

  it('create registers names once, and reports existing ones', async () => {
    const first = await cli.run('namespace create default acme acme')
    expect(first).toMatchObject({code: 0, stderr: ''})
    expect(first.stdout).toMatch(/^Created namespace "default" \(\S{11}\)\nCreated namespace "acme" \(\S{11}\)\n$/)
    const {namespaces} = await cli.tell('namespace create acme globex')
    expect(namespaces).toMatchObject([
      {name: 'acme', created: false, status: 'active', deletedAt: null},
      {name: 'globex', created: true},
    ])
    expect(first.stdout).toContain(namespaces[0].id)
  })

  it('create writes nothing if one of the names is invalid', async () => {
    const before = await everything()
    const {code, error} = await cli.fail(`namespace create fine 'not fine'`)
    expect({code, error}).toMatchObject({code: 2, error: {code: 'name.invalid'}})
    expect(error.message).toContain('"not fine"')
    expect(await cli.run('namespace create')).toMatchObject({code: 2, stdout: ''})
    expect(await everything()).toEqual(before)
  })

  it('list, show and orphans print text and JSON', async () => {
    const own = tableCli(shownTable)
    await putAll(newTenant(shownTable), [
      ...registered('id-default', 'default'),
      ...registered('id-acme', 'acme'),
      ...registered('id-globex', 'a-tenant-with-a-name-that-is-longer-than-most-and-does-not-fit-into-eighty-columns'),
      ...registered('id-gone', 'gone', 'deleted'),
      ...registered('id-gone-2', 'gone', 'deleted'),
      ...indexedItems('id-acme'),
    ])
    const [list, columns, orphans, counted, gone, csv, listed, orphaned, shown, shownCounts] = await Promise.all([
      own.show('namespace list', 80),
      own.show('namespace list --sort -id --columns id,name', 120),
      own.show('namespace orphans', 80),
      own.show('namespace show acme --count', 80),
      own.show('namespace show id-gone', 120),
      own.run('namespace list --output csv --no-header --columns name,status'),
      own.tell('namespace list'),
      own.tell('namespace orphans'),
      own.tell('namespace show acme'),
      own.tell('namespace show acme --count'),
    ])
    expect(list).toMatchInlineSnapshot(`
      "NAME                                    ID          CREATED               STATUS
      a-tenant-with-a-name-that-is-longer-t…  id-globex   2026-01-01T00:00:00Z  active
      acme                                    id-acme     2026-01-01T00:00:00Z  active
      default                                 id-default  2026-01-01T00:00:00Z  active
      "
    `)
    expect(columns).toMatchInlineSnapshot(`
      "ID          NAME
      id-globex   a-tenant-with-a-name-that-is-longer-than-most-and-does-not-fit-into-eighty-columns
      id-default  default
      id-acme     acme
      "
    `)
    expect(orphans).toMatchInlineSnapshot(`
      "NAME  ID         DELETED               STATUS
      gone  id-gone    2026-01-01T00:00:00Z  deleted
      gone  id-gone-2  2026-01-01T00:00:00Z  deleted
      "
    `)
    expect(counted).toMatchInlineSnapshot(`
      "Namespace "acme"
        id       id-acme
        status   active
        created  2026-01-01T00:00:00Z
        charges  the entity and its direct parent

      Items in the index of the namespace:
        entities                      31
        configurations of entities    50
        configurations of resources   16
        system configuration           1
        bucket shards                 60
        usage snapshots              100
        audit events                  40
        registries                     2
        total                        300
      "
    `)
    expect(gone).toMatchInlineSnapshot(`
      "Namespace "gone"
        id       id-gone
        status   deleted
        created  2026-01-01T00:00:00Z
        deleted  2026-01-01T00:00:00Z
        charges  the entity and its direct parent
      "
    `)
    expect(csv.stdout).toMatch(/^a-tenant.*,active\nacme,active\ndefault,active\n$/)
    expect(listed.namespaces.map(({id}: {id: string}) => id)).toEqual(['id-globex', 'id-acme', 'id-default'])
    expect(orphaned.namespaces).toMatchObject([
      {id: 'id-gone', name: 'gone', status: 'deleted', deletedAt: '2026-02-01T00:00:00Z'},
      {id: 'id-gone-2'},
    ])
    expect(shown).toMatchObject({id: 'id-acme', counts: null})
    expect(shownCounts.counts).toMatchObject({total: 300, buckets: 60, other: 0})
  })

  it('exits with 3 for a missing namespace, with the nearest name', async () => {
    expect(await cli.run('namespace show amce')).toEqual({
      code: 3,
      stdout: '',
      stderr: expect.stringMatching(
        /^Error: Namespace "amce" does not exist\.\nHint: Did you mean "acme"\? To create a new one: zael namespace create amce .*\n$/,
      ),
    })
    const verbs = ['delete', 'recover', 'purge']
    for (const {code, error} of await Promise.all(verbs.map(verb => cli.fail(`namespace ${verb} nowhere-near`)))) {
      expect({code, error}).toMatchObject({code: 3, error: {code: 'namespace.missing', details: {nearest: []}}})
      expect(error.hint).toContain('zael namespace orphans')
    }
    const mistyped = await cli.run('namespace list --columns nmae')
    expect(mistyped).toMatchObject({code: 2, stdout: ''})
    expect(mistyped.stderr).toContain('Did you mean "name"?')
    expect(await cli.fail('namespace orphans --sort age')).toMatchObject({code: 2, error: {code: 'list.column'}})
    expect(await cli.fail('namespace list --namespace acme')).toMatchObject({code: 2})
  })

  it('delete asks and says how to undo it; recover restores by name or id', async () => {
    const {id} = await cli.tell('namespace show globex')
    const before = await everything()
    expect(await cli.fail('namespace delete globex')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(await everything()).toEqual(before)
    const {code, stdout} = await cli.run('namespace delete globex --yes')
    expect(code).toBe(0)
    expect(stdout).toBe(
      [
        `Deleted namespace "globex" (${id}); its data is kept`,
        '  its clients get an error within a minute',
        `  to recover it:        zael namespace recover ${id}`,
        `  to delete the data:   zael namespace purge ${id}`,
        '',
      ].join('\n'),
    )
    expect(await cli.fail(`namespace delete ${id} --yes`)).toMatchObject({code: 5, error: {code: 'namespace.state'}})
    expect(await cli.tell('namespace recover globex')).toMatchObject({id, status: 'active', deletedAt: null})
    expect(await cli.fail('namespace recover globex')).toMatchObject({code: 5, error: {code: 'namespace.state'}})
    expect(await cli.tell('namespace delete globex --yes')).toMatchObject({id, status: 'deleted'})
    expect((await cli.run(`namespace recover ${id}`)).stdout).toBe(`Recovered namespace "globex" (${id})\n`)
  })

  it('recover and purge require the id if several deleted namespaces share a name', async () => {
    await putAll(tenant, [
      ...registered('twin-1', 'twin', 'deleted'),
      ...registered('twin-2', 'twin', 'deleted'),
      ...registered('twin-3', 'twin'),
    ])
    for (const command of ['recover twin', 'purge twin --confirm twin']) {
      const {code, error} = await cli.fail(`namespace ${command}`)
      expect({code, error}).toMatchObject({
        code: 5,
        error: {code: 'namespace.ambiguous', details: {active: 'twin-3', ids: ['twin-1', 'twin-2']}},
      })
    }
    expect(await cli.fail('namespace recover twin-1')).toMatchObject({code: 5, error: {code: 'namespace.name-taken'}})
    await cli.tell('namespace purge twin-1 --confirm twin')
    await cli.tell('namespace purge twin-2 --confirm twin')
  })

  it('purge requires the name, and counts the deleted items', async () => {
    const doomed = [...indexedItems('doomed-id'), ...strayItems('doomed-id')]
    await putAll(tenant, [...registered('doomed-id', 'doomed', 'deleted'), ...doomed])
    const before = await everything()
    expect(await cli.fail('namespace purge acme --confirm acme')).toMatchObject({
      code: 5,
      error: {
        code: 'namespace.state',
        hint: `Delete it first with \`zael namespace delete acme ${cli.flags.join(' ')}\`.`,
      },
    })
    expect(await cli.fail('namespace purge doomed')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(await cli.fail('namespace purge doomed-id --confirm doomed-id')).toMatchObject({
      code: 2,
      error: {code: 'confirm.name', details: {given: 'doomed-id', name: 'doomed'}},
    })
    expect(await cli.show('namespace purge doomed --dry-run', 80)).toMatchInlineSnapshot(`
      "Purging namespace "doomed" (doomed-id) would permanently delete:
        entities                      31
        configurations of entities    53
        configurations of resources   17
        system configuration           1
        bucket shards                 61
        usage snapshots              100
        audit events                  40
        registries                     2
        manifest record                1
        items of other kinds           1
        total                        307
      A purge reads the whole table once. Each deleted item costs one write in the
      table and one in each index that contains it.
      "
    `)
    const plan = await cli.tell('namespace purge doomed-id --dry-run')
    expect(plan).toMatchObject({dryRun: true, counts: {total: 307, registries: 2, provisioner: 1, other: 1}})
    expect(await everything()).toEqual(before)

    expect(await cli.show('namespace purge doomed --confirm doomed', 120)).toMatchInlineSnapshot(`
      "Purged namespace "doomed" (doomed-id). Deleted:
        entities                      31
        configurations of entities    53
        configurations of resources   17
        system configuration           1
        bucket shards                 61
        usage snapshots              100
        audit events                  40
        registries                     2
        manifest record                1
        items of other kinds           1
        total                        307
      "
    `)
    const gone = (PK: string) => PK.startsWith('doomed-id/')
    expect(await scanWhere(tenant, gone)).toEqual([])
    expect(await everything()).toEqual(
      before.filter(item => !gone(readString(item, 'PK') ?? '') && readString(item, 'SK') !== '#NSID#doomed-id'),
    )
    expect(await cli.fail('namespace show doomed-id')).toMatchObject({code: 3})
    await putAll(tenant, registered('empty-id', 'empty', 'deleted'))
    expect(await cli.tell('namespace purge empty --confirm empty')).toMatchObject({dryRun: false, counts: {total: 0}})
  })
})
