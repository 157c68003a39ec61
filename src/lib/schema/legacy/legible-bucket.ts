import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import type {Item} from '../attribute-value.js'
import {readNumber} from '../read.js'
import {decodePerLimitBucket} from './buckets.js'
import {flatten} from './modernise.js'

const PER_LIMIT_NUMBERS = [
  'tokens_milli',
  'last_refill_ms',
  'capacity_milli',
  'burst_milli',
  'refill_amount_milli',
  'refill_period_ms',
  'total_consumed_milli',
]

/**
 * Whether a bucket item of any layout says of each of its limits all that it takes to go on with it. Rates that nobody
 * can have today, such as one that never refills, say nothing. Counters alone do: an adjustment leaves them where the
 * bucket, or the limit, is gone.
 */
export function isLegibleBucket(item: Item): boolean {
  const single = decodePerLimitBucket(item)
  if (!single) return isLegibleComposite(item)
  const {capacityMilli, refillAmountMilli, refillPeriodMs} = single.state
  const flat = flatten(item)
  return (
    PER_LIMIT_NUMBERS.every(name => isNumberIfThere(flat, name)) &&
    [capacityMilli, refillAmountMilli, refillPeriodMs].every(amount => amount > 0)
  )
}

function isLegibleComposite(item: Item): boolean {
  const limits = new Map<string, Set<string>>()
  for (const attribute of Object.keys(item)) {
    const [, name = '', field = ''] = /^b_(.+)_(tk|cp|bx|ra|rp|tc)$/.exec(attribute) ?? []
    if (field === '' || name === WRITE_PRESSURE_LIMIT) continue
    const isRate = field !== 'tk' && field !== 'tc'
    if (!isNumberIfThere(item, attribute) || (isRate && !isPositive(item, attribute))) return false
    limits.set(name, (limits.get(name) ?? new Set()).add(field))
  }
  const hasInstant = readNumber(item, 'rf') !== undefined
  return isNumberIfThere(item, 'rf') && [...limits.values()].every(fields => isWhole(fields, hasInstant))
}

/** Either a balance with its rate and an instant, or nothing but counters. */
function isWhole(fields: ReadonlySet<string>, hasInstant: boolean): boolean {
  const rate = ['cp', 'bx', 'ra', 'rp'].filter(field => fields.has(field))
  const isCounters = rate.length === 0
  return fields.has('tk') && (isCounters || (hasInstant && ['cp', 'ra', 'rp'].every(field => fields.has(field))))
}

const isNumberIfThere = (item: Item, name: string): boolean => !(name in item) || readNumber(item, name) !== undefined

const isPositive = (item: Item, name: string): boolean => (readNumber(item, name) ?? 0) > 0
