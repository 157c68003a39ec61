import {describe, expect, it} from 'vitest'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {decodeBucket, encodeBucket, readConsumption, type StoredBucket} from '../../src/lib/schema/bucket-record.js'
import {decodeConfig, levelOf} from '../../src/lib/schema/config-record.js'
import {decodeEntity} from '../../src/lib/schema/entity-record.js'
import {decodeNamespace} from '../../src/lib/schema/namespace-record.js'
import {decodeUsage} from '../../src/lib/schema/usage-record.js'
import {firstAcquire, firstAcquireItem, NOW, samples} from './samples.js'

describe.each(samples)('$name', sample => {
  it('is written exactly as the wire contract specifies', () => {
    expect(sample.encode()).toEqual(sample.item)
  })

  it('reads back as the same record', () => {
    expect(sample.decode(sample.item)).toEqual(sample.record)
  })

  it('is not mistaken for a record of another type', () => {
    const others = samples.filter(
      other => other.decode !== sample.decode && !(other.name.startsWith('bucket') && sample.name.startsWith('bucket')),
    )
    for (const other of others) expect(other.decode(sample.item)).toBeUndefined()
  })

  it('D-31 carries both keys of the namespace index, so that a purge finds it', () => {
    expect(Object.keys(sample.item)).toEqual(expect.arrayContaining(['GSI4PK', 'GSI4SK']))
  })
})

function readBucket(item: Item): Extract<StoredBucket, {kind: 'bucket'}> {
  const stored = decodeBucket(item)
  if (stored?.kind !== 'bucket') throw new Error('not a bucket')
  return stored
}

const without = (item: Item, ...names: string[]): Item =>
  Object.fromEntries(Object.entries(item).filter(([name]) => !names.includes(name)))

describe('buckets of other writers', () => {
  it('read without shard count, counters, write pressure, cascade and expiry', () => {
    const bare = without(
      firstAcquireItem,
      'shard_count',
      'b_rpm_tc',
      'cascade',
      'ttl',
      ...['tk', 'cp', 'ra', 'rp', 'tc'].map(field => `b_wcu_${field}`),
    )
    const {record, incomplete} = readBucket(bare)
    expect(record).toMatchObject({shardCount: 1, cascade: false, ttlSeconds: undefined})
    expect(record.state.limits.get('rpm')?.consumedMilli).toBe(0n)
    expect(record.state.limits.has('wcu')).toBe(false)
    expect(incomplete.size).toBe(0)
  })

  it('get a fresh write pressure when written again', () => {
    const {record} = readBucket(without(firstAcquireItem, 'b_wcu_tk'))
    expect(encodeBucket(record)).toMatchObject({b_wcu_tk: {N: '1000000'}, b_wcu_tc: {N: '0'}})
  })

  it('D-33 read the remains of a refund as a ghost with its counters', () => {
    const stub: Item = {
      PK: firstAcquireItem.PK as never,
      SK: {S: '#STATE'},
      b_rpm_tk: {N: '5000'},
      b_rpm_tc: {N: '-5000'},
    }
    expect(decodeBucket(stub)).toEqual({
      kind: 'ghost',
      namespace: 'aB3x_9QwErT',
      entity: 'user-1',
      resource: 'gpt-4',
      shard: 0,
      residue: new Map([['rpm', {tokensMilli: 5000n, consumedMilli: -5000n}]]),
    })
  })

  it('D-16 separate a limit with counters but no parameters', () => {
    const {record, incomplete} = readBucket({...firstAcquireItem, b_tpm_tk: {N: '0'}, b_tpm_tc: {N: '0'}})
    expect([...record.state.limits.keys()].sort()).toEqual(['rpm', 'wcu'])
    expect(incomplete).toEqual(new Map([['tpm', {tokensMilli: 0n, consumedMilli: 0n}]]))
  })

  it('ignore leftovers of a burst and thousands of shards', () => {
    const {record} = readBucket({...firstAcquireItem, b_rpm_bx: {N: '200000'}, shard_count: {N: '4096'}})
    expect(record.shardCount).toBe(4096)
    expect(record.state.limits.get('rpm')?.capacityMilli).toBe(100_000n)
  })

  it('have only limits whose attributes are complete names', () => {
    const odd = {
      b_tk: {N: '1'},
      b__tk: {N: '1'},
      b_rpdtk: {N: '1'},
      c_rpd_tk: {N: '1'},
      b_tc: {N: '1'},
      b_rpdtc: {N: '1'},
    }
    const {record, incomplete} = readBucket({...firstAcquireItem, ...odd})
    expect([...record.state.limits.keys(), ...incomplete.keys()].sort()).toEqual(['rpm', 'wcu'])
    expect(readConsumption({...firstAcquireItem, ...odd})).toEqual(new Map([['rpm', 1000n]]))
  })

  it('read decimals and exponents rounded down', () => {
    const {record} = readBucket({...firstAcquireItem, b_rpm_tk: {N: '-0.5'}, b_rpm_tc: {N: '1.5E+3'}})
    expect(record.state.limits.get('rpm')).toMatchObject({tokensMilli: -1n, consumedMilli: 1500n})
  })
})

describe('remainders', () => {
  const carried = (rfr: string, more: Item = {}) =>
    readBucket({...firstAcquireItem, ...more, rfr: {S: rfr}}).record.state.limits.get('rpm')?.remainder

  it('count only at the refill instant they belong to', () => {
    expect(carried(`${NOW}|rpm:17/60000`)).toBe(17n)
    expect(carried(`${NOW - 1}|rpm:17/60000`)).toBe(0n)
  })

  it('count only for the period they were computed with, and never for a whole milli', () => {
    expect(carried(`${NOW}|rpm:17/60000`, {b_rpm_rp: {N: '1000'}})).toBe(0n)
    expect(carried(`${NOW}|rpm:60000/60000`)).toBe(0n)
  })

  it.each(['', '|', `${NOW}`, `${NOW}|rpm`, `${NOW}|rpm:-1/60000`, `${NOW}|tpm:1/60000`, `${NOW}|rpm:x/60000`])(
    'ignores malformed %o',
    text => {
      expect(carried(text)).toBe(0n)
    },
  )

  it('leave no attribute if there is nothing to carry', () => {
    expect(encodeBucket(firstAcquire)).not.toHaveProperty('rfr')
  })
})

describe('tolerance', () => {
  it('accepts limits of the declarative tool without index keys and version', () => {
    const item: Item = {
      PK: {S: 'n/RESOURCE#gpt-4'},
      SK: {S: '#CONFIG'},
      l_tpm_cp: {N: '5'},
      l_tpm_bx: {N: '9'},
      GSI4PK: {S: 'n'},
    }
    expect(decodeConfig(item)?.limits).toEqual([{name: 'tpm', capacity: 5, refillAmount: 5, refillPeriodSeconds: 60}])
  })

  it('accepts an entity of another client without a version', () => {
    expect(decodeEntity({PK: {S: 'n/ENTITY#a'}, SK: {S: '#META'}})).toEqual({
      namespace: 'n',
      entity: 'a',
      name: 'a',
      parent: undefined,
      cascade: false,
      metadata: {},
      createdAt: '',
      version: 0,
    })
  })

  it('D-11 accepts a daily record of another client without a type in its key', () => {
    const item: Item = {
      PK: {S: 'n/ENTITY#a'},
      SK: {S: '#USAGE#r#2024-01-01T00:00:00Z'},
      window: {S: 'daily'},
      tpm: {N: '4'},
      _mark: {S: '1'},
    }
    expect(decodeUsage(item)).toMatchObject({
      window: 'daily',
      start: '2024-01-01T00:00:00Z',
      tokens: new Map([['tpm', 4]]),
      totalEvents: 0,
    })
  })

  it('names the levels of configuration', () => {
    expect([
      levelOf({level: 'entity', entity: 'a', resource: 'r'}),
      levelOf({level: 'entity', entity: 'a', resource: '_default_'}),
      levelOf({level: 'resource', resource: 'r'}),
      levelOf({level: 'system'}),
    ]).toEqual(['entity', 'entity_default', 'resource', 'system'])
  })

  it('reads an unknown namespace status as active', () => {
    expect(decodeNamespace({PK: {S: '_/SYSTEM#'}, SK: {S: '#NSID#x'}, status: {S: 'odd'}})?.status).toBe('active')
  })
})
