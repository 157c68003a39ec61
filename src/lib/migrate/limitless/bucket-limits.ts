import {InvalidInput} from '../../core/errors.js'
import {type Limit, makeLimit} from '../../core/limits/limit.js'
import type {KindedRate} from '../../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {MILLI} from '../../core/token-math.js'
import {checkScope, tooManyLimits} from '../../repository/limits/checks.js'

const MS_PER_SECOND = 1000

/** A bucket for which no limits are configured at any level. */
export interface LimitlessBucket {
  /** The id that its records have, or will have. */
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  /** The limits in the bucket, sorted by name; `undefined` if they cannot be configured as they are. */
  readonly limits: readonly Limit[] | undefined
}

type BucketName = Pick<LimitlessBucket, 'entity' | 'resource'>

/** What would have to be configured for a bucket to stay as it is; the rates are those of the whole, over all shards. */
export function limitsInBucket(
  bucket: BucketName,
  rates: Iterable<readonly [string, KindedRate]>,
): readonly Limit[] | undefined {
  const own = [...rates].filter(([name]) => name !== WRITE_PRESSURE_LIMIT)
  // A schedule or a reset is stored in a bucket as far as it is needed there, which is not all of it.
  if (own.length === 0 || own.some(([, {kind}]) => kind !== undefined)) return undefined
  try {
    checkScope({level: 'entity', ...bucket})
    const limits = own.map(([name, rate]) => limitOf(name, rate)).sort((a, b) => (a.name < b.name ? -1 : 1))
    return tooManyLimits(limits) === undefined ? limits : undefined
  } catch (error) {
    if (error instanceof InvalidInput) return undefined
    throw error
  }
}

/** Fractions of a token or of a second are refused by `makeLimit`. */
function limitOf(name: string, {capacityMilli, refillAmountMilli, refillPeriodMs}: KindedRate): Limit {
  return makeLimit({
    name,
    capacity: Number(capacityMilli) / Number(MILLI),
    refillAmount: Number(refillAmountMilli) / Number(MILLI),
    refillPeriodSeconds: refillPeriodMs / MS_PER_SECOND,
  })
}
