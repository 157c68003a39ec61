import {beforeEach, expect, it} from 'vitest'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {exportForm} from '../manifest/support.js'
import {type PeerScene, usePeers} from './peers.js'
import {describeWithPeers, limit} from './python-client.js'

const RESOURCE = {level: 'resource', resource: 'gpt'} as const
const PARENTS = ['org-1', 'org-2'] as const

describeWithPeers('cascade policies and moves of zae-limiter 0.17 and zael', () => {
  const peers = usePeers('0.17')
  let scene: PeerScene

  beforeEach(async () => {
    scene = await peers.currentScene()
    const {client} = scene
    await client.repository('set_resource_defaults', {resource: 'gpt', limits: [limit('rpm', 10_000)]})
    await client.repository('create_entity', {entity_id: 'org-1'})
    await scene.repository.entities.create({id: 'org-2'})
  })

  const create = (entity: string, by: 'python' | 'zael') =>
    by === 'python'
      ? scene.client.repository('create_entity', {entity_id: entity, parent_id: 'org-1', cascade: true})
      : scene.repository.entities.create({id: entity, parent: 'org-1', cascade: true})
  const consumed = async (entity: string, shards = 1) => (await scene.totals(entity, 'gpt', 'rpm', shards)).consumed
  const charged = (shards = 1) => Promise.all(PARENTS.map(parent => consumed(parent, shards)))
  const python = async (entity: string, times = 1) =>
    expect(await scene.client.acquire(entity, 'gpt', {rpm: 1}, {times})).toMatchObject({admitted: times})
  const zael = async (entity: string, times = 1) =>
    expect(await scene.ask(entity, 'gpt', {rpm: 1}, times)).toMatchObject({admitted: times})
  const generation = async (entity: string) => {
    type Entity = {parent_id: string; parent_generation: number; incarnation: string}
    return scene.client.repository<Entity>('get_entity', {entity_id: entity, consistent_read: true})
  }

  it('G7: apply to Python if zael sets a policy', async () => {
    const {client, repository} = scene
    await create('used', 'python')
    await create('new', 'zael')
    await python('used')
    await zael('used')
    expect(await charged()).toEqual([2, 0])
    expect((await repository.setCascade(RESOURCE, false)).buckets).toMatchObject({failed: 0})
    expect(await client.repository('get_resource_cascade', {resource: 'gpt'})).toBe(false)
    for (const entity of ['used', 'new']) {
      await python(entity, 3)
      await zael(entity, 3)
      await python(entity, 2)
    }
    expect(await charged()).toEqual([2, 0])
    await repository.setCascade({level: 'entity', entity: 'used', resource: '_default_'}, true)
    const entityWide = {entity_id: 'used', resource: '_default_'}
    expect(await client.repository('get_entity_cascade', entityWide)).toBe(true)
    await python('used', 2)
    await python('new', 2)
    await zael('used', 2)
    expect(await charged()).toEqual([6, 0])
    await repository.setCascade(RESOURCE, undefined)
    await python('new', 2)
    expect(await charged()).toEqual([8, 0])
    // Python keeps zael's values when it sets limits, and zael shows Python's.
    await client.repository('set_limits', {...entityWide, limits: [limit('rpm', 10_000)]})
    expect((await exportForm(repository, 'x')).entities).toMatchObject({
      used: {resources: {_default_: {cascade: true}}},
    })
    await client.repository('clear_entity_cascade', {entity_id: 'used'})
    expect(await repository.configs.get({level: 'entity', entity: 'used', resource: '_default_'})).not.toHaveProperty(
      'cascade',
    )
  })

  it.each(['python', 'zael'] as const)('follow moves of each other at once, for an entity of %s', async by => {
    const {client, repository} = scene
    await create('u', by)
    await using running = scene.limiter()
    const fromMemory = async () => (await running.acquire({entity: 'u', resource: 'gpt', consume: {rpm: 1}})).parent
    await python('u')
    expect(await fromMemory()).toBe('org-1')
    expect(await fromMemory()).toBe('org-1')
    for (const count of [1, 2]) await splitBucket(scene.tenant, 'u', 'gpt', count)
    const first = await generation('u')
    const lease = await running.acquire({entity: 'u', resource: 'gpt', consume: {rpm: 5}})

    expect(await client.repository('set_parent', {entity_id: 'u', parent_id: 'org-2'})).toBe(4)
    const second = await generation('u')
    expect(second).toMatchObject({parent_generation: first.parent_generation + 1, incarnation: first.incarnation})
    for (let at = 0; at < 3; at++) expect(await fromMemory()).toBe('org-2')
    await running.settled()
    await zael('u')
    expect(await charged()).toEqual([8, 4])
    // Charges from before the move are refunded to the old parent.
    await lease.rollback()
    expect(await charged()).toEqual([3, 4])

    const {buckets} = await repository.entities.change('u', {parent: 'org-1'})
    expect(buckets).toEqual({checked: 4, updated: 4, failed: 0})
    expect(await generation('u')).toMatchObject({parent_id: 'org-1', parent_generation: first.parent_generation + 2})
    await python('u', 6)
    expect(await charged()).toEqual([9, 4])
    await repository.entities.change('u', {parent: null})
    await python('u', 4)
    await zael('u', 2)
    expect(await charged()).toEqual([9, 4])
    expect(await consumed('u', 4)).toBe(19)
    for (const shard of [0, 1, 2, 3]) {
      const item = await scene.bucketItem('u', 'gpt', shard)
      expect(item).not.toHaveProperty('parent_id')
      expect(item).toMatchObject({cascade: {BOOL: false}, pgen: {N: String(first.parent_generation + 3)}})
    }
  })

  it('S10: charge parents for exactly the admissions of children while both move and ask', async () => {
    const {client, repository} = scene
    await create('mover', 'python')
    await create('switcher', 'zael')
    for (const entity of ['mover', 'switcher']) await zael(entity)
    await splitBucket(scene.tenant, 'mover', 'gpt', 1)
    await using one = scene.limiter()
    await using other = scene.limiter()
    let isOver = false
    let mine = 1
    const busy = [one, other].map(async limiter => {
      while (!isOver) {
        for (const entity of ['mover', 'switcher']) {
          const {parent} = await limiter.acquire({entity, resource: 'gpt', consume: {rpm: 1}})
          if (entity === 'switcher' && parent !== undefined) mine++
        }
      }
    })
    const asked = client.acquire('mover', 'gpt', {rpm: 1}, {times: 60, concurrency: 4})
    for (let at = 0; at < 3; at++) {
      await repository.entities.update('mover', {parent: 'org-2'})
      await repository.setCascade({level: 'entity', entity: 'switcher', resource: 'gpt'}, false)
      await client.repository('set_parent', {entity_id: 'mover', parent_id: 'org-1'})
      await client.repository('set_entity_cascade', {entity_id: 'switcher', resource: 'gpt', cascade: true})
    }
    expect(await asked).toMatchObject({admitted: 60, errors: 0})
    isOver = true
    await Promise.all(busy)
    for (const limiter of [one, other]) await limiter.settled()
    const [atFirst, atSecond] = (await charged()) as [number, number]
    expect(atFirst + atSecond).toBe((await consumed('mover', 2)) + mine)
    const {parent_generation} = await generation('mover')
    for (const shard of [0, 1])
      expect(await scene.bucketItem('mover', 'gpt', shard)).toMatchObject({
        ...{parent_id: {S: 'org-1'}, pgen: {N: String(parent_generation)}},
      })
  })
})
