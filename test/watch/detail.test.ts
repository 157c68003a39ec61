import {expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limit.js'
import {viewBucket} from '../../src/lib/repository/buckets/view.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {encodeBucket} from '../../src/lib/schema/bucket-record.js'
import {encodeUsage} from '../../src/lib/schema/usage-record.js'
import {loadDetail} from '../../src/lib/watch/detail.js'
import {nextReading} from '../../src/lib/watch/reading.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {newSpace, put, putBucket, type TestSpace} from '../repository/namespace-table.js'
import {shardOf} from './support.js'

describeOnEngine('what there is about a bucket', () => {
  const table = useTable()
  const never = new AbortController().signal

  async function populated() {
    const space = newSpace(table)
    const repository = new Repository({
      stack: space.name,
      transport: space.transport,
      clock: space.clock,
      principal: 'ops',
    })
    const names = repository.namespaceById(space.namespace)
    await names.entities.create({id: 'team'})
    await names.entities.create({id: 'ada', parent: 'team', cascade: true})
    space.nowMs += 1000
    await names.setLimits({level: 'system'}, parseLimits(['rpm=60']))
    await names.setLimits(
      {level: 'entity', entity: 'ada', resource: 'gpt-4'},
      parseLimits(['rpm=100/min:200', 'tpm=10k']),
    )
    await putBucket(space, {entity: 'team', resource: 'gpt-4', limits: parseLimits(['rpm=60']), consumed: 5})
    const usage = {
      namespace: space.namespace,
      entity: 'ada',
      resource: 'gpt-4',
      window: 'hourly',
      ttlSeconds: undefined,
    } as const
    for (const hour of [1, 2, 3, 4, 5, 6, 7, 8]) {
      const start = `2026-11-01T0${hour}:00:00Z`
      await put(space, encodeUsage({...usage, start, tokens: new Map([['rpm', hour]]), totalEvents: hour}))
    }
    const shard = shardOf('ada#gpt-4', 0, {limits: {rpm: {capacity: 200}}, parent: 'team'})
    if (shard.kind === 'bucket') await put(space, encodeBucket({...shard.record, namespace: space.namespace}))
    return {space, names}
  }

  async function detailOf(space: TestSpace, names: Awaited<ReturnType<typeof populated>>['names'], entity = 'ada') {
    const bucket = await names.buckets.find(entity, 'gpt-4')
    if (!bucket) throw new Error('no bucket')
    const reading = nextReading(undefined, bucket, space.nowMs)
    return loadDetail({space, known: () => undefined}, reading, never)
  }

  it('L6 is the parent, the limits with their source, the last hours and the last events', async () => {
    const {space, names} = await populated()
    const detail = await detailOf(space, names)
    const parent = await names.buckets.find('team', 'gpt-4')
    expect(detail).toMatchObject({
      id: 'ada#gpt-4',
      loadedAtMs: space.nowMs,
      parent: {id: 'team#gpt-4'},
      limits: [
        {name: 'rpm', text: '100/min:200', source: 'entity'},
        {name: 'tpm', text: '10k/min', source: 'entity'},
      ],
      problems: [],
    })
    if (!detail.parent || !parent) throw new Error('no parent')
    expect(viewBucket(detail.parent.bucket, space.nowMs)).toEqual(viewBucket(parent, space.nowMs))
    expect(detail.usage.map(({start, counters, requests}) => [start, counters.rpm, requests])).toEqual(
      [8, 7, 6, 5, 4, 3].map(hour => [`2026-11-01T0${hour}:00:00Z`, hour, hour]),
    )
    expect(detail.audit.map(({action}) => action)).toEqual(['limits_set', 'entity_created'])
  })

  it('limits are those of now, though they were changed a moment ago', async () => {
    const {space, names} = await populated()
    await detailOf(space, names)
    await names.setLimits({level: 'entity', entity: 'ada', resource: 'gpt-4'}, parseLimits(['rpm=7/min']))
    expect((await detailOf(space, names)).limits[0]).toMatchObject({name: 'rpm', text: '7/min'})
  })

  it('an entity without a parent has none', async () => {
    const {space, names} = await populated()
    expect(await detailOf(space, names, 'team')).toMatchObject({
      parent: undefined,
      limits: [{source: 'system'}],
      usage: [],
    })
  })

  it('what cannot be read is named and does not hide the rest', async () => {
    const {space, names} = await populated()
    const bucket = await names.buckets.find('ada', 'gpt-4')
    if (!bucket) throw new Error('no bucket')
    const reading = nextReading(undefined, bucket, space.nowMs)
    space.transport.before = (operation, input) => {
      if (operation === 'Query' && JSON.stringify(input).includes('AUDIT#')) throw new Error('not allowed')
    }
    const detail = await loadDetail({space, known: () => undefined}, reading, never)
    expect(detail).toMatchObject({audit: [], problems: ['audit: not allowed'], parent: {id: 'team#gpt-4'}})
    expect(detail.usage).toHaveLength(6)
  })
})
