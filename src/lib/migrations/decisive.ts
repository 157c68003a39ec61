import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import type {Item} from '../schema/attribute-value.js'
import {classifyItem} from './records/classify.js'
import type {MigrationContext} from './records/finding.js'

/** Comparisons in one condition at most: DynamoDB takes 300 operators, and 4 KB of text. */
export const MOST_COMPARISONS = 140

/**
 * The attributes of an old item that must not have changed since it was compared, when it is deleted: those that clients
 * change and that its copy is made of. An item can have more attributes than a condition may name.
 */
export function decisiveAttributes(stage: MigrationContext, item: Item): readonly string[] {
  const record = classifyItem(item, stage)
  const names = Object.keys(item).filter(name => name !== 'PK' && name !== 'SK')
  switch (record.kind === 'old' ? record.type : undefined) {
    // Never changed, or not copied: it is enough that they are there.
    case 'audit':
    case 'registry':
    case 'version':
      return []
    case 'bucket':
      return names.filter(name => isBucketState(item, name))
    case 'usage':
      // Each addition is an event.
      return names.filter(name => name === ('total_events' in item ? 'total_events' : name))
    case 'limits':
      return names.filter(name => !isFolded(item, name) && !/^GSI\d[PS]K$/.test(name))
    default:
      return names
  }
}

/** The refill instant and what was consumed, or the balance where nobody counts; an own item may keep them in a map. */
function isBucketState(item: Item, name: string): boolean {
  if (['rf', 'data', 'tokens_milli', 'last_refill_ms', 'total_consumed_milli'].includes(name)) return true
  const [, limit, field] = /^b_(.+)_(tk|tc)$/.exec(name) ?? []
  if (limit === undefined || limit === WRITE_PRESSURE_LIMIT) return false
  return field === 'tc' || !(`b_${limit}_tc` in item)
}

/** The burst took the place of this capacity. */
const isFolded = (item: Item, name: string): boolean => name.endsWith('_cp') && name.replace(/cp$/, 'bx') in item
