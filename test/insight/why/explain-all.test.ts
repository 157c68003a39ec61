import {expect, it} from 'vitest'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import {blockOf, explainAll} from '../../../src/lib/insight/why/explain.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'

describeOnBoth('explanations of all resources of an entity', {}, table => {
  const ask = (scene: Scene, entity: string) =>
    explainAll(new NamespaceRepository(scene.tenant, undefined), entity, () => scene.nowMs)

  it('list refused resources first, then by the lowest balance', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'system'}, 'rpm=100/day')
    await scene.configure({level: 'entity', entity: 'user-1', resource: 'unused'}, 'rpm=5/day')
    await scene.configure({level: 'entity', entity: 'user-1', resource: DEFAULT_RESOURCE}, 'rpm=10/day')
    const limiter = scene.limiter()
    for (const [resource, rpm] of Object.entries({full: 1, empty: 10, half: 5})) {
      await limiter.acquire({entity: 'user-1', resource, consume: {rpm}})
    }
    await limiter.acquire({entity: 'other', resource: 'not-mine', consume: {rpm: 1}})
    await limiter.close()
    const explanations = await ask(scene, 'user-1')
    expect(explanations.map(({resource, admitted}) => [resource, admitted])).toEqual([
      ['empty', false],
      ['half', true],
      ['full', true],
      ['unused', true],
    ])
  })

  it('find a block of every resource, also without buckets and of a charged parent', async () => {
    const scene = new Scene(table)
    const namespace = new NamespaceRepository(scene.tenant, 'ada')
    await namespace.entities.create({id: 'org'})
    await namespace.entities.create({id: 'zoe', parent: 'org', cascade: true})
    expect(await blockOf(namespace, 'zoe')).toBeUndefined()
    const block = async (entity: string) => {
      const scope = {level: 'entity', entity, resource: DEFAULT_RESOURCE} as const
      await namespace.setAccess(scope, 'disabled', {reason: 'leaked'})
      expect(await blockOf(namespace, 'zoe')).toMatchObject({entity, scope, reason: 'leaked', set: {by: 'ada'}})
    }
    await block('org')
    await block('zoe')
    expect(await ask(scene, 'zoe')).toEqual([])
  })

  it('omit a resource without limits, and fail for a missing entity', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'limited'}, 'rpm=100/day')
    const limiter = scene.limiter()
    await limiter.acquire({entity: 'user-1', resource: 'limited', consume: {rpm: 1}})
    await limiter.close()
    const namespace = new NamespaceRepository(scene.tenant, undefined)
    await namespace.configs.delete({level: 'resource', resource: 'limited'})
    expect(await ask(scene, 'user-1')).toEqual([])
    await expect(ask(scene, 'stranger')).rejects.toMatchObject({kind: 'notFound', code: 'entity.missing'})
  })
})
