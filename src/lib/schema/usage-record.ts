import {WINDOWS, type Window} from '../core/window.js'
import {type Item, n, s, texts} from './attribute-value.js'
import {attributes, indexes, keyNames} from './attributes.js'
import {indexKeys, keys, parseItemKey, wireKey, withoutKey} from './keys.js'
import {readNumber, readString} from './read.js'
import {encodeUsageRefusals, type RefusalCounts, readUsageRefusals} from './refusal-counts.js'

export interface UsageRecord {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly window: Window
  /** First second of the window, `YYYY-MM-DDTHH:MM:SSZ`. */
  readonly start: string
  /** Whole tokens per limit; negative when more was returned than taken. */
  readonly tokens: ReadonlyMap<string, number>
  /** By soft limit: writes that took from it and left it in debt. Absent where there were none. */
  readonly overdrawn?: ReadonlyMap<string, number>
  readonly totalEvents: number
  /** Absent where no refusal was counted. */
  readonly refused?: RefusalCounts | undefined
  readonly ttlSeconds: number | undefined
}

const names = attributes.usage

/** Numbers that are not counters of a limit. Anything else numeric is one, so zael's own marks are strings. */
const OTHER_NUMBERS: ReadonlySet<string> = new Set([names.totalEvents, names.expiresAt])

/** Attributes that are no counters. zael admits no limit of such a name, but other clients may. */
const RESERVED: ReadonlySet<string> = new Set([
  ...[undefined, ...Object.values(indexes)].flatMap(index => keyNames(index)),
  ...Object.values(names),
])

/** How zae-limiter names the counter of a soft limit's overdrafts; no limit has a `#` in its name. */
const OVERDRAWN_SUFFIX = '#od'

export const overdrawnCounter = (limit: string): string => `${limit}${OVERDRAWN_SUFFIX}`

/** Whether a limit can be counted under its name without overwriting something else. */
export function isUsageCounter(limit: string): boolean {
  return !RESERVED.has(limit) && !limit.startsWith('_')
}

export function encodeUsage(record: UsageRecord): Item {
  const {namespace, entity, resource, window, start} = record
  const key = keys.usage(namespace, entity, resource, window, start)
  const item: Item = {
    ...wireKey(key),
    [names.entity]: s(entity),
    [names.resource]: s(resource),
    [names.window]: s(window),
    [names.start]: s(start),
    [names.totalEvents]: n(record.totalEvents),
    ...texts(indexKeys.usageOfResource(namespace, resource, start, entity)),
    ...texts(indexKeys.inNamespace(namespace, key.PK)),
  }
  for (const [limit, tokens] of record.tokens) item[limit] = n(tokens)
  for (const [limit, writes] of record.overdrawn ?? []) item[overdrawnCounter(limit)] = n(writes)
  if (record.refused) item[names.refusals] = encodeUsageRefusals(record.refused)
  if (record.ttlSeconds !== undefined) item[names.expiresAt] = n(record.ttlSeconds)
  return item
}

/** Attributes win over the key: records of other clients carry no window type in the key. */
export function decodeUsage(item: Item): UsageRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'usage') return undefined
  const window = readString(item, names.window)
  const tokens = new Map<string, number>()
  const overdrawn = new Map<string, number>()
  for (const name of Object.keys(item).sort()) {
    const count = OTHER_NUMBERS.has(name) ? undefined : readNumber(item, name)
    if (count === undefined) continue
    if (!name.includes('#')) tokens.set(name, count)
    else if (name.endsWith(OVERDRAWN_SUFFIX)) overdrawn.set(name.slice(0, -OVERDRAWN_SUFFIX.length), count)
  }
  const refused = readUsageRefusals(item)
  return {
    namespace: key.namespace,
    entity: key.entity,
    resource: key.resource,
    window: WINDOWS.find(known => known === window) ?? key.window,
    start: readString(item, names.start) ?? key.start,
    tokens,
    ...(overdrawn.size > 0 && {overdrawn}),
    totalEvents: readNumber(item, names.totalEvents) ?? 0,
    ...(refused && {refused}),
    ttlSeconds: readNumber(item, names.expiresAt),
  }
}

/** The attributes of a new record before anything is counted in it, without its key. */
export function usageIdentity(record: Omit<UsageRecord, 'tokens' | 'overdrawn' | 'totalEvents' | 'refused'>): Item {
  const {[names.totalEvents]: _, ...identity} = withoutKey(encodeUsage({...record, tokens: new Map(), totalEvents: 0}))
  return identity
}

/**
 * How far a usage record has been counted. All of it is text: other clients take every number in the record for a
 * counter. Names start with `_`, which no limit's name does.
 */
export interface UsageProgress {
  /** Position in the stream of the last change counted, per bucket shard. */
  readonly marks: ReadonlyMap<number, string>
  /** Millitokens (1 to 999) beyond the whole tokens in the counters, per limit. */
  readonly fractions: ReadonlyMap<string, bigint>
  /** The same as it is stored, for conditions: a text that another version wrote may not read back as it is spelled. */
  readonly fractionText: string | undefined
  readonly countsRefusals: boolean
}

const MARK_PREFIX = '_seq_'

export const usageMark = (shard: number): string => `${MARK_PREFIX}${shard}`

/** `undefined` when nothing is left over: the attribute is then left out or removed. */
export function encodeFractions(fractions: ReadonlyMap<string, bigint>): string | undefined {
  const parts = [...fractions].filter(([, milli]) => milli !== 0n).map(([limit, milli]) => `${limit}:${milli}`)
  return parts.length === 0 ? undefined : parts.sort().join(',')
}

export function readProgress(item: Item = {}): UsageProgress {
  const marks = new Map<number, string>()
  for (const attribute of Object.keys(item)) {
    const shard = attribute.startsWith(MARK_PREFIX) ? attribute.slice(MARK_PREFIX.length) : ''
    const mark = /^\d+$/.test(shard) ? readString(item, attribute) : undefined
    if (mark !== undefined) marks.set(Number(shard), mark)
  }
  const fractions = new Map<string, bigint>()
  const fractionText = readString(item, names.fractions)
  for (const part of fractionText?.split(',') ?? []) {
    const match = /^(.+):(\d+)$/.exec(part)
    if (match) fractions.set(match[1] as string, BigInt(match[2] as string))
  }
  return {marks, fractions, fractionText, countsRefusals: readUsageRefusals(item) !== undefined}
}
