import type {Amounts} from '../core/bucket.js'
import type {Limit} from '../core/limit.js'
import type {Level} from '../core/resolve.js'
import {type BucketAddress, MARK_SLOTS, type WriteMark} from '../repository/buckets/writes.js'
import type {NamespaceTable} from '../repository/table/table.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {Holding} from './grant.js'

/** The limits that apply to an entity and resource, and where they come from. */
export interface AppliedLimits {
  readonly source: Level | 'default'
  readonly limits: readonly Limit[]
}

/** How hard an item is used. */
export interface Load {
  /** Write units, by all clients together; `undefined` while too little has been seen. */
  readonly unitsPerSecond: number | undefined
  /** Largest amounts asked of this process lately. */
  readonly largestRequestMilli: Amounts
}

/** Whom an entity shares its budget with. */
export interface Family {
  readonly cascade: boolean
  readonly parent: string | undefined
}

/** Everything a desk needs besides its own queue; one per limiter. */
export interface LimiterContext {
  readonly table: NamespaceTable
  /** Through the configuration cache; throws when nothing is configured. */
  limitsOf(entity: string, resource: string): Promise<AppliedLimits>
  /** From the entity's record, cached for as long as configurations are. */
  familyOf(entity: string): Promise<Family>
  /** Told of every state of a bucket that an answer shows. */
  noticed(address: BucketAddress, record: BucketRecord, load: Load): void
  /** Returns what entries hold; never fails, and is waited for when the limiter closes. */
  refund(entries: readonly Holding[]): Promise<void>
  /** A shard that should exist does not: makes it from tokens of the others; false when the bucket has no such shard. */
  fillShard(address: BucketAddress): Promise<boolean>
  /** The stored number of shards is beyond reason: sets it to the shards that exist. */
  healShardCount(address: BucketAddress): Promise<void>
  nextMark(): WriteMark
  readonly settings: LimiterSettings
}

export interface LimiterSettings {
  /** How long a refusal may rest on what is already known, in ms; 0: never. */
  readonly denyCacheMs: number
  /** How often the limits of a busy bucket are compared with the configuration, in ms. */
  readonly configCheckMs: number
  /** Lifetime of an idle bucket in times it takes to fill up; 0: for ever. */
  readonly bucketTtlMultiplier: number
  readonly maxShards: number
  /** Bound of one write including its repetitions, in ms. */
  readonly writeTimeoutMs: number
}

/** Marks that no other process makes: a random stem and a counter. */
export function markSource(randomBytes: (count: number) => Uint8Array): () => WriteMark {
  const stem = Buffer.from(randomBytes(6)).toString('base64url')
  const slot = (randomBytes(1)[0] as number) % MARK_SLOTS
  let count = 0
  return () => ({slot, nonce: `${stem}${(count++).toString(36)}`})
}
