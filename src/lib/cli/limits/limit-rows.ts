import type {Limit} from '../../core/limit.js'
import type {ConfigRecord} from '../../schema/config-record.js'
import type {Listing} from '../output/listing.js'
import {scopeJson} from './json.js'
import {rateText} from './presenter.js'

/** One limit of one scope. */
type LimitRow = Pick<ConfigRecord, 'scope'> & {readonly limit: Limit}

/** Every limit in a row of its own, for spreadsheets. */
export function limitRows(records: readonly ConfigRecord[]): Listing<LimitRow> {
  return {
    rows: records.flatMap(({scope, limits}) => limits.map(limit => ({scope, limit}))),
    columns: [
      {name: 'level', value: ({scope}) => scopeJson(scope).level},
      {name: 'entity', value: ({scope}) => scopeJson(scope).entity},
      {name: 'resource', value: ({scope}) => scopeJson(scope).resource},
      {name: 'limit', value: ({limit}) => limit.name},
      {name: 'value', value: ({limit}) => rateText(limit)},
      {name: 'capacity', value: ({limit}) => limit.capacity},
      {name: 'refill-amount', value: ({limit}) => limit.refillAmount},
      {name: 'refill-period-seconds', value: ({limit}) => (limit.reset ? undefined : limit.refillPeriodSeconds)},
      {name: 'unit', value: ({limit}) => limit.unit},
    ],
    empty: '',
  }
}
