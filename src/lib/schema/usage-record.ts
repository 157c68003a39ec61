import {WINDOWS, type Window} from '../core/window.js'
import {type Item, n, readNumber, readString, s, texts} from './attribute-value.js'
import {attributes, indexes, keyNames} from './attributes.js'
import {indexKeys, keys, parseItemKey, wireKey, withoutKey} from './keys.js'
import {encodeUsageRefusals, type RefusalCounts, readUsageRefusals} from './refusal-counts.js'

export interface UsageRecord {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly window: Window
  /** `YYYY-MM-DDTHH:MM:SSZ`. */
  readonly start: string
  /** Whole tokens per limit; negative when refunds exceed consumption. */
  readonly tokens: ReadonlyMap<string, number>
  /** By soft limit: writes that left it in debt. Absent if there were none. */
  readonly overdrawn?: ReadonlyMap<string, number>
  readonly totalEvents: number
  /** In hours: when its use began, epoch ms. Absent if unknown. */
  readonly firstAtMs?: number | undefined
  readonly refused?: RefusalCounts | undefined
  readonly ttlSeconds: number | undefined
}

const names = attributes.usage

/** Every other number is a limit's counter, so zael's own marks are strings. */
const OTHER_NUMBERS: ReadonlySet<string> = new Set([names.totalEvents, names.expiresAt])

/** zael rejects limits with these names, but other clients may not. */
const RESERVED: ReadonlySet<string> = new Set([
  ...[undefined, ...Object.values(indexes)].flatMap(index => keyNames(index)),
  ...Object.values(names),
])

/** zae-limiter's counter of overdrafts of a soft limit; limit names contain no `#`. */
const OVERDRAWN_SUFFIX = '#od'

export const overdrawnCounter = (limit: string): string => `${limit}${OVERDRAWN_SUFFIX}`

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

/** Attributes win over the key: other clients write no window type in the key. */
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
    ...readFirst(item),
    ...(refused && {refused}),
    ttlSeconds: readNumber(item, names.expiresAt),
  }
}

/** Text, because other clients read every number as a counter. */
function readFirst(item: Item): Pick<UsageRecord, 'firstAtMs'> {
  const firstAtMs = Number(readString(item, names.firstAt) ?? Number.NaN)
  return Number.isFinite(firstAtMs) ? {firstAtMs} : {}
}

export function usageIdentity(record: Omit<UsageRecord, 'tokens' | 'overdrawn' | 'totalEvents' | 'refused'>): Item {
  const {[names.totalEvents]: _, ...identity} = withoutKey(encodeUsage({...record, tokens: new Map(), totalEvents: 0}))
  return identity
}

/** Stored as text, because other clients read every number as a counter. Limit names do not start with `_`. */
export interface UsageProgress {
  /** Stream position of the last counted change, per bucket shard. */
  readonly marks: ReadonlyMap<number, string>
  /** Millitokens (1 to 999) beyond the whole tokens in the counters. */
  readonly fractions: ReadonlyMap<string, bigint>
  /** As stored, for conditions: another version may spell it differently. */
  readonly fractionText: string | undefined
  readonly countsRefusals: boolean
  /** Requests counted so far. */
  readonly admitted: number
}

const MARK_PREFIX = '_seq_'

export const usageMark = (shard: number): string => `${MARK_PREFIX}${shard}`

/** `undefined` if no fraction is left. Then remove the attribute. */
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
  return {
    marks,
    fractions,
    fractionText,
    countsRefusals: readUsageRefusals(item) !== undefined,
    admitted: readNumber(item, names.totalEvents) ?? 0,
  }
}
