import type {Limit} from '../core/limits/limit.js'
import {rebased} from '../repository/limits/boosted-limits.js'
import type {ConfigRecord, ConfigScope} from '../schema/config-record.js'

export interface PlannedBoost {
  readonly scope: ConfigScope
  /** As it is when the manifest is applied: what follows the boost is what the file states. */
  readonly limit: Limit
  /** Applying the manifest ends it: the file states no such limit for the scope, or one of another kind. */
  readonly isEnded: boolean
}

/**
 * What becomes of the boosts of a scope. The file states what applies without them, and they go on until their end. Limits
 * that exist only for the time of a boost are left alone, unless the file states limits for their scope: these are there
 * for good then.
 */
export function boostsAfter(
  record: ConfigRecord,
  change: {readonly after: readonly Limit[]} | undefined,
): PlannedBoost[] {
  const {scope, limits, copiedUntilMs} = record
  const boosted = limits.filter(({boost}) => boost && !boost.isEnded)
  const isLeft = !change || (copiedUntilMs !== undefined && change.after.length === 0)
  if (isLeft) return boosted.map(limit => ({scope, limit, isEnded: false}))
  const after = rebased(change.after, limits)
  return boosted.map(limit => {
    const goesOn = after.find(({name, boost}) => boost && name === limit.name)
    return {scope, limit: goesOn ?? limit, isEnded: goesOn === undefined}
  })
}
