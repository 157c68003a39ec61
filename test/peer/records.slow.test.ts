import {expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {ensureVersion} from '../../src/lib/repository/table/version.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {usePeers} from './peers.js'
import {describeWithPeers, limit} from './python-client.js'

const RPM_10 = {name: 'rpm', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60}

describeWithPeers.each(['0.10', '0.17'] as const)('records of zae-limiter %s and of zael', release => {
  const peers = usePeers(release)

  it('read the entity, parent and metadata that the other one wrote', async () => {
    const {client, repository} = await peers.scene()
    await client.repository('create_entity', {entity_id: 'org', name: 'The org'})
    const child = {entity_id: 'key', parent_id: 'org', cascade: true, metadata: {tier: 'gold'}}
    await client.repository('create_entity', child)
    expect(await repository.entities.get('key')).toMatchObject({
      ...{entity: 'key', name: 'key', parent: 'org', cascade: true, metadata: {tier: 'gold'}},
    })
    expect((await repository.entities.children('org')).map(({entity}) => entity)).toEqual(['key'])

    await repository.entities.create({id: 'ours', name: 'Ours', parent: 'org', cascade: true, metadata: {a: 'b'}})
    expect(await client.repository('get_entity', {entity_id: 'ours'})).toMatchObject({
      ...{id: 'ours', name: 'Ours', parent_id: 'org', cascade: true, metadata: {a: 'b'}},
    })
    const children = await client.repository<{id: string}[]>('get_children', {parent_id: 'org'})
    expect(children.map(({id}) => id).sort()).toEqual(['key', 'ours'])
  })

  it('keep attributes that only zael knows, on every path of the Python client', async () => {
    const {client, table, namespace, ...scene} = await peers.scene()
    await client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits: [limit('rpm', 10)]})
    expect(await client.acquire('u', 'gpt', {rpm: 1})).toMatchObject({admitted: 1})
    const ours = {b_rpm_hp: n(1), rfr: s('1|rpm:1/60000'), rq: n(7), lr: s('a'), bi: s('b'), wn_3: s('c')}
    const added: Item = {...ours, x_rpm: n(2), xt_rpm: n(3), xp: n(4), xb: n(1), xl: n(5), mg: s('{}')}
    await table.transport.send('UpdateItem', {
      TableName: table.name,
      Key: wireKey(keys.bucket(namespace, 'u', 'gpt', 0)),
      UpdateExpression: `SET ${Object.keys(added).map(name => `${name} = :${name}`)}`,
      ExpressionAttributeValues: Object.fromEntries(Object.entries(added).map(([name, value]) => [`:${name}`, value])),
    })
    // Taken at once, settled, refunded, refused, refilled, and with other limits.
    await client.acquire('u', 'gpt', {rpm: 2}, {adjust: {rpm: 1}})
    await client.acquire('u', 'gpt', {rpm: 2}, {rollBack: true})
    expect(await client.acquire('u', 'gpt', {rpm: 10})).toMatchObject({refused: 1})
    await client.process.setClock(scene.nowMs + 30_000)
    expect(await client.acquire('u', 'gpt', {rpm: 9})).toMatchObject({admitted: 1})
    await client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits: [limit('rpm', 20)]})
    await client.acquire('u', 'gpt', {rpm: 1})
    const Key = wireKey(keys.bucket(namespace, 'u', 'gpt', 0))
    const {Item: after} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
    expect(after).toMatchObject({...added, b_rpm_cp: n(20_000)})
  })

  it('read the limits of all four levels that the other one set', async () => {
    const {client, repository} = await peers.scene()
    const [own, fallback] = [
      {level: 'entity', entity: 'u', resource: 'gpt'},
      {level: 'entity', entity: 'u', resource: '_default_'},
    ] as const
    await client.repository('set_system_defaults', {limits: [limit('rpm', 10)], on_unavailable: 'allow'})
    await client.repository('set_resource_defaults', {resource: 'gpt', limits: [limit('rpm', 10), limit('tpm', 500)]})
    await client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits: [limit('rpm', 10)]})
    await client.repository('set_limits', {entity_id: 'u', limits: [limit('rpd', 5000, 86_400)]})
    expect(await repository.configs.get({level: 'system'})).toMatchObject({limits: [RPM_10], onUnavailable: 'allow'})
    expect((await repository.configs.get({level: 'resource', resource: 'gpt'}))?.limits.map(l => l.name)).toEqual([
      'rpm',
      'tpm',
    ])
    expect((await repository.configs.get(own))?.limits).toEqual([RPM_10])
    expect((await repository.configs.get(fallback))?.limits).toMatchObject([{name: 'rpd', refillPeriodSeconds: 86_400}])
    expect(await repository.configs.resourcesOfEntities()).toEqual(['_default_', 'gpt'])

    for (const scope of [{level: 'system'}, {level: 'resource', resource: 'o1'}] as const)
      await repository.setLimits(scope, parseLimits(['rpm=20/min']))
    for (const resource of ['o1', '_default_'])
      await repository.setLimits({level: 'entity', entity: 'v', resource}, parseLimits(['rpm=30/min']))
    const [stored, onUnavailable] = await client.repository<[object[], string]>('get_system_defaults')
    expect([stored, onUnavailable]).toMatchObject([[{name: 'rpm', capacity: 20, refill_period_seconds: 60}], 'allow'])
    const ofResource = await client.repository<object[]>('get_resource_defaults', {resource: 'o1'})
    expect(ofResource).toMatchObject([{name: 'rpm', capacity: 20, refill_amount: 20}])
    for (const resource of ['o1', '_default_']) {
      const limits = await client.repository<object[]>('get_limits', {entity_id: 'v', resource})
      expect(limits).toMatchObject([{name: 'rpm', capacity: 30, refill_amount: 30, refill_period_seconds: 60}])
    }
    expect((await client.repository<string[]>('list_resources_with_defaults')).sort()).toEqual(['gpt', 'o1'])
    const resources = await client.repository<string[]>('list_resources_with_entity_configs')
    expect(resources.sort()).toEqual(['_default_', 'gpt', 'o1'])
    const [entities] = await client.repository<[string[], unknown]>('list_entities_with_custom_limits', {
      resource: 'o1',
    })
    expect(entities).toEqual(['v'])
  })

  it('read and charge the bucket that the other created, and its parent', async () => {
    const scene = await peers.scene()
    const {client, repository} = scene
    await client.repository('create_entity', {entity_id: 'org'})
    for (const entity of ['theirs', 'ours'])
      await client.repository('create_entity', {entity_id: entity, parent_id: 'org', cascade: true})
    await client.repository('set_resource_defaults', {resource: 'gpt', limits: [limit('rpm', 10)]})

    expect(await client.acquire('theirs', 'gpt', {rpm: 1}, {times: 3})).toMatchObject({admitted: 3})
    await using limiter = scene.limiter()
    expect(await limiter.tryAcquire({entity: 'theirs', resource: 'gpt', consume: {rpm: 2}})).toMatchObject({
      admitted: true,
    })
    expect(await scene.totals('theirs', 'gpt', 'rpm')).toEqual({tokens: 5, consumed: 5})
    expect(await scene.totals('org', 'gpt', 'rpm')).toEqual({tokens: 5, consumed: 5})

    expect(await limiter.tryAcquire({entity: 'ours', resource: 'gpt', consume: {rpm: 1}})).toMatchObject({
      admitted: true,
    })
    // 0.10 reports a refusal of the parent as an error about the name of its write-pressure limit.
    expect((await client.acquire('ours', 'gpt', {rpm: 1}, {times: 9})).admitted).toBe(4)
    expect(await scene.totals('ours', 'gpt', 'rpm')).toEqual({tokens: 5, consumed: 5})
    expect(await scene.totals('org', 'gpt', 'rpm')).toEqual({tokens: 0, consumed: 10})
    expect(await repository.bucket({entity: 'ours', resource: 'gpt'})).toMatchObject({parent: 'org', cascade: true})
    expect(await client.repository('get_buckets', {entity_id: 'ours', resource: 'gpt'})).toMatchObject([
      {limit_name: 'rpm', tokens_milli: 5000, total_consumed_milli: 5000, capacity_milli: 10_000},
    ])
    const left = await client.limiter('get_resource_capacity', {resource: 'gpt', limit_name: 'rpm'})
    expect(left).toMatchObject({total_capacity: 30, total_available: 10})
  })

  it("refund the other's charges exactly", async () => {
    const scene = await peers.scene()
    const {client} = scene
    await client.repository('set_limits', {
      entity_id: 'u',
      resource: 'gpt',
      limits: [limit('rpm', 10), limit('tpm', 100)],
    })
    await using limiter = scene.limiter()
    const lease = await limiter.acquire({entity: 'u', resource: 'gpt', consume: {rpm: 1, tpm: 50}})
    await client.acquire('u', 'gpt', {rpm: 1, tpm: 30}, {adjust: {tpm: 15}})
    await client.acquire('u', 'gpt', {rpm: 1, tpm: 5}, {rollBack: true})
    await lease.adjust({tpm: -20})
    expect(await scene.totals('u', 'gpt', 'tpm')).toEqual({tokens: 25, consumed: 75})
    await lease.rollback()
    expect(await scene.totals('u', 'gpt', 'tpm')).toEqual({tokens: 55, consumed: 45})
    expect(await scene.totals('u', 'gpt', 'rpm')).toEqual({tokens: 9, consumed: 1})
  })

  it("count each other's consumption: usage equals the requests, with either stream processor", async () => {
    const scene = await peers.scene()
    const {client, repository} = scene
    await client.repository('set_resource_defaults', {resource: 'gpt', limits: [limit('rpm', 100)]})
    await using limiter = scene.limiter()
    const both = async (entity: string) => {
      await client.acquire(entity, 'gpt', {rpm: 1}, {times: 4})
      for (let i = 0; i < 3; i++) await limiter.acquire({entity, resource: 'gpt', consume: {rpm: 2}})
    }
    // Python's processor counts changes of existing buckets.
    for (const entity of ['byZael', 'byPython']) await client.acquire(entity, 'gpt', {rpm: 1})
    await scene.aggregate(await scene.changes(() => both('byZael')))
    const {errors} = await client.process.stream(client.stack, await scene.changes(() => both('byPython')))
    expect(errors).toEqual([])
    for (const entity of ['byZael', 'byPython']) {
      const {records} = await repository.usageWindows({entity, resource: 'gpt', window: 'hourly'})
      expect(records.map(record => record.tokens)).toEqual([{rpm: 10}])
      const [snapshots] = await client.repository<[{counters: object}[], unknown]>('get_usage_snapshots', {
        ...{entity_id: entity, resource: 'gpt', window_type: 'hourly'},
      })
      expect(snapshots.map(({counters}) => counters)).toEqual([{rpm: 10}])
    }
  })

  it('read audit events and manifest state of the other', async () => {
    const {client, repository} = await peers.scene()
    await client.repository('create_entity', {entity_id: 'u', principal: 'them'})
    await repository.setLimits({level: 'entity', entity: 'u', resource: 'gpt'}, parseLimits(['rpm=10/min']))
    const {records} = await repository.audit.list({entity: 'u'})
    expect(records.map(({action}) => action).sort()).toEqual(['entity_created', 'limits_set'])
    const events = await client.repository<{action: string}[]>('get_audit_events', {entity_id: 'u'})
    expect(events.map(({action}) => action).sort()).toEqual(['entity_created', 'limits_set'])

    const state = {managed_system: true, managed_resources: ['gpt'], managed_entities: {u: ['gpt']}}
    await client.repository('put_provisioner_state', {
      state: {...state, last_applied: '2026-01-01T00:00:00Z', applied_hash: 'x'},
    })
    const seen = await repository.provisioner.get()
    expect(seen.record).toMatchObject({managesSystem: true, resources: ['gpt'], entities: new Map([['u', ['gpt']]])})
    await repository.provisioner.save({managesSystem: false, resources: ['o1'], entities: new Map()}, seen)
    expect(await client.repository('get_provisioner_state')).toMatchObject({
      ...{managed_system: false, managed_resources: ['o1'], managed_entities: {}},
    })
  })

  it("open each other's namespaces and tables", async () => {
    const scene = await peers.scene()
    const zael = new Repository({stack: peers.table.name, transport: peers.table.transport})
    await zael.namespaces.register('ours')
    const theirs = await peers.python.open(peers.table.name, 'ours')
    expect(theirs.namespaceId).toBe((await zael.namespaces.resolve('ours'))?.id)
    const found = (await zael.namespaces.list()).map(({id}) => id)
    expect(found).toContain(scene.namespace)
    expect((await zael.namespace('ours')).id).toBe(theirs.namespaceId)
    const record = await ensureVersion(scene.tenant, {by: 'zael:test'})
    expect(record.updatedBy).toMatch(/^client:0\.1/)
    expect(await scene.client.repository('get_version_record')).toMatchObject({schema_version: record.schemaVersion})
  })
})
