import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {type Item, readBigInt, readNumber, readString, s} from '../../schema/attribute-value.js'
import {decodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import {keys, parseItemKey} from '../../schema/keys.js'
import {flatten, foldBurst} from '../../schema/legacy-item.js'
import {type LegacyKey, PLACEHOLDER_NAMESPACE, parseLegacyKey} from '../../schema/legacy-key.js'

const PER_LIMIT_BALANCE = 'tokens_milli'

/** From releases that stored each limit as an item with its own refill instant. */
export function decodePerLimitBucket(stored: Item) {
  const key = legacyKeyOf(stored)
  if (key?.record !== 'per-limit-bucket') return undefined
  const item = flatten(stored)
  return {
    namespace: key.namespace,
    entity: key.entity,
    resource: key.resource,
    limit: key.limit,
    refilledAtMs: readNumber(item, 'last_refill_ms') ?? 0,
    /** False before 0.5. */
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

export function perLimitBalancePath(item: Item): readonly string[] {
  return PER_LIMIT_BALANCE in item ? [PER_LIMIT_BALANCE] : ['data', PER_LIMIT_BALANCE]
}

/** Reads the item as shard 0. `namespace` applies if its key has none. `undefined`: another kind of record. */
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

const PER_LIMIT_NUMBERS = [
  'tokens_milli',
  'last_refill_ms',
  'capacity_milli',
  'burst_milli',
  'refill_amount_milli',
  'refill_period_ms',
  'total_consumed_milli',
]

/** False if a limit is incomplete or its rate invalid. Counters alone are readable: adjustments leave them behind. */
export function isReadableBucket(item: Item): boolean {
  const single = decodePerLimitBucket(item)
  if (!single) return isReadableComposite(item)
  const {capacityMilli, refillAmountMilli, refillPeriodMs} = single.state
  const flat = flatten(item)
  return (
    PER_LIMIT_NUMBERS.every(name => isNumberIfPresent(flat, name)) &&
    [capacityMilli, refillAmountMilli, refillPeriodMs].every(amount => amount > 0)
  )
}

function isReadableComposite(item: Item): boolean {
  const limits = new Map<string, Set<string>>()
  for (const attribute of Object.keys(item)) {
    const [, name = '', field = ''] = /^b_(.+)_(tk|cp|bx|ra|rp|tc)$/.exec(attribute) ?? []
    if (field === '' || name === WRITE_PRESSURE_LIMIT) continue
    const isRate = field !== 'tk' && field !== 'tc'
    if (!isNumberIfPresent(item, attribute) || (isRate && !isPositive(item, attribute))) return false
    limits.set(name, (limits.get(name) ?? new Set()).add(field))
  }
  const hasInstant = readNumber(item, 'rf') !== undefined
  return isNumberIfPresent(item, 'rf') && [...limits.values()].every(fields => isComplete(fields, hasInstant))
}

function isComplete(fields: ReadonlySet<string>, hasInstant: boolean): boolean {
  const rate = ['cp', 'bx', 'ra', 'rp'].filter(field => fields.has(field))
  const isCounters = rate.length === 0
  return fields.has('tk') && (isCounters || (hasInstant && ['cp', 'ra', 'rp'].every(field => fields.has(field))))
}

const isNumberIfPresent = (item: Item, name: string): boolean => !(name in item) || readNumber(item, name) !== undefined

const isPositive = (item: Item, name: string): boolean => (readNumber(item, name) ?? 0) > 0
