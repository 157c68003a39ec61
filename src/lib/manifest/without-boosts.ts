import {baseOf, type Limit} from '../core/limits/limit.js'
import {type ConfigRecord, countingAt} from '../schema/config-record.js'

/** Limits that exist only for the time of a boost are no part of what is configured: stated, they are new. */
export const withoutCopy = (record: ConfigRecord | undefined): ConfigRecord | undefined => countingAt(record, Infinity)

export function limitsWithoutBoosts(record: ConfigRecord | undefined): Limit[] {
  return (withoutCopy(record)?.limits ?? []).map(baseOf)
}
