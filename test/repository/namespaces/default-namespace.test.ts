import {expect, it} from 'vitest'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {newTenant} from '../namespace-table.js'

/** Once `default` was deleted, the next command registered it anew with another id, and all data was orphaned. */
describeOnEngine('C-5 the default namespace', () => {
  const table = useTable()

  it('cannot be deleted, by name or by id, nor purged', async () => {
    const namespaces = new Namespaces(newTenant(table))
    const {namespace} = await namespaces.register('default')
    for (const nameOrId of ['default', namespace.id]) {
      await expect(namespaces.delete(nameOrId)).rejects.toMatchObject({code: 'namespace.protected', kind: 'conflict'})
    }
    await expect(namespaces.purgeable('default')).rejects.toMatchObject({code: 'namespace.protected', kind: 'conflict'})
    await expect(namespaces.purge(namespace.id)).rejects.toMatchObject({code: 'namespace.state', kind: 'conflict'})
    expect(await namespaces.register('default')).toEqual({namespace, created: false})
  })

  it('stays, whatever command is used', async () => {
    const cli = tableCli(table)
    const {id} = await cli.tell('namespace show default')
    for (const command of ['delete default --yes', `delete ${id} --yes`, 'purge default --confirm default']) {
      expect(await cli.fail(`namespace ${command}`)).toMatchObject({code: 5})
    }
    expect(await cli.tell('namespace show default')).toMatchObject({id, status: 'active'})
  })
})
