import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {entityOverview} from '../../../src/lib/insight/lookup/entity-overview.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, putBucket} from '../../repository/namespace-table.js'

describeOnBoth('an overview of an entity', {}, table => {
  function arranged() {
    const tenant = newTenant(table)
    const namespace = new NamespaceRepository(tenant, undefined)
    const look = (id: string) => entityOverview(namespace, id, tenant.nowMs)
    return {tenant, namespace, look}
  }

  it('agrees with the resolution of every resource, at every level', async () => {
    const {namespace, look} = arranged()
    await namespace.configs.set({level: 'system'}, parseLimits(['rpm=1']))
    await namespace.configs.set({level: 'resource', resource: 'a'}, parseLimits(['rpm=2']))
    await namespace.configs.set({level: 'resource', resource: 'b'}, parseLimits(['rpm=3']))
    await namespace.configs.set({level: 'entity', entity: 'own', resource: 'a'}, parseLimits(['rpm=4', 'tpm=5']))
    await namespace.configs.set({level: 'entity', entity: 'all', resource: '_default_'}, parseLimits(['rpm=6']))
    const sources: Record<string, unknown> = {}
    for (const entity of ['own', 'all', 'none']) {
      if (entity === 'none') await namespace.entities.create({id: 'none'})
      const {resources} = await look(entity)
      expect(resources.map(({resource}) => resource)).toEqual(['a', 'b', undefined])
      for (const {resource, source, limits} of resources.slice(0, 2)) {
        const resolved = await namespace.configs.resolve({entity, resource: resource as string})
        expect({source, limits}).toEqual({
          source: resolved.source,
          limits: resolved.limits.map(limit => ({...limit, capacityNow: limit.capacity, available: undefined})),
        })
      }
      sources[entity] = resources.map(({source}) => source)
    }
    expect(sources).toEqual({
      own: ['entity', 'resource', 'system'],
      all: ['entity_default', 'entity_default', 'entity_default'],
      none: ['resource', 'resource', 'system'],
    })
  })

  it('shows the slots of an in-flight limit as its capacity, and no level', async () => {
    const {tenant, namespace, look} = arranged()
    const limits = parseLimits(['parallel=20/inflight', 'rpm=60/min'])
    await namespace.configs.set({level: 'resource', resource: 'r'}, limits)
    await putBucket(tenant, {entity: 'e', resource: 'r', limits: parseLimits(['rpm=60/min'])})
    const {resources} = await look('e')
    expect(resources[0]?.limits).toMatchObject([
      {name: 'parallel', inFlight: true, capacityNow: 20, available: undefined},
      {name: 'rpm', capacityNow: 60, available: 60},
    ])
  })

  it('shows current levels over all shards, under the current limits, without a write', async () => {
    const {tenant, namespace, look} = arranged()
    const limits = parseLimits(['rpm=60/min:100', 'tpm=1000/min'])
    await namespace.configs.set({level: 'resource', resource: 'r'}, limits)
    await putBucket(tenant, {entity: 'e', resource: 'r', limits, shardCount: 2, consumed: 40})
    const levels = async () => {
      const {resources} = await look('e')
      return resources.flatMap(each => each.limits.map(({name, available}) => [name, available, each.shards]))
    }
    const [rpm, tpm] = [
      ['rpm', 20, 2],
      ['tpm', 920, 2],
    ]
    expect(await levels()).toEqual([rpm, tpm])
    tenant.nowMs += 10_000
    expect((await levels())[0]).toEqual(['rpm', 30, 2])
    // Not known to the bucket yet: it takes the limits over with its next request.
    await namespace.configs.set({level: 'resource', resource: 'r'}, parseLimits(['rpm=5/min']))
    const written = tenant.transport.calls.length
    expect((await levels())[0]).toEqual(['rpm', 5, 2])
    const calls = new Set(tenant.transport.calls.slice(written))
    expect([...calls].sort()).toEqual(['BatchGetItem', 'GetItem', 'Query'])
  })

  it('shows a debt, no level for an unused resource, and an entity that has only a bucket', async () => {
    const {tenant, look} = arranged()
    await putBucket(tenant, {entity: 'e', resource: 'r', limits: parseLimits(['rpm=10/day']), consumed: 14})
    expect(await look('e')).toEqual({
      id: 'e',
      record: undefined,
      parents: [],
      levels: 'parent',
      resources: [
        {resource: 'r', source: undefined, limits: [], shards: 1},
        {resource: undefined, source: undefined, limits: [], shards: 0},
      ],
    })
    const {namespace, tenant: other, look: lookThere} = arranged()
    await namespace.configs.set({level: 'system'}, parseLimits(['rpm=10/day']))
    await putBucket(other, {entity: 'e', resource: 'r', limits: parseLimits(['rpm=10/day']), consumed: 14})
    const [used, unused] = (await lookThere('e')).resources
    expect([used?.limits[0]?.available, unused?.limits[0]?.available]).toEqual([-4, undefined])
  })

  it('lists parents from the nearest upwards, and rejects an unknown entity', async () => {
    const {namespace, look} = arranged()
    await namespace.entities.create({id: 'org'})
    await namespace.entities.create({id: 'team', parent: 'org'})
    await namespace.entities.create({id: 'user', parent: 'team', cascade: true})
    const {record, parents} = await look('user')
    expect(record).toMatchObject({entity: 'user', cascade: true})
    expect(parents.map(({entity}) => entity)).toEqual(['team', 'org'])
    await expect(look('unknown')).rejects.toMatchObject({code: 'entity.missing', kind: 'notFound'})
  })

  it('shows the capacity of a temporary raise while it applies', async () => {
    const {tenant, namespace, look} = arranged()
    const scope = {level: 'entity', entity: 'e', resource: 'r'} as const
    await namespace.setLimits(scope, parseLimits(['rpm=900/min']))
    const untilMs = tenant.nowMs + 3_600_000
    const boosted = parseLimits(['rpm=2000/min'])
    await namespace.setLimits(scope, boosted, {until: new Date(untilMs)})
    const seen = async () => {
      const {resources} = await look('e')
      return resources.flatMap(({limits}) => limits.map(({capacity, capacityNow}) => ({capacity, capacityNow})))
    }
    expect(await seen()).toEqual([{capacity: 900, capacityNow: 2000}])
    tenant.nowMs = untilMs + 1
    expect(await seen()).toEqual([{capacity: 900, capacityNow: 900}])
  })

  it('names the switch that decides, also of a parent that is charged', async () => {
    const {namespace, look} = arranged()
    await namespace.configs.set({level: 'resource', resource: 'r'}, parseLimits(['rpm=60']))
    await namespace.entities.create({id: 'team'})
    await namespace.entities.create({id: 'key', parent: 'team', cascade: true})
    const access = async () => (await look('key')).resources.map(each => each.access)
    expect(await access()).toEqual([undefined, undefined])
    const team = {level: 'entity', entity: 'team', resource: '_default_'} as const
    await namespace.setAccess(team, 'disabled')
    expect(await access()).toMatchObject([
      {access: 'disabled', scope: team},
      {access: 'disabled', scope: team},
    ])
    const key = {level: 'entity', entity: 'key', resource: 'r'} as const
    await namespace.setAccess(key, 'disabled')
    expect((await access())[0]).toMatchObject({access: 'disabled', scope: key, set: {at: expect.stringMatching(/Z$/)}})
    await namespace.entities.update('key', {cascade: false})
    expect(await access()).toMatchObject([{access: 'disabled', scope: key}, undefined])
  })
})
