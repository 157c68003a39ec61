import {boolean, integer, string} from '@oclif/core/flags'
import type {DeepReadonly} from '../core/deep-readonly.js'
import {InvalidInput} from '../core/errors.js'
import {checkEntityId, checkResourceName} from '../core/names.js'
import {parseDuration} from '../core/text/duration.js'
import {typedName} from '../schema/hashed-name.js'
import {ROW_STATUSES, SORT_KEYS, type SortKey, type WatchScope} from './model/model.js'

const SHORTEST_INTERVAL_MS = 500
const LONGEST_INTERVAL_MS = 3_600_000
/** Longer timers overflow at 2^31 ms and fire at once. */
const LONGEST_RUN_MS = 24 * 86_400_000

export const watchFlags = {
  resource: string({
    char: 'r',
    description: 'Show only buckets of this resource.',
    exclusive: ['entity'],
    helpValue: 'NAME',
  }),
  entity: string({char: 'e', description: 'Show only buckets of this entity.', helpValue: 'ID'}),
  interval: string({description: 'Time between polls.', default: '2s', helpValue: 'DURATION'}),
  top: integer({description: 'Maximum number of buckets to show.', min: 1, helpValue: 'N'}),
  sort: string({
    description: `Sort key: ${SORT_KEYS.join(', ')}.`,
    default: 'left',
    helpValue: 'KEY',
  }),
  reverse: boolean({description: 'Reverse the order.'}),
  filter: string({
    description:
      'Show only matching buckets: part of an entity id or resource name, entity:ID, resource:NAME or status:STATUS ' +
      '(over, near, overdrawn, disabled, ok or gone). A leading ! inverts the filter.',
    default: '',
    helpValue: 'TEXT',
  }),
  once: boolean({
    description:
      'Poll once, print the result and exit. Reads the buckets in use (for up to 10,000 read units), then others, to about 1,900 in all. Sorting ' +
      'by rate, empty or pressure reads the buckets again after --interval.',
  }),
  all: boolean({
    description: 'With --once: read every bucket. Costs at least half a read unit per shard.',
    dependsOn: ['once'],
  }),
  prometheus: boolean({
    description: 'Poll once and print metrics in the Prometheus text format, by resource and never by entity.',
    exclusive: ['once', 'actions', 'top', 'filter', 'sort', 'reverse'],
  }),
  listen: string({
    description:
      'With --prometheus: serve the metrics at http://HOST:PORT/metrics until Ctrl-C. Default host: 127.0.0.1. ' +
      'A scrape reuses the last poll if it is newer than --interval. Otherwise it polls.',
    dependsOn: ['prometheus'],
    helpValue: 'HOST:PORT',
  }),
  for: string({description: 'Exit after this time, at most 24d. With --once: the timeout.', helpValue: 'DURATION'}),
  ascii: boolean({description: 'Draw without block characters.'}),
  actions: boolean({
    description:
      'Enable keys that change the selected row, each after confirmation: R resets the bucket, B sets temporary ' +
      'limits, X blocks the entity. Without this flag, the live view cannot write.',
  }),
}

export interface WatchFlagValues {
  readonly resource?: string | undefined
  readonly entity?: string | undefined
  readonly interval: string
  readonly sort: string
  readonly reverse?: boolean | undefined
  readonly filter: string
  readonly for?: string | undefined
  readonly all?: boolean | undefined
}

export type WatchRequest = DeepReadonly<ReturnType<typeof watchRequest>>

export function watchRequest(flags: WatchFlagValues) {
  return {
    scope: scopeOf(flags),
    intervalMs: intervalOf(flags.interval),
    forMs: flags.for === undefined ? undefined : runOf(flags.for),
    selection: {sort: sortOf(flags.sort), reversed: flags.reverse ?? false, filter: filterOf(flags.filter)},
    isWhole: flags.all ?? false,
  }
}

function scopeOf({resource, entity}: WatchFlagValues): WatchScope {
  if (resource !== undefined) return {kind: 'resource', resource: checkResourceName(resource)}
  if (entity !== undefined) return {kind: 'entity', entity: checkEntityId(entity)}
  return {kind: 'namespace'}
}

function intervalOf(text: string): number {
  const ms = parseDuration(text)
  if (ms >= SHORTEST_INTERVAL_MS && ms <= LONGEST_INTERVAL_MS) return ms
  throw new InvalidInput('watch.interval', `--interval: ${text} is not between 500ms and 1h.`, {
    hint: 'Every poll costs up to 50 read units. Default: 2s.',
    details: {interval: text},
  })
}

function runOf(text: string): number {
  const ms = parseDuration(text)
  if (ms <= LONGEST_RUN_MS) return ms
  throw new InvalidInput('watch.for', `--for: ${text} is more than 24d.`, {
    hint: 'Omit --for to watch without a time limit.',
    details: {for: text},
  })
}

/** Stricter than in the live view, where a filter may be half typed. */
function filterOf(text: string): string {
  const [, field = '', value = ''] = /^\s*!?(status|entity|resource):(.*?)\s*$/i.exec(text) ?? []
  switch (field.toLowerCase()) {
    case 'entity':
      checkEntityId(typedName('entity', value))
      return text
    case 'resource':
      checkResourceName(typedName('resource', value))
      return text
    case 'status':
      if (ROW_STATUSES.some(status => status === value.toLowerCase())) return text
      throw new InvalidInput('watch.filter', `--filter: "${value}" is not a status.`, {
        hint: `Use ${ROW_STATUSES.join(', ')}.`,
        details: {status: value, statuses: ROW_STATUSES},
      })
    default:
      return text
  }
}

function sortOf(text: string): SortKey {
  const sort = SORT_KEYS.find(key => key === text)
  if (sort) return sort
  throw new InvalidInput('watch.sort', `--sort: "${text}" is not a sort key.`, {
    hint: `Use ${SORT_KEYS.join(', ')}. To reverse the order, add --reverse.`,
    details: {sort: text, keys: SORT_KEYS},
  })
}
