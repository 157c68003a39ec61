import type {Limit} from '../../core/limits/limit.js'
import type {Item} from '../../schema/attribute-value.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {flatten} from '../../schema/legacy-item.js'
import {parseLegacyKey} from '../../schema/legacy-key.js'
import {readNumber, readString} from '../../schema/read.js'

/** One configured limit, from the releases in which each limit was an item of its own. */
interface LimitConfigItem {
  readonly namespace: string | undefined
  readonly scope: ConfigScope
  readonly limit: Limit
}

/** The burst was the ceiling, so it becomes the capacity. `undefined` when the key belongs to another kind of record. */
export function decodeLimitConfig(stored: Item): LimitConfigItem | undefined {
  const key = parseLegacyKey({PK: readString(stored, 'PK') ?? '', SK: readString(stored, 'SK') ?? ''})
  if (key?.record !== 'limit-config') return undefined
  const item = flatten(stored)
  const rate = readNumber(item, 'capacity') ?? 0
  return {
    namespace: key.namespace,
    scope: key.scope,
    limit: {
      name: key.limit,
      capacity: readNumber(item, 'burst') ?? rate,
      refillAmount: readNumber(item, 'refill_amount') ?? rate,
      refillPeriodSeconds: readNumber(item, 'refill_period_seconds') ?? 60,
    },
  }
}
