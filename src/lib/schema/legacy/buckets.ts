import type {LimitState} from '../../core/bucket.js'
import {type Item, s} from '../attribute-value.js'
import {decodeBucket, type StoredBucket} from '../bucket-record.js'
import {keys, parseItemKey} from '../keys.js'
import {readBigInt, readNumber, readString} from '../read.js'
import {type LegacyKey, parseLegacyKey} from './key.js'
import {flatten, foldBurst} from './modernise.js'

/** One limit of a bucket, from the time when each limit was an item with a refill instant of its own. */
export interface PerLimitBucket {
  readonly namespace: string | undefined
  readonly entity: string
  readonly resource: string
  readonly limit: string
  readonly refilledAtMs: number
  readonly state: LimitState
  readonly ttlSeconds: number | undefined
}

/** `undefined` when the key is of another record. */
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
    ttlSeconds: readNumber(item, 'ttl'),
    state: {
      tokensMilli: readBigInt(item, 'tokens_milli') ?? 0n,
      capacityMilli: readBigInt(item, 'burst_milli') ?? readBigInt(item, 'capacity_milli') ?? 0n,
      refillAmountMilli: readBigInt(item, 'refill_amount_milli') ?? 0n,
      refillPeriodMs: readNumber(item, 'refill_period_ms') ?? 0,
      consumedMilli: readBigInt(item, 'total_consumed_milli') ?? 0n,
      remainder: 0n,
    },
  }
}

/**
 * A bucket with all its limits, from the time when it lay in its entity's partition: read as shard 0 of today's bucket,
 * in the namespace of its key or else in `namespace`. `undefined` when the key is of another record.
 */
export function decodeCompositeBucket(stored: Item, namespace: string): StoredBucket | undefined {
  const key = legacyKeyOf(stored)
  if (key?.record !== 'composite-bucket') return undefined
  const {PK, SK} = keys.bucket(key.namespace ?? namespace, key.entity, key.resource, 0)
  return decodeBucket({...foldBurst(stored), PK: s(PK), SK: s(SK)})
}

function legacyKeyOf(item: Item): LegacyKey | undefined {
  if (parseItemKey(item)) return undefined
  return parseLegacyKey({PK: readString(item, 'PK') ?? '', SK: readString(item, 'SK') ?? ''})
}
