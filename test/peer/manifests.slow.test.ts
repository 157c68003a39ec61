import {expect, it} from 'vitest'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {listOf, manyManaged} from '../repository/limits/support.js'
import {usePeers} from './peers.js'
import {describeWithPeers} from './python-client.js'

const SMALL = {managesSystem: false, resources: ['gone'], entities: new Map([['u', ['gpt-4']]])}
const MANIFEST = {namespace: 'any', resources: {'gpt-4': {limits: {rpm: {capacity: 10}}}}}

describeWithPeers.each(['0.10', '0.17'] as const)('the provisioner of zae-limiter %s', release => {
  const peers = usePeers(release)

  async function scene() {
    const {client, repository, table, namespace} = await peers.scene()
    const provision = (action: string, manifest: object = MANIFEST) =>
      peers.python.provision<{changes: object[]}>({
        ...{action, table_name: table.name, namespace_id: namespace, manifest},
      })
    const record = async (): Promise<Item | undefined> => {
      const Key = wireKey(keys.provisioner(namespace))
      return (await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})).Item
    }
    return {client, repository, provision, record}
  }

  it('reads and replaces the record of a manifest that zael applied', async () => {
    const {client, repository, provision} = await scene()
    await repository.provisioner.save(SMALL, await repository.provisioner.get(), 'sha256:1')
    expect(await client.repository('get_provisioner_state')).toMatchObject({
      ...{managed_resources: ['gone'], managed_entities: {u: ['gpt-4']}, applied_hash: 'sha256:1'},
    })
    await provision('apply')
    const {record} = await repository.provisioner.get()
    expect(listOf(record)).toEqual(['gpt-4'])
  })

  it("reads limits written as fields, but not zael's short form", async () => {
    const {provision} = await scene()
    const short = {namespace: 'any', resources: {'gpt-4': {limits: {rpm: '100/min'}}}}
    await expect(provision('plan', short)).rejects.toMatchObject({name: 'PythonError'})
    expect((await provision('plan')).changes).toHaveLength(1)
  })

  it('rejects a divided record before it changes anything, and accepts it when it is whole again', async () => {
    const {client, repository, provision, record} = await scene()
    await repository.provisioner.save(manyManaged(25), await repository.provisioner.get(), 'sha256:2')
    const before = await record()
    for (const action of ['plan', 'apply']) await expect(provision(action)).rejects.toMatchObject({type: 'KeyError'})
    await expect(client.repository('get_provisioner_state')).rejects.toMatchObject({type: 'KeyError'})
    expect(await record()).toEqual(before)
    expect(await repository.configs.resources()).toEqual([])
    expect(listOf((await repository.provisioner.get()).record)).toEqual(listOf(manyManaged(25)))

    await repository.provisioner.save(SMALL, await repository.provisioner.get(), 'sha256:3')
    expect((await provision('plan')).changes.length).toBeGreaterThan(0)
  })
})
