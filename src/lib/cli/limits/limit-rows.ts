import {isoMinute} from '../../core/calendar/windows-until.js'
import {plainRate} from '../../core/limits/boost-text.js'
import {boostedOf, type Limit} from '../../core/limits/limit.js'
import type {ConfigRecord} from '../../schema/config-record.js'
import type {Listing} from '../output/listing.js'
import {scopeJson} from './json.js'

type LimitRow = Pick<ConfigRecord, 'scope'> & {readonly limit: Limit}

export function limitRows(records: readonly ConfigRecord[]): Listing<LimitRow> {
  return {
    rows: records.flatMap(({scope, limits}) => limits.map(limit => ({scope, limit}))),
    columns: [
      {name: 'level', value: ({scope}) => scopeJson(scope).level},
      {name: 'entity', value: ({scope}) => scopeJson(scope).entity},
      {name: 'resource', value: ({scope}) => scopeJson(scope).resource},
      {name: 'limit', value: ({limit}) => limit.name},
      {name: 'value', value: ({limit}) => plainRate(limit)},
      {name: 'capacity', value: ({limit}) => limit.capacity},
      {name: 'refill-amount', value: ({limit}) => limit.refillAmount},
      {name: 'refill-period-seconds', value: ({limit}) => (limit.reset ? undefined : limit.refillPeriodSeconds)},
      {
        name: 'boosted-to',
        value: ({limit}) =>
          limit.boost?.isEnded ? undefined : boostedOf(limit) && plainRate(boostedOf(limit) as Limit),
      },
      {
        name: 'boosted-until',
        value: ({limit: {boost}}) => (boost && !boost.isEnded ? isoMinute(boost.untilMs) : undefined),
      },
      {name: 'unit', value: ({limit}) => limit.unit},
    ],
    empty: '',
  }
}
