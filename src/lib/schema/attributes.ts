/** Code outside this folder uses these constants instead of attribute names: test/schema/spelling.slow.test.ts. */

export const indexes = {
  parent: 'GSI1',
  resource: 'GSI2',
  /** Buckets of an entity, and entity-level configurations of a resource. */
  entity: 'GSI3',
  /** Everything in a namespace. A purge misses items without both keys. */
  namespace: 'GSI4',
} as const

export type IndexName = (typeof indexes)[keyof typeof indexes]

const lease = {
  runId: 'run_id',
  owner: 'owner',
  /** Epoch ms; 0 when nobody holds it. */
  leaseUntil: 'lease_until',
  startedAt: 'started_at',
} as const

export const attributes = {
  key: {partition: 'PK', sort: 'SK'},

  entity: {
    entity: 'entity_id',
    name: 'name',
    parent: 'parent_id',
    cascade: 'cascade',
    metadata: 'metadata',
    createdAt: 'created_at',
    version: 'version',
    parentGeneration: 'pgen',
    parentIncarnation: 'pinc',
  },

  /** Plus five numbers per limit (`limitAttribute`), write marks (`markAttribute`), `refusals` and `feedback`. */
  bucket: {
    entity: 'entity_id',
    resource: 'resource',
    /** Epoch ms. */
    refilledAt: 'rf',
    remainders: 'rfr',
    /** Epoch ms: the latest refill instant that was set back. Other clients leave it unchanged. */
    setBackFrom: 'rfb',
    shardCount: 'shard_count',
    cascade: 'cascade',
    parent: 'parent_id',
    /** Net number of admitted requests. Other clients leave it unchanged. */
    requests: 'rq',
    /** Epoch seconds. */
    expiresAt: 'ttl',
    limitsRevision: 'lr',
    incarnation: 'bi',
    /** Present while every request is refused. */
    disabled: 'disabled',
    /** Epoch ms until which requests are admitted regardless of balances. */
    bypass: 'bypass',
    /** Epoch ms; 0: the next write compares with the configuration first. */
    validUntil: 'vu',
    /** Shared by all limits without their own: `encodeCalendars`. */
    schedule: 'sched',
    resets: 'rsched',
    timeZone: 'sched_tz',
    parentGeneration: 'pgen',
    parentIncarnation: 'pinc',
  },

  /** Lifetime counters, plus `{requests}_{limit}` and `{tokens}_{limit}`. Other clients ignore them, but copy them. */
  refusals: {
    requests: 'x',
    tokens: 'xt',
    byParent: 'xp',
    blocked: 'xb',
    /** `{accounts}_{entity}#{resource}`: shared scopes that refused requests of this bucket. */
    accounts: 'xo',
    /** `{callers}_{resource}`: in a shared scope's bucket, whose requests it refused. */
    callers: 'xc',
    /** Epoch ms. */
    lastAt: 'xl',
    /** Settlements that were given up: their leases stay charged as reserved. */
    unsettled: 'xu',
    /** Epoch ms. */
    unsettledAt: 'xv',
    /** `{delegated}_{limit}`: consumed millitokens that runs got, net of returns. The runs count what they spend. */
    delegated: 'xd',
  },

  /** In buckets, `{told}_{limit}`: provider feedback that lowered the balance. Text, so other clients ignore it. */
  feedback: {told: 'told'},

  /** In buckets, `{capacity}_{limit}`, `{free}_{limit}` and `{account}_{holder}`: slots of in-flight limits. */
  slots: {capacity: 's', free: 'f', account: 'h'},

  /** A process that holds slots. */
  holder: {
    /** Changes with every beat. */
    beat: 'beat',
    dead: 'dead',
    host: 'host',
    pid: 'pid',
    startedAt: 'started_at',
    expiresAt: 'ttl',
  },

  /** Quota tokens of a lease that come back if its process dies. */
  reservation: {tokens: 'tokens', ended: 'ended', returned: 'returned', expiresAt: 'ttl'},

  /** In the configuration of a run's entity. */
  run: {
    name: 'run_name',
    /** Epoch ms. */
    startedAt: 'run_started',
    endsAt: 'run_ends',
    /** Source and amounts; never changes. */
    grant: 'run_grant',
    /** A set of ids. */
    subRuns: 'run_subs',
    end: 'run_end',
    expiresAt: 'ttl',
  },

  /** Plus three to six attributes per limit, or one per in-flight limit: `encodeConfigLimits`. */
  config: {
    version: 'config_version',
    entity: 'entity_id',
    resource: 'resource',
    onUnavailable: 'on_unavailable',
    auditRetentionDays: 'audit_retention_days',
    /** Unique per write. Clients that put whole items drop it, which also counts as a change. */
    revision: 'rev',
    /** `BOOL true`, `BOOL false` or the text `bypass`; absent if the next level decides. */
    disabled: 'disabled',
    /** Epoch ms at which the switch expires. Clients that put whole items drop it: their switch stays. */
    accessUntil: 'disabled_until',
    /** Why an operator set the switch. Requests never see it. */
    accessReason: 'disabled_reason',
    /** ISO 8601: the entity was deleted, and its id stays blocked. */
    deletedAt: 'deleted_at',
    /** Absent if the next level decides. */
    cascade: 'cascade',
    timeZone: 'sched_tz',
    /** Epoch ms at which limits copied for a boost expire. Clients that put whole items drop it: their limits stay. */
    copiedUntil: 'copy_until',
  },

  /** Windows that expire. Stored beside the configuration, which other clients replace as a whole. */
  boost: {
    boosts: 'boosts',
    /** Epoch ms at which the switch of the scope expires. */
    accessUntil: 'switch_until',
    revision: 'rev',
  },

  /** A reset or top-up of a bucket, stored so that it is applied only once. */
  operation: {
    entity: 'entity_id',
    resource: 'resource',
    /** `reset` or `top_up`. */
    operation: 'operation',
    writer: 'writer',
    incarnation: 'ent',
    shards: 'shards',
    /** Whole tokens per limit: added by a top-up, restored by a reset. */
    amounts: 'amounts',
    /** Whole tokens per limit. Other clients do not store it. */
    asked: 'asked',
    expiresAt: 'ttl',
  },

  /** The registry of entity configurations also has one number per resource, named after it. */
  registry: {resources: 'resources'},

  provisioner: {
    managesSystem: 'managed_system',
    resources: 'managed_resources',
    entities: 'managed_entities',
    lastApplied: 'last_applied',
    appliedHash: 'applied_hash',
    /** As in configurations. In a divided record, a map of the next three. */
    revision: 'rev',
    revisionId: 'id',
    set: 'set',
    parts: 'parts',
    /** In a part: the revision of the record that its writer had read. */
    base: 'base',
  },

  /** Held while a manifest is applied. */
  lease: {
    ...lease,
    expiresAt: 'ttl',
  },

  namespace: {
    id: 'namespace_id',
    name: 'namespace_name',
    status: 'status',
    createdAt: 'created_at',
    deletedAt: 'deleted_at',
    /** Ignored by other clients. */
    levels: 'charged_levels',
  },

  audit: {
    entity: 'entity_id',
    eventId: 'event_id',
    timestamp: 'timestamp',
    action: 'action',
    principal: 'principal',
    resource: 'resource',
    details: 'details',
    expiresAt: 'ttl',
  },

  /** Plus one number per limit, named after it, and `usageMark`. */
  usage: {
    entity: 'entity_id',
    resource: 'resource',
    window: 'window',
    start: 'window_start',
    totalEvents: 'total_events',
    /** Millitokens beyond the whole tokens in the counters: `tpm:250,rpm:3`. */
    fractions: '_milli',
    refusals: '_refused',
    /** In hours: the first counted write, epoch ms. */
    firstAt: '_first',
    /** How often a rolled-up day or month was written. */
    rolledUp: '_rolled',
    expiresAt: 'ttl',
  },

  /** Instants at which rolling up began, ended, began again, separated by commas. */
  rollups: {daily: 'daily', monthly: 'monthly'},

  rollupAgenda: {
    /** Where the next run continues, in the order of the resource index. */
    cursor: 'cursor',
    leasedBy: 'leased_by',
    /** Epoch ms. */
    leasedUntil: 'leased_until',
    expiresAt: 'ttl',
  },

  version: {
    schema: 'schema_version',
    lambda: 'lambda_version',
    clientMin: 'client_min_version',
    updatedAt: 'updated_at',
    updatedBy: 'updated_by',
  },

  migration: {
    ...lease,
    step: 'step',
    pass: 'pass',
    passWrites: 'pass_writes',
    counts: 'counts',
    position: 'position',
    finishedAt: 'finished_at',
    earlierFinishedAt: 'earlier_finished_at',
    failure: 'failure',
    verifiedAt: 'verified_at',
    /** On migrated records: the old items that they replace. */
    mark: 'mg',
  },
} as const

export function keyNames(index?: IndexName): readonly [partition: string, sort: string] {
  const {partition, sort} = attributes.key
  return [`${index ?? ''}${partition}`, `${index ?? ''}${sort}`]
}

/** Bounded, since other clients can write any number of attribute names. */
const MOST_REMEMBERED = 10_000

export function remembering<T>(compute: (name: string) => T): (name: string) => T {
  const results = new Map<string, T>()
  return name => {
    const known = results.get(name)
    if (known !== undefined || results.has(name)) return known as T
    if (results.size >= MOST_REMEMBERED) results.clear()
    const result = compute(name)
    results.set(name, result)
    return result
  }
}
