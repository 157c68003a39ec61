import {beforeAll, describe, expect, it} from 'vitest'
import {Repository} from '../../src/lib/repository/repository.js'
import {encodeUsage} from '../../src/lib/schema/usage-record.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'

describeOnBoth('the public repository', {}, table => {
  const repository = new Repository({stack: table.name, transport: table.transport})
  beforeAll(async () => {
    const {namespace} = await repository.namespaces.register('default')
    const usage = {
      namespace: namespace.id,
      entity: 'user-1',
      resource: 'gpt-4',
      window: 'hourly',
      ttlSeconds: undefined,
    } as const
    for (const hour of ['10', '11']) {
      const start = `2026-01-01T${hour}:00:00Z`
      const tokens = new Map([['tpm', Number(hour)]])
      const Item = encodeUsage({...usage, start, tokens, totalEvents: 1})
      await table.transport.send('PutItem', {TableName: table.name, Item})
    }
  })

  it('returns usage records of an entity or a resource, page by page', async () => {
    const namespace = await repository.namespace()
    const {records, next} = await namespace.usageWindows({entity: 'user-1', limit: 1})
    expect(records).toEqual([
      {
        entity: 'user-1',
        resource: 'gpt-4',
        window: 'hourly',
        start: '2026-01-01T11:00:00Z',
        tokens: {tpm: 11},
        overdrawn: {},
        totalEvents: 1,
      },
    ])
    const rest = await namespace.usageWindows({entity: 'user-1', cursor: next})
    expect(rest).toMatchObject({records: [{tokens: {tpm: 10}}], next: undefined})
    expect((await namespace.usageWindows({resource: 'gpt-4'})).records).toHaveLength(2)
    expect(await namespace.usageTotals({resource: 'gpt-4'})).toEqual({
      window: 'hourly',
      windows: 2,
      totalEvents: 2,
      firstStart: '2026-01-01T10:00:00Z',
      lastStart: '2026-01-01T11:00:00Z',
      limits: {tpm: {total: 21, average: 10.5, windows: 2, overdrawn: 0}},
    })
    await expect(namespace.usageWindows({})).rejects.toMatchObject({code: 'usage.subject'})
  })

  it('shows a bucket in whole tokens, without the limit that measures writes', async () => {
    const namespace = await repository.namespace()
    expect(await namespace.bucket({entity: 'user-2', resource: 'gpt-4'})).toBeUndefined()
    await expect(namespace.bucket({entity: '', resource: 'gpt-4'})).rejects.toMatchObject({code: 'name.invalid'})
    await namespace.setLimits({level: 'system'}, ['rpm=5'])
    const {RateLimiter} = await import('../../src/lib/limiter/rate-limiter.js')
    const limiter = new RateLimiter({stack: table.name, transport: table.transport})
    await limiter.acquire({entity: 'user-2', resource: 'gpt-4', consume: {rpm: 2}})
    const bucket = await namespace.bucket({entity: 'user-2', resource: 'gpt-4'})
    const state = {name: 'rpm', entity: 'user-2', resource: 'gpt-4', level: 'entity', capacity: 5}
    const rate = {refillAmount: 5, refillPeriodSeconds: 60, requested: 0, exceeded: false, retryAfterMs: 0}
    expect(bucket).toMatchObject({entity: 'user-2', shardCount: 1, limits: [{...state, ...rate}]})
    expect(bucket?.shards).toMatchObject([{shard: 0, limits: [{...state, ...rate}]}])
    expect(bucket?.limits[0]?.fullAfterMs).toBeGreaterThan(0)
    expect(JSON.stringify(bucket)).not.toContain('wcu')
  })
})

describe('a repository', () => {
  const transport = {send: () => Promise.reject(new Error('nothing is sent'))}

  it('is closed by await using', async () => {
    await using repository = new Repository({stack: 'test', transport})
    expect(repository[Symbol.asyncDispose]).toBeTypeOf('function')
  })

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1, 2 ** 31])('refuses a timeout of %d ms', requestTimeoutMs => {
    const open = () => new Repository({stack: 'test', transport, requestTimeoutMs})
    expect(open).toThrow(expect.objectContaining({code: 'option.invalid'}))
  })

  it.each(['', '_', 'a/b'])('refuses the namespace id "%s"', id => {
    const open = () => new Repository({stack: 'test', transport}).namespaceById(id)
    expect(open).toThrow(expect.objectContaining({code: 'name.invalid'}))
  })
})
