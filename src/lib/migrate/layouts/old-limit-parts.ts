import type {LimitState} from '../../core/buckets/bucket.js'
import {type Item, s} from '../../schema/attribute-value.js'
import {decodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import {keys, parseItemKey} from '../../schema/keys.js'
import {flatten, foldBurst} from '../../schema/legacy-item.js'
import {type LegacyKey, PLACEHOLDER_NAMESPACE, parseLegacyKey} from '../../schema/legacy-key.js'
import {readBigInt, readNumber, readString} from '../../schema/read.js'

const PER_LIMIT_BALANCE = 'tokens_milli'

/** One limit of a bucket, from the releases in which each limit was an item with its own refill instant. */
interface PerLimitBucket {
  readonly namespace: string | undefined
  readonly entity: string
  readonly resource: string
  readonly limit: string
  readonly refilledAtMs: number
  readonly state: LimitState
  /** Whether the item counts its consumption; before 0.5 none did. */
  readonly countsConsumption: boolean
  readonly ttlSeconds: number | undefined
}

/** `undefined` when the key belongs to another kind of record. */
export function decodePerLimitBucket(stored: Item): PerLimitBucket | undefined {
  const key = legacyKeyOf(stored)
  if (key?.record !== 'per-limit-bucket') return undefined
  const item = flatten(stored)
  return {
    namespace: key.namespace,
    entity: key.entity,
    resource: key.resource,
    limit: key.limit,
    refilledAtMs: readNumber(item, 'last_refill_ms') ?? 0,
    countsConsumption: 'total_consumed_milli' in item,
    ttlSeconds: readNumber(item, 'ttl'),
    state: {
      tokensMilli: readBigInt(item, PER_LIMIT_BALANCE) ?? 0n,
      capacityMilli: readBigInt(item, 'burst_milli') ?? readBigInt(item, 'capacity_milli') ?? 0n,
      refillAmountMilli: readBigInt(item, 'refill_amount_milli') ?? 0n,
      refillPeriodMs: readNumber(item, 'refill_period_ms') ?? 0,
      consumedMilli: readBigInt(item, 'total_consumed_milli') ?? 0n,
      remainder: 0n,
    },
  }
}

/** Where the item of a single limit keeps its balance: an attribute, or one inside the map `data`. */
export function perLimitBalancePath(item: Item): readonly string[] {
  return PER_LIMIT_BALANCE in item ? [PER_LIMIT_BALANCE] : ['data', PER_LIMIT_BALANCE]
}

/**
 * A bucket with all its limits in one item, from the releases in which it was in its entity's partition. It is read as
 * shard 0 of a current bucket, in the namespace of its key or else in `namespace`. `undefined` when the key belongs to
 * another kind of record.
 */
export function decodeCompositeBucket(stored: Item, namespace = PLACEHOLDER_NAMESPACE): StoredBucket | undefined {
  const key = legacyKeyOf(stored)
  if (key?.record !== 'composite-bucket') return undefined
  const {PK, SK} = keys.bucket(key.namespace ?? namespace, key.entity, key.resource, 0)
  return decodeBucket({...foldBurst(stored), PK: s(PK), SK: s(SK)})
}

function legacyKeyOf(item: Item): LegacyKey | undefined {
  if (parseItemKey(item)) return undefined
  return parseLegacyKey({PK: readString(item, 'PK') ?? '', SK: readString(item, 'SK') ?? ''})
}
