import {WINDOWS, type Window} from '../core/window.js'
import {type Item, n, s} from './attribute-value.js'
import {indexKeys, keys, parseItemKey} from './keys.js'
import {readNumber, readString} from './read.js'

/** Consumption of one entity and resource in one window. */
export interface UsageRecord {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly window: Window
  /** First second of the window, `YYYY-MM-DDTHH:MM:SSZ`. */
  readonly start: string
  /** Whole tokens per limit; negative when more was returned than taken. */
  readonly tokens: ReadonlyMap<string, number>
  readonly totalEvents: number
  readonly ttlSeconds: number | undefined
}

/** Numbers that are not counters of a limit. Anything else numeric is one, so zael's own marks are strings. */
const OTHER_NUMBERS = new Set(['total_events', 'ttl'])

/** Attributes that are no counters. zael admits no limit of such a name, but other clients may. */
const RESERVED = new Set([
  ...['PK', 'SK', 'GSI1PK', 'GSI1SK', 'GSI2PK', 'GSI2SK', 'GSI3PK', 'GSI3SK', 'GSI4PK', 'GSI4SK'],
  ...['entity_id', 'resource', 'window', 'window_start', ...OTHER_NUMBERS],
])

/** Whether a limit can be counted under its name without overwriting something else. */
export function isUsageCounter(limit: string): boolean {
  return !RESERVED.has(limit) && !limit.startsWith('_')
}

export function encodeUsage(record: UsageRecord): Item {
  const {namespace, entity, resource, window, start} = record
  const {PK, SK} = keys.usage(namespace, entity, resource, window, start)
  const {GSI2PK, GSI2SK} = indexKeys.usageOfResource(namespace, resource, start, entity)
  const item: Item = {
    PK: s(PK),
    SK: s(SK),
    entity_id: s(entity),
    resource: s(resource),
    window: s(window),
    window_start: s(start),
    total_events: n(record.totalEvents),
    GSI2PK: s(GSI2PK),
    GSI2SK: s(GSI2SK),
    GSI4PK: s(namespace),
    GSI4SK: s(PK),
  }
  for (const [limit, tokens] of record.tokens) item[limit] = n(tokens)
  if (record.ttlSeconds !== undefined) item.ttl = n(record.ttlSeconds)
  return item
}

/** Attributes win over the key: records of other clients carry no window type in the key. */
export function decodeUsage(item: Item): UsageRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'usage') return undefined
  const window = readString(item, 'window')
  const tokens = new Map<string, number>()
  for (const name of Object.keys(item).sort()) {
    const count = OTHER_NUMBERS.has(name) ? undefined : readNumber(item, name)
    if (count !== undefined) tokens.set(name, count)
  }
  return {
    namespace: key.namespace,
    entity: key.entity,
    resource: key.resource,
    window: WINDOWS.find(known => known === window) ?? key.window,
    start: readString(item, 'window_start') ?? key.start,
    tokens,
    totalEvents: readNumber(item, 'total_events') ?? 0,
    ttlSeconds: readNumber(item, 'ttl'),
  }
}

/** Counts events, beside the tokens of each limit. */
export const TOTAL_EVENTS = 'total_events'

/** The attributes of a usage record other than its key and its counters: which window it counts, index keys, expiry. */
export function usageDescription(record: Omit<UsageRecord, 'tokens' | 'totalEvents'>): Item {
  const {
    PK: _,
    SK: __,
    [TOTAL_EVENTS]: ___,
    ...description
  } = encodeUsage({...record, tokens: new Map(), totalEvents: 0})
  return description
}
