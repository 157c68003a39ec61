import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import type {Item} from '../../schema/attribute-value.js'
import {flatten} from '../../schema/legacy-item.js'
import {readNumber} from '../../schema/read.js'
import {decodePerLimitBucket} from './old-limit-parts.js'

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
 * Whether a bucket item of any layout has everything needed to continue with each of its limits. A rate that the core does
 * not allow, such as one that never refills, makes it unreadable. Counters alone are readable: an adjustment leaves them
 * behind where the bucket, or the limit, is gone.
 */
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

/** Either a balance with its rate and a refill instant, or counters only. */
function isComplete(fields: ReadonlySet<string>, hasInstant: boolean): boolean {
  const rate = ['cp', 'bx', 'ra', 'rp'].filter(field => fields.has(field))
  const isCounters = rate.length === 0
  return fields.has('tk') && (isCounters || (hasInstant && ['cp', 'ra', 'rp'].every(field => fields.has(field))))
}

const isNumberIfPresent = (item: Item, name: string): boolean => !(name in item) || readNumber(item, name) !== undefined

const isPositive = (item: Item, name: string): boolean => (readNumber(item, name) ?? 0) > 0
