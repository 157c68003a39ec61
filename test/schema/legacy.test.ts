import {describe, expect, it} from 'vitest'
import {decodeCompositeBucket, decodePerLimitBucket} from '../../src/lib/migrate/layouts/old-limit-parts.js'
import {decodeLimitConfig} from '../../src/lib/migrate/layouts/record-shapes.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {decodeAudit} from '../../src/lib/schema/audit-record.js'
import {decodeConfig} from '../../src/lib/schema/config-record.js'
import {decodeEntity} from '../../src/lib/schema/entity-record.js'
import {modernise} from '../../src/lib/schema/legacy-item.js'
import {parseLegacyKey} from '../../src/lib/schema/legacy-key.js'
import {decodeUsage} from '../../src/lib/schema/usage-record.js'
import {decodeVersion} from '../../src/lib/schema/version-record.js'
import {samples} from './samples.js'

const S = (value: string) => ({S: value})
const N = (value: number) => ({N: String(value)})

/** The attributes of one per-limit bucket; until 0.6.0 they were in a map, except the consumption counter. */
const perLimitFields: Item = {
  resource: S('gpt-4'),
  limit_name: S('tpm'),
  tokens_milli: N(-1500),
  last_refill_ms: N(1_700_000_000_000),
  capacity_milli: N(10_000_000),
  burst_milli: N(15_000_000),
  refill_amount_milli: N(10_000_000),
  refill_period_ms: N(60_000),
}
const perLimitRest: Item = {
  PK: S('ENTITY#user-1'),
  SK: S('#BUCKET#gpt-4#tpm'),
  entity_id: S('user-1'),
  total_consumed_milli: N(700_000),
  GSI2PK: S('RESOURCE#gpt-4'),
  GSI2SK: S('BUCKET#user-1#tpm'),
  ttl: N(1_700_100_000),
}

describe('one bucket item per limit', () => {
  it.each<[string, Item]>([
    ['nested (0.1 to 0.5)', {...perLimitRest, data: {M: perLimitFields}}],
    ['flat (0.6)', {...perLimitRest, ...perLimitFields}],
  ])('%s', (_, item) => {
    expect(decodePerLimitBucket(item)).toEqual({
      namespace: undefined,
      countsConsumption: true,
      entity: 'user-1',
      resource: 'gpt-4',
      limit: 'tpm',
      refilledAtMs: 1_700_000_000_000,
      ttlSeconds: 1_700_100_000,
      state: {
        tokensMilli: -1500n,
        capacityMilli: 15_000_000n,
        refillAmountMilli: 10_000_000n,
        refillPeriodMs: 60_000,
        consumedMilli: 700_000n,
        remainder: 0n,
      },
    })
  })
})

describe('composite buckets in the entity partition', () => {
  const limits: Item = {
    entity_id: S('user-1'),
    resource: S('gpt-4'),
    rf: N(1_706_000_000_000),
    ttl: N(1_704_067_200),
    b_rpm_tk: N(99_000),
    b_rpm_cp: N(100_000),
    b_rpm_ra: N(100_000),
    b_rpm_rp: N(60_000),
    b_rpm_tc: N(1000),
  }
  const expected = {
    namespace: 'n1',
    entity: 'user-1',
    resource: 'gpt-4',
    shard: 0,
    shardCount: 1,
    cascade: false,
    parent: undefined,
    ttlSeconds: 1_704_067_200,
  }
  const rpm = {
    tokensMilli: 99_000n,
    refillAmountMilli: 100_000n,
    refillPeriodMs: 60_000,
    consumedMilli: 1000n,
    remainder: 0n,
  }

  it('0.7 to 0.9, with a burst beside the capacity', () => {
    const item = {
      ...limits,
      b_rpm_bx: N(250_000),
      PK: S('ENTITY#user-1'),
      SK: S('#BUCKET#gpt-4'),
      GSI2PK: S('RESOURCE#gpt-4'),
      GSI2SK: S('BUCKET#user-1'),
    }
    expect(decodeCompositeBucket(item, 'n1')).toEqual({
      kind: 'bucket',
      incomplete: new Map(),
      record: {
        ...expected,
        state: {refilledAtMs: 1_706_000_000_000, limits: new Map([['rpm', {...rpm, capacityMilli: 250_000n}]])},
      },
    })
  })

  it('0.10.0, in a namespace of its own', () => {
    const item = {
      ...limits,
      cascade: {BOOL: true},
      parent_id: S('team-1'),
      PK: S('n2/ENTITY#user-1'),
      SK: S('#BUCKET#gpt-4'),
    }
    expect(decodeCompositeBucket(item, 'n1')).toMatchObject({
      kind: 'bucket',
      record: {
        ...expected,
        namespace: 'n2',
        cascade: true,
        parent: 'team-1',
        state: {limits: new Map([['rpm', {...rpm, capacityMilli: 100_000n}]])},
      },
    })
  })
})

describe('one configuration item per limit', () => {
  const fields: Item = {
    limit_name: S('tpm'),
    capacity: N(100),
    burst: N(150),
    refill_amount: N(100),
    refill_period_seconds: N(60),
  }
  const limit = {name: 'tpm', capacity: 150, refillAmount: 100, refillPeriodSeconds: 60}

  it.each<[string, Item, unknown]>([
    [
      'entity, nested',
      {PK: S('ENTITY#user-1'), SK: S('#LIMIT#gpt-4#tpm'), entity_id: S('user-1'), data: {M: fields}},
      {level: 'entity', entity: 'user-1', resource: 'gpt-4'},
    ],
    [
      'entity, flat',
      {PK: S('ENTITY#user-1'), SK: S('#LIMIT#_default_#tpm'), ...fields},
      {level: 'entity', entity: 'user-1', resource: '_default_'},
    ],
    [
      'resource',
      {PK: S('RESOURCE#openai/gpt-4'), SK: S('#LIMIT#tpm'), ...fields},
      {level: 'resource', resource: 'openai/gpt-4'},
    ],
    ['system', {PK: S('SYSTEM#'), SK: S('#LIMIT#tpm'), ...fields}, {level: 'system'}],
  ])('%s', (_, item, scope) => {
    expect(decodeLimitConfig(item)).toEqual({namespace: undefined, scope, limit})
  })
})

describe('records whose shape did not change', () => {
  it('a nested entity', () => {
    const item: Item = {
      PK: S('ENTITY#user-1'),
      SK: S('#META'),
      entity_id: S('user-1'),
      data: {
        M: {
          name: S('User One'),
          parent_id: S('team-1'),
          metadata: {M: {plan: S('gold')}},
          created_at: S('2023-11-14T22:13:20Z'),
        },
      },
      GSI1PK: S('PARENT#team-1'),
      GSI1SK: S('CHILD#user-1'),
    }
    const current = modernise(item, 'n1')
    expect(decodeEntity(current)).toEqual({
      namespace: 'n1',
      entity: 'user-1',
      name: 'User One',
      parent: 'team-1',
      cascade: false,
      metadata: {plan: 'gold'},
      createdAt: '2023-11-14T22:13:20Z',
      version: 0,
    })
    expect(current).toMatchObject({
      GSI1PK: S('n1/PARENT#team-1'),
      GSI1SK: S('CHILD#user-1'),
      GSI4PK: S('n1'),
      GSI4SK: S('n1/ENTITY#user-1'),
    })
  })

  it('a configuration with bursts (0.8, 0.9)', () => {
    const item: Item = {
      PK: S('RESOURCE#gpt-4'),
      SK: S('#CONFIG'),
      resource: S('gpt-4'),
      l_tpm_cp: N(100_000),
      l_tpm_bx: N(120_000),
      l_tpm_ra: N(100_000),
      l_tpm_rp: N(60),
    }
    expect(decodeConfig(modernise(item, 'n1'))).toMatchObject({
      namespace: 'n1',
      scope: {level: 'resource', resource: 'gpt-4'},
      limits: [{name: 'tpm', capacity: 120_000, refillAmount: 100_000, refillPeriodSeconds: 60}],
    })
  })

  it('an audit event and usage', () => {
    const audit: Item = {
      PK: S('AUDIT#user-1'),
      SK: S('#AUDIT#01'),
      data: {M: {action: S('entity_created'), timestamp: S('2023-11-14T22:13:20Z'), details: {M: {name: S('x')}}}},
      ttl: N(5),
    }
    expect(decodeAudit(modernise(audit, 'n1'))).toMatchObject({
      namespace: 'n1',
      entity: 'user-1',
      eventId: '01',
      action: 'entity_created',
      details: {name: 'x'},
      ttlSeconds: 5,
    })
    const usage: Item = {
      PK: S('ENTITY#user-1'),
      SK: S('#USAGE#gpt-4#2024-01-01T14:00:00Z'),
      window: S('hourly'),
      window_start: S('2024-01-01T14:00:00Z'),
      tpm: N(5000),
      total_events: N(10),
      GSI2PK: S('RESOURCE#gpt-4'),
    }
    expect(decodeUsage(modernise(usage, 'n1'))).toMatchObject({
      namespace: 'n1',
      resource: 'gpt-4',
      window: 'hourly',
      tokens: new Map([['tpm', 5000]]),
      totalEvents: 10,
    })
  })

  it('moves the version record to the registry', () => {
    const item: Item = {
      PK: S('SYSTEM#'),
      SK: S('#VERSION'),
      data: {M: {schema_version: S('1.0.0'), client_min_version: S('0.0.0')}},
    }
    expect(decodeVersion(modernise(item, 'n1'))).toMatchObject({
      schemaVersion: '1.0.0',
      clientMinVersion: '0.0.0',
      lambdaVersion: undefined,
    })
  })

  it('keeps the namespace of an item', () => {
    expect(decodeEntity(modernise({PK: S('n2/ENTITY#a'), SK: S('#META')}, 'n1'))?.namespace).toBe('n2')
  })
})

describe('keys', () => {
  it('of today are not legacy', () => {
    for (const {item} of samples) {
      const {PK, SK} = item as {PK: {S: string}; SK: {S: string}}
      expect(parseLegacyKey({PK: PK.S, SK: SK.S})).toBeUndefined()
    }
  })

  it('without a namespace', () => {
    expect(parseLegacyKey({PK: 'SYSTEM#', SK: '#VERSION'})).toEqual({record: 'version', namespace: undefined})
    expect(parseLegacyKey({PK: 'RESOURCE#openai/gpt-4', SK: '#CONFIG'})).toEqual({
      record: 'unprefixed',
      namespace: undefined,
      current: {record: 'resource-config', namespace: '?', resource: 'openai/gpt-4'},
    })
  })

  it.each([
    ['', ''],
    ['X#a', '#META'],
    ['ENTITY#a', '#ODD'],
    ['BUCKET#a#r#0', '#STATE'],
    ['ENTITY#a', '#LIMIT#tpm'],
    ['AUDIT#a', '#LIMIT#r#tpm'],
    ['n/ENTITY#a', '#ODD'],
  ])('%o %o belongs to no record', (PK, SK) => expect(parseLegacyKey({PK, SK})).toBeUndefined())
})
