import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import type {Item} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {isKeyAttribute} from '../../schema/keys.js'
import type {RecordIdentity} from './record-shapes.js'

/**
 * The attributes of an old item that clients change and that its copy is made of. If they are unchanged, the copy is still
 * correct. A condition on all attributes could be longer than DynamoDB allows.
 */
export function changingAttributes(item: Item, type: RecordIdentity['type']): readonly string[] {
  const names = Object.keys(item).filter(name => !isKeyAttribute(name))
  switch (type) {
    // Never changed, or not copied: it is enough that the item exists.
    case 'audit':
    case 'registry':
    case 'version':
      return []
    case 'bucket':
      return names.filter(name => isBucketState(item, name))
    case 'usage':
      // Every change also counts an event.
      return attributes.usage.totalEvents in item ? [attributes.usage.totalEvents] : names
    case 'limits':
      return names.filter(name => !isReplacedByBurst(item, name) && !/^GSI\d[PS]K$/.test(name))
    default:
      return names
  }
}

const PER_LIMIT_STATE = ['tokens_milli', 'last_refill_ms', 'total_consumed_milli']

/** The refill instant and the consumption, or the balance where consumption is not counted; possibly all in the map `data`. */
function isBucketState(item: Item, name: string): boolean {
  if (name === 'rf' || name === 'data' || PER_LIMIT_STATE.includes(name)) return true
  const [, limit, field] = /^b_(.+)_(tk|tc)$/.exec(name) ?? []
  if (limit === undefined || limit === WRITE_PRESSURE_LIMIT) return false
  return field === 'tc' || !(`b_${limit}_tc` in item)
}

/** A burst replaces the capacity of its limit in the copy. */
const isReplacedByBurst = (item: Item, name: string): boolean =>
  name.endsWith('_cp') && name.replace(/cp$/, 'bx') in item
