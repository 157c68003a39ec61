/**
 * The names of all attributes, by record, and of the indexes. Code outside this folder uses these constants and never
 * spells a name: test/schema/spelling.test.ts.
 */

export const indexes = {
  parent: 'GSI1',
  /** Buckets and usage of a resource. */
  resource: 'GSI2',
  /** Buckets of an entity, and entity-level configurations of a resource. */
  entity: 'GSI3',
  /** Everything in a namespace. An item without both keys is invisible to a purge. */
  namespace: 'GSI4',
} as const

export type IndexName = (typeof indexes)[keyof typeof indexes]

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
    /** As in buckets. */
    parentGeneration: 'pgen',
    parentIncarnation: 'pinc',
  },

  /** Besides these, five numbers per limit: `limitAttribute`; the marks of the last writes: `markAttribute`; `refusals` and `lesson`. */
  bucket: {
    entity: 'entity_id',
    resource: 'resource',
    /** Epoch ms of the last refill. */
    refilledAt: 'rf',
    /** Fractions of a millitoken: `encodeRemainders`. */
    remainders: 'rfr',
    shardCount: 'shard_count',
    cascade: 'cascade',
    parent: 'parent_id',
    /** Net number of requests that writes to this item have admitted. Clients that do not know it leave it as it is. */
    requests: 'rq',
    /** Epoch seconds. */
    expiresAt: 'ttl',
    /** Names the write that last changed limits, parent, cascade or the number of shards: whether they are as they were seen. */
    limitsRevision: 'lr',
    /** Names the write that has filled the bucket, when it was created or reset: tokens from before do not go back. */
    incarnation: 'bi',
    /** Present while every request is refused. */
    disabled: 'disabled',
    /** Epoch ms until which requests are admitted whatever the balances. */
    bypass: 'bypass',
    /** Epoch ms until which balances and rates hold as stored; 0: the next write compares with the configuration first. */
    validUntil: 'vu',
    /** Schedule and resets of all limits that have none of their own, and their time zone: see `encodeCalendars`. */
    schedule: 'sched',
    resets: 'rsched',
    timeZone: 'sched_tz',
    /** Counts the moves of the entity to another parent; `parent_id` and `cascade` are of this generation. */
    parentGeneration: 'pgen',
    /** The creation of the entity within which generations compare. */
    parentIncarnation: 'pinc',
  },

  /**
   * Numbers in buckets that count refused requests since the item exists; other clients ignore them, and copy them with
   * everything else when they add a shard. Of each limit `{requests}_{limit}` and `{tokens}_{limit}`.
   */
  refusals: {
    requests: 'x',
    tokens: 'xt',
    byParent: 'xp',
    /** Epoch ms. */
    lastAt: 'xl',
  },

  /** In buckets, `{told}_{limit}`: what a provider has told that lowered the balance, a text that other clients ignore. */
  lesson: {told: 'told'},

  /** Besides these, three to six attributes per limit: `encodeConfigLimits`. */
  config: {
    version: 'config_version',
    entity: 'entity_id',
    resource: 'resource',
    onUnavailable: 'on_unavailable',
    auditRetentionDays: 'audit_retention_days',
    /** Tells one write from every other; clients that put whole items drop it, which is a change as well. */
    revision: 'rev',
    /** Tri-state: `BOOL true`, `BOOL false` or the text `bypass`; absent where the next level decides. */
    disabled: 'disabled',
    /** Tri-state: whether requests are charged to the parent too; absent where the next level decides. */
    cascade: 'cascade',
    /** Of all schedules in the item. */
    timeZone: 'sched_tz',
    /**
     * Epoch ms from which its limits, copied from another level for a boost, do not count any more. Clients that put whole
     * items drop it: what they set stays.
     */
    copiedUntil: 'copy_until',
  },

  /** Which windows of a configuration end by themselves: beside it, as other clients replace configurations as a whole. */
  boost: {
    /** By limit: the text of its windows, their zone and end, who has set them and when. */
    boosts: 'boosts',
    revision: 'rev',
  },

  /** A reset or top-up of a bucket, kept so that none is applied twice. */
  operation: {
    entity: 'entity_id',
    resource: 'resource',
    /** `reset` or `top_up`. */
    operation: 'operation',
    /** Names the call that has written it. */
    writer: 'writer',
    /** The creation of the entity that it belongs to. */
    incarnation: 'ent',
    shards: 'shards',
    /** Whole tokens per limit: added by a top-up, restored by a reset. */
    amounts: 'amounts',
    /** Whole tokens per limit that a top-up was asked for. Other clients do not keep it. */
    asked: 'asked',
    expiresAt: 'ttl',
  },

  /** Besides this, the registry of entity configurations has one number per resource, named after it. */
  registry: {resources: 'resources'},

  provisioner: {
    managesSystem: 'managed_system',
    resources: 'managed_resources',
    entities: 'managed_entities',
    lastApplied: 'last_applied',
    appliedHash: 'applied_hash',
    /** As in configurations; of a divided record a map with the next three. */
    revision: 'rev',
    revisionId: 'id',
    set: 'set',
    parts: 'parts',
    /** Of a part: the revision of the record that its writer had read. */
    base: 'base',
  },

  namespace: {
    id: 'namespace_id',
    name: 'namespace_name',
    status: 'status',
    createdAt: 'created_at',
    deletedAt: 'deleted_at',
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

  /** Besides these, one number per limit, named after it; and the marks of what was counted: `usageMark`. */
  usage: {
    entity: 'entity_id',
    resource: 'resource',
    window: 'window',
    start: 'window_start',
    totalEvents: 'total_events',
    /** Millitokens beyond the whole tokens in the counters, spelled `tpm:250,rpm:3`. */
    fractions: '_milli',
    /** A map of refused requests: `readUsageRefusals`. */
    refusals: '_refused',
    /** In a day or month that was made from finer records: how often it was written. */
    rolledUp: '_rolled',
    expiresAt: 'ttl',
  },

  /** By type of window, the instants at which rolling up began, ended, began again, separated by commas. */
  rollups: {daily: 'daily', monthly: 'monthly'},

  rollupAgenda: {
    /** Where the next turn continues, in the order of the resource index. */
    cursor: 'cursor',
    /** Who is at it, and until when, in epoch ms. */
    leasedBy: 'leased_by',
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
    runId: 'run_id',
    owner: 'owner',
    leaseUntil: 'lease_until',
    step: 'step',
    pass: 'pass',
    passWrites: 'pass_writes',
    counts: 'counts',
    position: 'position',
    startedAt: 'started_at',
    finishedAt: 'finished_at',
    earlierFinishedAt: 'earlier_finished_at',
    failure: 'failure',
    verifiedAt: 'verified_at',
    /** On migrated records of any kind: which old items they stand for. */
    mark: 'mg',
  },
} as const

/** The attributes that are the key of an index, or of the table itself. */
export function keyNames(index?: IndexName): readonly [partition: string, sort: string] {
  const {partition, sort} = attributes.key
  return [`${index ?? ''}${partition}`, `${index ?? ''}${sort}`]
}

/** Results kept; attributes come from tables that others write to, so there may be any number of them. */
const MOST_REMEMBERED = 10_000

/** A function of the name of an attribute or limit that keeps its results; when there are too many, it starts anew. */
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
