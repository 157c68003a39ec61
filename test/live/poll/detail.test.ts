import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {loadDetail} from '../../../src/lib/live/poll/detail.js'
import {nextReading} from '../../../src/lib/live/poll/reading.js'
import {viewBucket} from '../../../src/lib/repository/buckets/view.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {encodeBucket} from '../../../src/lib/schema/bucket-record.js'
import {encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, put, putBucket, type TestTenant} from '../../repository/namespace-table.js'
import {shardOf} from '../support.js'

describeOnBoth('the detail of a bucket', {}, table => {
  const never = new AbortController().signal

  async function populated() {
    const tenant = newTenant(table)
    const repository = new Repository({
      stack: tenant.name,
      transport: tenant.transport,
      clock: tenant.clock,
      principal: 'ops',
    })
    const names = repository.namespaceById(tenant.namespace)
    await names.entities.create({id: 'team'})
    await names.entities.create({id: 'ada', parent: 'team', cascade: true})
    tenant.nowMs += 1000
    await names.setLimits({level: 'system'}, parseLimits(['rpm=60']))
    await names.setLimits(
      {level: 'entity', entity: 'ada', resource: 'gpt-4'},
      parseLimits(['rpm=100/min:200', 'tpm=10k']),
    )
    await putBucket(tenant, {entity: 'team', resource: 'gpt-4', limits: parseLimits(['rpm=60']), consumed: 5})
    const usage = {
      namespace: tenant.namespace,
      entity: 'ada',
      resource: 'gpt-4',
      window: 'hourly',
      ttlSeconds: undefined,
    } as const
    for (const hour of [1, 2, 3, 4, 5, 6, 7, 8]) {
      const start = `2026-11-01T0${hour}:00:00Z`
      await put(tenant, encodeUsage({...usage, start, tokens: new Map([['rpm', hour]]), totalEvents: hour}))
    }
    const shard = shardOf('ada#gpt-4', 0, {limits: {rpm: {capacity: 200}}, parent: 'team'})
    if (shard.kind === 'bucket') await put(tenant, encodeBucket({...shard.record, namespace: tenant.namespace}))
    return {tenant, names}
  }

  async function detailOf(tenant: TestTenant, names: Awaited<ReturnType<typeof populated>>['names'], entity = 'ada') {
    const bucket = await names.buckets.find(entity, 'gpt-4')
    if (!bucket) throw new Error('no bucket')
    const reading = nextReading(undefined, bucket, tenant.nowMs)
    return loadDetail({table: tenant, known: () => undefined}, reading, never)
  }

  it('L6 has the parent, the limits with their source, the last hours and the last events', async () => {
    const {tenant, names} = await populated()
    const detail = await detailOf(tenant, names)
    const parent = await names.buckets.find('team', 'gpt-4')
    expect(detail).toMatchObject({
      id: 'ada#gpt-4',
      loadedAtMs: tenant.nowMs,
      parents: [{id: 'team#gpt-4'}],
      limits: [
        {name: 'rpm', text: '100/min:200', source: 'entity'},
        {name: 'tpm', text: '10k/min', source: 'entity'},
      ],
      problems: [],
    })
    if (!detail.parents[0] || !parent) throw new Error('no parent')
    expect(viewBucket(detail.parents[0].bucket, tenant.nowMs)).toEqual(viewBucket(parent, tenant.nowMs))
    expect(detail.usage.map(({start, counters, requests}) => [start, counters.rpm, requests])).toEqual(
      [8, 7, 6, 5, 4, 3, 2, 1].map(hour => [`2026-11-01T0${hour}:00:00Z`, hour, hour]),
    )
    expect(detail.audit.map(({action}) => action)).toEqual(['limits_set', 'entity_created'])
  })

  it('L6 has the holders of slots, which readings omit', async () => {
    const {tenant, names} = await populated()
    const shard = shardOf('ben#gpt-4', 0, {limits: {rpm: {capacity: 200}}, slots: {parallel: {capacity: 5, free: 2}}})
    if (shard.kind !== 'bucket' || !shard.record.slots) throw new Error('no slots')
    const accounts = new Map([['h1', {text: '0.abc parallel:3', held: new Map([['parallel', 3]])}]])
    const slots = {...shard.record.slots, accounts}
    await put(tenant, encodeBucket({...shard.record, slots, namespace: tenant.namespace}))
    const level = {limit: 'parallel', capacity: 5, free: 2, inUse: 3, holders: [{id: 'h1', slots: 3}]}
    expect((await detailOf(tenant, names, 'ben')).inFlight).toMatchObject([level])
    expect((await detailOf(tenant, names)).inFlight).toEqual([])
  })

  it('has the current limits, even if they were just changed', async () => {
    const {tenant, names} = await populated()
    await detailOf(tenant, names)
    await names.setLimits({level: 'entity', entity: 'ada', resource: 'gpt-4'}, parseLimits(['rpm=7/min']))
    expect((await detailOf(tenant, names)).limits[0]).toMatchObject({name: 'rpm', text: '7/min'})
  })

  it('shows limits in money as money, and the end of a boost', async () => {
    const {tenant, names} = await populated()
    const own = {level: 'entity', entity: 'ada', resource: 'gpt-4'} as const
    await names.setLimits(own, parseLimits(['usd=$5/min']))
    await names.setLimits(own, parseLimits(['tpm=20k']), {until: new Date(tenant.nowMs + 3_600_000)})
    const {limits, units, problems} = await detailOf(tenant, names)
    expect([units, problems]).toEqual([new Map([['usd', 'USD']]), []])
    expect(limits.map(({name, text}) => `${name} ${text}`)).toEqual([
      'rpm 100/min:200',
      expect.stringMatching(/^tpm 20k\/min until 20[\d :-]+ UTC, then 10k\/min$/),
      'usd $5/min',
    ])
  })

  it('has no parent for an entity without one', async () => {
    const {tenant, names} = await populated()
    expect(await detailOf(tenant, names, 'team')).toMatchObject({
      parents: [],
      limits: [{source: 'system'}],
      usage: [],
    })
  })

  it('lists the parts that cannot be read, and has the rest', async () => {
    const {tenant, names} = await populated()
    const bucket = await names.buckets.find('ada', 'gpt-4')
    if (!bucket) throw new Error('no bucket')
    const reading = nextReading(undefined, bucket, tenant.nowMs)
    tenant.transport.before = (operation, input) => {
      if (operation === 'Query' && JSON.stringify(input).includes('AUDIT#')) throw new Error('not allowed')
    }
    const detail = await loadDetail({table: tenant, known: () => undefined}, reading, never)
    expect(detail).toMatchObject({audit: [], problems: ['audit: not allowed'], parents: [{id: 'team#gpt-4'}]})
    expect(detail.usage).toHaveLength(8)
  })
})
