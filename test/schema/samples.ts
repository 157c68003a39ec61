import {type Item, n} from '../../src/lib/schema/attribute-value.js'
import {attributes} from '../../src/lib/schema/attributes.js'
import {type AuditRecord, decodeAudit, encodeAudit} from '../../src/lib/schema/audit-record.js'
import {type BucketRecord, decodeBucket, encodeBucket} from '../../src/lib/schema/bucket-record.js'
import {type ConfigRecord, decodeConfig, encodeConfig} from '../../src/lib/schema/config-record.js'
import {decodeEntity, type EntityRecord, encodeEntity} from '../../src/lib/schema/entity-record.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {
  decodeNamespace,
  encodeNamespaceById,
  encodeNamespaceByName,
  type NamespaceRecord,
} from '../../src/lib/schema/namespace-record.js'
import {
  decodePartIdentity,
  decodeProvisioner,
  encodePart,
  encodeProvisioner,
  type PartIdentity,
  type ProvisionerRecord,
} from '../../src/lib/schema/provisioner-record.js'
import {
  decodeEntityConfigRegistry,
  decodeResourceRegistry,
  type EntityConfigRegistry,
  type ResourceRegistry,
  registryIndexKeys,
} from '../../src/lib/schema/registry-records.js'
import {decodeUsage, encodeUsage, type UsageRecord} from '../../src/lib/schema/usage-record.js'
import {decodeVersion, encodeVersion, type VersionRecord} from '../../src/lib/schema/version-record.js'

/** One record of a type: the model, the item exactly as the wire contract defines it, and its codec. */
export interface Sample {
  readonly name: string
  readonly record: unknown
  readonly item: Item
  readonly encode: () => Item
  readonly decode: (item: Item) => unknown
}

export const NS = 'aB3x_9QwErT'
export const NOW = 1_700_000_000_000

const S = (value: string) => ({S: value})
const N = (value: number) => ({N: String(value)})
const inNamespace = (PK: string): Item => ({GSI4PK: S(NS), GSI4SK: S(PK)})

/** As written by other clients; DynamoDB has no empty sets. */
export function encodeResourceRegistry({namespace, resources}: ResourceRegistry): Item {
  const key = {...wireKey(keys.resourceRegistry(namespace)), ...registryIndexKeys(namespace)}
  return resources.length === 0 ? key : {...key, [attributes.registry.resources]: {SS: [...resources].sort()}}
}

export function encodeEntityConfigRegistry({namespace, counts}: EntityConfigRegistry): Item {
  const key = {...wireKey(keys.entityConfigRegistry(namespace)), ...registryIndexKeys(namespace)}
  return {...key, ...Object.fromEntries([...counts].map(([resource, count]) => [resource, n(count)]))}
}

/** The example of the wire contract: a bucket right after a first acquire of 1 rpm on 100/min. */
export const firstAcquire: BucketRecord = {
  namespace: NS,
  entity: 'user-1',
  resource: 'gpt-4',
  shard: 0,
  shardCount: 1,
  cascade: false,
  parent: undefined,
  ttlSeconds: 1_700_000_420,
  state: {
    refilledAtMs: NOW,
    limits: new Map([
      [
        'rpm',
        {
          tokensMilli: 99_000n,
          capacityMilli: 100_000n,
          refillAmountMilli: 100_000n,
          refillPeriodMs: 60_000,
          consumedMilli: 1000n,
          remainder: 0n,
        },
      ],
      [
        'wcu',
        {
          tokensMilli: 1_000_000n,
          capacityMilli: 1_000_000n,
          refillAmountMilli: 1_000_000n,
          refillPeriodMs: 1000,
          consumedMilli: 0n,
          remainder: 0n,
        },
      ],
    ]),
  },
}

export const firstAcquireItem: Item = {
  PK: S('aB3x_9QwErT/BUCKET#user-1#gpt-4#0'),
  SK: S('#STATE'),
  entity_id: S('user-1'),
  resource: S('gpt-4'),
  rf: N(1_700_000_000_000),
  shard_count: N(1),
  cascade: {BOOL: false},
  ttl: N(1_700_000_420),
  b_rpm_tk: N(99_000),
  b_rpm_cp: N(100_000),
  b_rpm_ra: N(100_000),
  b_rpm_rp: N(60_000),
  b_rpm_tc: N(1000),
  b_wcu_tk: N(1_000_000),
  b_wcu_cp: N(1_000_000),
  b_wcu_ra: N(1_000_000),
  b_wcu_rp: N(1000),
  b_wcu_tc: N(0),
  GSI2PK: S('aB3x_9QwErT/RESOURCE#gpt-4'),
  GSI2SK: S('BUCKET#user-1#0'),
  GSI3PK: S('aB3x_9QwErT/ENTITY#user-1'),
  GSI3SK: S('BUCKET#gpt-4#0'),
  GSI4PK: S('aB3x_9QwErT'),
  GSI4SK: S('BUCKET#user-1#gpt-4#0'),
}

const bucket = (name: string, record: BucketRecord, item: Item): Sample => ({
  name,
  record,
  item,
  encode: () => encodeBucket(record),
  decode: stored => {
    const found = decodeBucket(stored)
    return found?.kind === 'bucket' ? found.record : found
  },
})

/** A sharded, cascading bucket in debt, with fractions, counts beyond 2^53 and awkward names. */
const hardBucket: BucketRecord = {
  namespace: NS,
  entity: 'a@b.c:d-1',
  resource: 'openai/gpt-4.1',
  shard: 7,
  shardCount: 8,
  cascade: true,
  parent: 'team-1',
  ttlSeconds: undefined,
  state: {
    refilledAtMs: NOW,
    limits: new Map([
      [
        'my-limit.x',
        {
          tokensMilli: -5n,
          capacityMilli: 10n ** 15n,
          refillAmountMilli: 10_000n,
          refillPeriodMs: 86_400_000,
          consumedMilli: 2n ** 70n,
          remainder: 86_399_999n,
        },
      ],
      [
        'wcu',
        {
          tokensMilli: 1000n,
          capacityMilli: 1_000_000n,
          refillAmountMilli: 1_000_000n,
          refillPeriodMs: 1000,
          consumedMilli: 7000n,
          remainder: 0n,
        },
      ],
    ]),
  },
}

const entity: EntityRecord = {
  namespace: NS,
  entity: 'user-1',
  name: 'User One',
  parent: 'team-1',
  cascade: true,
  metadata: {plan: 'gold', seats: 3, tags: ['a', null, true], nested: {x: 1.5}},
  createdAt: '2023-11-14T22:13:20Z',
  version: 2,
}

const entityPk = 'aB3x_9QwErT/ENTITY#user-1'

const configOf = (name: string, record: ConfigRecord, item: Item): Sample => ({
  name,
  record,
  item,
  encode: () => encodeConfig(record),
  decode: decodeConfig,
})

const limits = [
  {name: 'rpm', capacity: 50, refillAmount: 10, refillPeriodSeconds: 1},
  {name: 'tpm', capacity: 100_000, refillAmount: 100_000, refillPeriodSeconds: 60},
]
const limitAttributes: Item = {
  l_rpm_cp: N(50),
  l_rpm_ra: N(10),
  l_rpm_rp: N(1),
  l_tpm_cp: N(100_000),
  l_tpm_ra: N(100_000),
  l_tpm_rp: N(60),
}
const plain = {namespace: NS, limits, onUnavailable: undefined, auditRetentionDays: undefined} as const

const namespace: NamespaceRecord = {
  id: NS,
  name: 'team-a',
  status: 'active',
  createdAt: '2023-11-14T22:13:20Z',
  deletedAt: undefined,
}
const namespaceAttributes: Item = {
  PK: S('_/SYSTEM#'),
  namespace_id: S(NS),
  namespace_name: S('team-a'),
  status: S('active'),
  created_at: S('2023-11-14T22:13:20Z'),
  GSI4PK: S('_'),
  GSI4SK: S('_/SYSTEM#'),
}
const deletedNamespace: NamespaceRecord = {...namespace, status: 'deleted', deletedAt: '2023-11-15T00:00:00Z'}

const version: VersionRecord = {
  schemaVersion: '0.9.0',
  lambdaVersion: undefined,
  clientMinVersion: '0.0.0',
  updatedAt: '2023-11-14T22:13:20Z',
  updatedBy: 'cli:0.1.0',
}

const resources: ResourceRegistry = {namespace: NS, resources: ['gpt-4', 'openai/gpt-4.1']}
const configCounts: EntityConfigRegistry = {
  namespace: NS,
  counts: new Map([
    ['_default_', 2],
    ['gpt-4', 1],
  ]),
}

const audit: AuditRecord = {
  namespace: NS,
  entity: '$RESOURCE:gpt-4',
  eventId: '01HF7YAT00QZJ8X6V5T4S3R2P1',
  timestamp: '2023-11-14T22:13:20Z',
  action: 'limits_set',
  principal: undefined,
  resource: 'gpt-4',
  details: {limits: [{name: 'tpm', capacity: 5, refill_amount: 5, refill_period_seconds: 60}]},
  ttlSeconds: 1_707_776_000,
}

const usageOf = (record: UsageRecord, SK: string): Sample => ({
  name: `usage, ${record.window}`,
  record,
  item: {
    PK: S(entityPk),
    SK: S(SK),
    entity_id: S('user-1'),
    resource: S('gpt-4'),
    window: S(record.window),
    window_start: S(record.start),
    tpm: N(5000),
    rpm: N(-1),
    total_events: N(10),
    ttl: N(1_707_776_000),
    GSI2PK: S('aB3x_9QwErT/RESOURCE#gpt-4'),
    GSI2SK: S(`USAGE#${record.start}#user-1`),
    ...inNamespace(entityPk),
  },
  encode: () => encodeUsage(record),
  decode: decodeUsage,
})
const usage: UsageRecord = {
  namespace: NS,
  entity: 'user-1',
  resource: 'gpt-4',
  window: 'hourly',
  start: '2024-01-01T00:00:00Z',
  tokens: new Map([
    ['rpm', -1],
    ['tpm', 5000],
  ]),
  totalEvents: 10,
  ttlSeconds: 1_707_776_000,
}

const provisioner: ProvisionerRecord = {
  namespace: NS,
  managesSystem: true,
  resources: ['gpt-4'],
  entities: new Map([['user-1', ['_default_', 'gpt-4']]]),
  lastApplied: '2023-11-14T22:13:20.123456+00:00',
  appliedHash: 'sha256:00',
}

const part: PartIdentity = {set: 'k3J_9-aZ', number: 12, base: 'q1 2023-11-14T22:13:20.123456+00:00'}

/** Every record type of the wire contract. */
export const samples: Sample[] = [
  bucket('bucket, the example of the wire contract', firstAcquire, firstAcquireItem),
  bucket('bucket, all features', hardBucket, {
    PK: S('aB3x_9QwErT/BUCKET#a@b.c:d-1#openai/gpt-4.1#7'),
    SK: S('#STATE'),
    entity_id: S('a@b.c:d-1'),
    resource: S('openai/gpt-4.1'),
    rf: N(NOW),
    rfr: S('1700000000000|my-limit.x:86399999/86400000'),
    shard_count: N(8),
    cascade: {BOOL: true},
    parent_id: S('team-1'),
    'b_my-limit.x_tk': N(-5),
    'b_my-limit.x_cp': {N: '1000000000000000'},
    'b_my-limit.x_ra': N(10_000),
    'b_my-limit.x_rp': N(86_400_000),
    'b_my-limit.x_tc': {N: '1180591620717411303424'},
    b_wcu_tk: N(1000),
    b_wcu_cp: N(1_000_000),
    b_wcu_ra: N(1_000_000),
    b_wcu_rp: N(1000),
    b_wcu_tc: N(7000),
    GSI2PK: S('aB3x_9QwErT/RESOURCE#openai/gpt-4.1'),
    GSI2SK: S('BUCKET#a@b.c:d-1#7'),
    GSI3PK: S('aB3x_9QwErT/ENTITY#a@b.c:d-1'),
    GSI3SK: S('BUCKET#openai/gpt-4.1#7'),
    GSI4PK: S(NS),
    GSI4SK: S('BUCKET#a@b.c:d-1#openai/gpt-4.1#7'),
  }),
  {
    name: 'entity with a parent',
    record: entity,
    item: {
      PK: S(entityPk),
      SK: S('#META'),
      entity_id: S('user-1'),
      name: S('User One'),
      parent_id: S('team-1'),
      cascade: {BOOL: true},
      metadata: {
        M: {
          plan: S('gold'),
          seats: N(3),
          tags: {L: [S('a'), {NULL: true}, {BOOL: true}]},
          nested: {M: {x: {N: '1.5'}}},
        },
      },
      created_at: S('2023-11-14T22:13:20Z'),
      version: N(2),
      GSI1PK: S('aB3x_9QwErT/PARENT#team-1'),
      GSI1SK: S('CHILD#user-1'),
      ...inNamespace(entityPk),
    },
    encode: () => encodeEntity(entity),
    decode: decodeEntity,
  },
  {
    name: 'entity without a parent',
    record: {...entity, entity: 'team-1', parent: undefined, cascade: false, metadata: {}, version: 0},
    item: {
      PK: S('aB3x_9QwErT/ENTITY#team-1'),
      SK: S('#META'),
      entity_id: S('team-1'),
      name: S('User One'),
      parent_id: {NULL: true},
      cascade: {BOOL: false},
      metadata: {M: {}},
      created_at: S('2023-11-14T22:13:20Z'),
      ...inNamespace('aB3x_9QwErT/ENTITY#team-1'),
    },
    encode: () =>
      encodeEntity({...entity, entity: 'team-1', parent: undefined, cascade: false, metadata: {}, version: 0}),
    decode: decodeEntity,
  },
  configOf(
    'config, entity and resource',
    {...plain, scope: {level: 'entity', entity: 'user-1', resource: 'gpt-4'}},
    {
      PK: S(entityPk),
      SK: S('#CONFIG#gpt-4'),
      entity_id: S('user-1'),
      resource: S('gpt-4'),
      config_version: N(1),
      GSI3PK: S('aB3x_9QwErT/ENTITY_CONFIG#gpt-4'),
      GSI3SK: S('user-1'),
      ...inNamespace(entityPk),
      ...limitAttributes,
    },
  ),
  configOf(
    'config, entity default',
    {...plain, scope: {level: 'entity', entity: 'user-1', resource: '_default_'}},
    {
      PK: S(entityPk),
      SK: S('#CONFIG#_default_'),
      entity_id: S('user-1'),
      resource: S('_default_'),
      config_version: N(1),
      GSI3PK: S('aB3x_9QwErT/ENTITY_CONFIG#_default_'),
      GSI3SK: S('user-1'),
      ...inNamespace(entityPk),
      ...limitAttributes,
    },
  ),
  configOf(
    'config, resource',
    {...plain, scope: {level: 'resource', resource: 'openai/gpt-4.1'}},
    {
      PK: S('aB3x_9QwErT/RESOURCE#openai/gpt-4.1'),
      SK: S('#CONFIG'),
      resource: S('openai/gpt-4.1'),
      config_version: N(1),
      ...inNamespace('aB3x_9QwErT/RESOURCE#openai/gpt-4.1'),
      ...limitAttributes,
    },
  ),
  configOf(
    'config, system',
    {...plain, scope: {level: 'system'}, onUnavailable: 'allow', auditRetentionDays: 30},
    {
      PK: S('aB3x_9QwErT/SYSTEM#'),
      SK: S('#CONFIG'),
      config_version: N(1),
      on_unavailable: S('allow'),
      audit_retention_days: N(30),
      ...inNamespace('aB3x_9QwErT/SYSTEM#'),
      ...limitAttributes,
    },
  ),
  {
    name: 'namespace by name',
    record: namespace,
    item: {...namespaceAttributes, SK: S('#NAMESPACE#team-a')},
    encode: () => encodeNamespaceByName(namespace),
    decode: decodeNamespace,
  },
  {
    name: 'namespace by id, deleted',
    record: deletedNamespace,
    item: {...namespaceAttributes, SK: S(`#NSID#${NS}`), status: S('deleted'), deleted_at: S('2023-11-15T00:00:00Z')},
    encode: () => encodeNamespaceById(deletedNamespace),
    decode: decodeNamespace,
  },
  {
    name: 'version',
    record: version,
    item: {
      PK: S('_/SYSTEM#'),
      SK: S('#VERSION'),
      schema_version: S('0.9.0'),
      lambda_version: {NULL: true},
      client_min_version: S('0.0.0'),
      updated_at: S('2023-11-14T22:13:20Z'),
      updated_by: S('cli:0.1.0'),
      GSI4PK: S('_'),
      GSI4SK: S('_/SYSTEM#'),
    },
    encode: () => encodeVersion(version),
    decode: decodeVersion,
  },
  {
    name: 'resource registry',
    record: resources,
    item: {
      PK: S('aB3x_9QwErT/SYSTEM#'),
      SK: S('#RESOURCES'),
      resources: {SS: ['gpt-4', 'openai/gpt-4.1']},
      ...inNamespace('aB3x_9QwErT/SYSTEM#'),
    },
    encode: () => encodeResourceRegistry(resources),
    decode: decodeResourceRegistry,
  },
  {
    name: 'entity config registry',
    record: configCounts,
    item: {
      PK: S('aB3x_9QwErT/SYSTEM#'),
      SK: S('#ENTITY_CONFIG_RESOURCES'),
      _default_: N(2),
      'gpt-4': N(1),
      ...inNamespace('aB3x_9QwErT/SYSTEM#'),
    },
    encode: () => encodeEntityConfigRegistry(configCounts),
    decode: decodeEntityConfigRegistry,
  },
  {
    name: 'audit',
    record: audit,
    item: {
      PK: S('aB3x_9QwErT/AUDIT#$RESOURCE:gpt-4'),
      SK: S('#AUDIT#01HF7YAT00QZJ8X6V5T4S3R2P1'),
      entity_id: S('$RESOURCE:gpt-4'),
      event_id: S('01HF7YAT00QZJ8X6V5T4S3R2P1'),
      timestamp: S('2023-11-14T22:13:20Z'),
      action: S('limits_set'),
      principal: {NULL: true},
      resource: S('gpt-4'),
      details: {
        M: {limits: {L: [{M: {name: S('tpm'), capacity: N(5), refill_amount: N(5), refill_period_seconds: N(60)}}]}},
      },
      ttl: N(1_707_776_000),
      ...inNamespace('aB3x_9QwErT/AUDIT#$RESOURCE:gpt-4'),
    },
    encode: () => encodeAudit(audit),
    decode: decodeAudit,
  },
  usageOf(usage, '#USAGE#gpt-4#2024-01-01T00:00:00Z'),
  usageOf({...usage, window: 'daily'}, '#USAGE#gpt-4#2024-01-01T00:00:00Z#daily'),
  usageOf({...usage, window: 'monthly'}, '#USAGE#gpt-4#2024-01-01T00:00:00Z#monthly'),
  {
    name: 'provisioner',
    record: provisioner,
    item: {
      PK: S('aB3x_9QwErT/SYSTEM#'),
      SK: S('#PROVISIONER'),
      managed_system: {BOOL: true},
      managed_resources: {L: [S('gpt-4')]},
      managed_entities: {M: {'user-1': {L: [S('_default_'), S('gpt-4')]}}},
      last_applied: S('2023-11-14T22:13:20.123456+00:00'),
      applied_hash: S('sha256:00'),
      ...inNamespace('aB3x_9QwErT/SYSTEM#'),
    },
    encode: () => encodeProvisioner(provisioner),
    decode: decodeProvisioner,
  },
  {
    name: 'part of a provisioner record',
    record: part,
    item: {
      PK: S('aB3x_9QwErT/SYSTEM#'),
      SK: S('#PROVISIONER#PART#k3J_9-aZ#00012'),
      managed_system: {BOOL: true},
      managed_resources: {L: [S('gpt-4')]},
      managed_entities: {M: {'user-1': {L: [S('_default_'), S('gpt-4')]}}},
      base: S('q1 2023-11-14T22:13:20.123456+00:00'),
      ...inNamespace('aB3x_9QwErT/SYSTEM#'),
    },
    encode: () => encodePart(NS, part, provisioner),
    decode: decodePartIdentity,
  },
]
