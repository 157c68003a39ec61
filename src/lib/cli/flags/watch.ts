import {boolean, integer, string} from '@oclif/core/flags'
import {parseDuration} from '../../core/duration.js'
import {InvalidInput} from '../../core/errors.js'
import {checkEntityId, checkResourceName} from '../../core/names.js'
import {type Selection, SORT_KEYS, type SortKey, type WatchScope} from '../../watch/model.js'

const SHORTEST_INTERVAL_MS = 500
const LONGEST_INTERVAL_MS = 3_600_000
/** Timers count to 2^31 ms, a little more, and go off at once beyond that. */
const LONGEST_RUN_MS = 24 * 86_400_000

/** Flags of `zael watch`. */
export const watchFlags = {
  resource: string({
    char: 'r',
    description: 'Only buckets of this resource.',
    exclusive: ['entity'],
    helpValue: 'NAME',
  }),
  entity: string({char: 'e', description: 'Only buckets of this entity.', helpValue: 'ID'}),
  interval: string({description: 'Time between polls.', default: '2s', helpValue: 'DURATION'}),
  top: integer({description: 'Most buckets to show.', min: 1, helpValue: 'N'}),
  sort: string({
    description: `What comes first: ${SORT_KEYS.join(', ')}.`,
    default: 'left',
    helpValue: 'KEY',
  }),
  reverse: boolean({description: 'What comes first comes last.'}),
  filter: string({
    description:
      'Part of an entity or resource name; resource:NAME or entity:ID for exactly that one; status:over, status:near or ' +
      'status:ok. ! in front inverts.',
    default: '',
    helpValue: 'TEXT',
  }),
  once: boolean({
    description:
      'Show every bucket once, then end. All are read, at half a read unit or more for each of their shards.',
  }),
  for: string({description: 'End after this time, at most 24d; with --once, give up after it.', helpValue: 'DURATION'}),
  ascii: boolean({description: 'Draw without block characters.'}),
}

/** The values of those flags. */
export interface WatchFlagValues {
  readonly resource?: string | undefined
  readonly entity?: string | undefined
  readonly interval: string
  readonly sort: string
  readonly reverse?: boolean | undefined
  readonly filter: string
  readonly for?: string | undefined
}

/** What the flags ask for. */
export interface WatchRequest {
  readonly scope: WatchScope
  readonly intervalMs: number
  /** `undefined`: until somebody ends it. */
  readonly forMs: number | undefined
  readonly selection: Selection
}

/** Reads the flags; throws for what cannot be. */
export function watchRequest(flags: WatchFlagValues): WatchRequest {
  return {
    scope: scopeOf(flags),
    intervalMs: intervalOf(flags.interval),
    forMs: flags.for === undefined ? undefined : runOf(flags.for),
    selection: {sort: sortOf(flags.sort), reversed: flags.reverse ?? false, filter: flags.filter},
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
    hint: 'Every poll costs up to 50 read units: 2s is a good start.',
    details: {interval: text},
  })
}

function runOf(text: string): number {
  const ms = parseDuration(text)
  if (ms <= LONGEST_RUN_MS) return ms
  throw new InvalidInput('watch.for', `--for: ${text} is more than 24d.`, {
    hint: 'Leave --for out to watch without an end.',
    details: {for: text},
  })
}

function sortOf(text: string): SortKey {
  const sort = SORT_KEYS.find(key => key === text)
  if (sort) return sort
  throw new InvalidInput('watch.sort', `--sort: there is no "${text}" to sort by.`, {
    hint: `There are ${SORT_KEYS.join(', ')}; --reverse turns the order around.`,
    details: {sort: text, keys: SORT_KEYS},
  })
}
