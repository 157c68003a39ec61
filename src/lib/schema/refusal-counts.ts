import {type AttributeValue, type Item, n, readBigInt, readNumber} from './attribute-value.js'
import {attributes} from './attributes.js'

export interface LimitRefusals {
  readonly requests: number
  /** Whole tokens requested. */
  readonly tokens: bigint
}

export interface UnsettledCount {
  readonly settlements: number
  /** Epoch ms. */
  readonly lastAtMs: number
}

export interface RefusalCounts {
  /** Counts a request once, however many limits refused it. */
  readonly requests: number
  /** Requests that this bucket would have admitted, and that a parent or a shared scope (a provider account) refused. */
  readonly byParent: number
  /** Of `requests`, refused by a switch: no limit counts them. Absent if there were none. */
  readonly blocked?: number | undefined
  /** Of `byParent`, by the shared scope that refused: `entity#resource`. Absent if there were none. */
  readonly accounts?: ReadonlyMap<string, number> | undefined
  /** In a shared scope: refused requests of callers, by their resource. Absent if there were none. */
  readonly callers?: ReadonlyMap<string, number> | undefined
  readonly lastAtMs: number
  /** Only in buckets: settlements that were given up. Absent if there were none. */
  readonly unsettled?: UnsettledCount | undefined
  /** In usage records: the first refusal, some seconds late at most. Absent if unknown. */
  readonly firstAtMs?: number | undefined
  /** In usage records of an hour: requests that it admitted before the first refusal. Absent if unknown. */
  readonly before?: number | undefined
  readonly limits: ReadonlyMap<string, LimitRefusals>
}

const {refusals: names} = attributes

interface Spelling {
  readonly requests: string
  readonly byParent: string
  readonly blocked: string
  readonly lastAt: string
  readonly requestsPrefix: string
  readonly tokensPrefix: string
  readonly accounts: string
  readonly callers: string
}

/** Of consumed tokens that were delegated to runs. */
export const delegatedAttribute = (limit: string): string => `${names.delegated}_${limit}`

/** Parts of the counts that are named after other buckets; both name their prefix in {@link Spelling}. */
const LINKS = ['accounts', 'callers'] as const

/**
 * Buckets: top-level numbers, because only those can be incremented without reading the item. Usage records: one map,
 * because other clients read every top-level number as a limit's counter.
 */
const BUCKET: Spelling = {
  requests: names.requests,
  byParent: names.byParent,
  blocked: names.blocked,
  lastAt: names.lastAt,
  requestsPrefix: `${names.requests}_`,
  tokensPrefix: `${names.tokens}_`,
  accounts: `${names.accounts}_`,
  callers: `${names.callers}_`,
}
const USAGE: Spelling = {
  ...{requests: 'n', byParent: 'p', blocked: 'b', lastAt: 'at'},
  ...{requestsPrefix: 'r:', tokensPrefix: 't:', accounts: 'o:', callers: 'c:'},
}

/** Only in usage records. */
const FIRST_AT = 'first'
const BEFORE = 'before'

export const isRefusalAttribute = (attribute: string): boolean =>
  attribute.startsWith(BUCKET.requestsPrefix) ||
  attribute.startsWith(BUCKET.tokensPrefix) ||
  LINKS.some(link => attribute.startsWith(BUCKET[link])) ||
  attribute.startsWith(delegatedAttribute('')) ||
  attribute === BUCKET.requests ||
  attribute === BUCKET.byParent ||
  attribute === BUCKET.blocked ||
  attribute === BUCKET.lastAt ||
  attribute === names.unsettled ||
  attribute === names.unsettledAt

export const bucketRefusals = (counts: RefusalCounts) => spell(counts, BUCKET)

export const usageRefusals = (counts: RefusalCounts) => spell(counts, USAGE)

interface SpelledCounts {
  readonly added: ReadonlyMap<string, bigint>
  readonly lastAt: readonly [name: string, epochMs: number]
}

/** Stores tokens minus requests: limits that count requests then need no second number. */
function spell(counts: RefusalCounts, spelling: Spelling): SpelledCounts {
  const {requests, byParent, blocked = 0, lastAtMs, limits} = counts
  const added = new Map<string, bigint>([
    [spelling.requests, BigInt(requests)],
    [spelling.byParent, BigInt(byParent)],
    [spelling.blocked, BigInt(blocked)],
  ])
  for (const [limit, {requests: count, tokens}] of limits) {
    added.set(spelling.requestsPrefix + limit, BigInt(count))
    added.set(spelling.tokensPrefix + limit, tokens - BigInt(count))
  }
  for (const link of LINKS)
    for (const [bucket, count] of counts[link] ?? []) added.set(spelling[link] + bucket, BigInt(count))
  return {added: new Map([...added].filter(([, count]) => count !== 0n)), lastAt: [spelling.lastAt, lastAtMs]}
}

export const readRefusals = (item: Item): RefusalCounts => read(item, BUCKET)

export function readUsageRefusals(item: Item): RefusalCounts | undefined {
  const value = item[attributes.usage.refusals]
  if (!value || !('M' in value)) return undefined
  const [firstAtMs, before] = [FIRST_AT, BEFORE].map(name => readNumber(value.M, name))
  return {
    ...read(value.M, USAGE),
    ...(firstAtMs !== undefined && {firstAtMs}),
    ...(before !== undefined && {before}),
  }
}

function read(item: Item, spelling: Spelling): RefusalCounts {
  const limits = new Map<string, LimitRefusals>()
  for (const name of Object.keys(item)) {
    if (!name.startsWith(spelling.requestsPrefix)) continue
    const limit = name.slice(spelling.requestsPrefix.length)
    const requests = readNumber(item, name) ?? 0
    limits.set(limit, {
      requests,
      tokens: (readBigInt(item, spelling.tokensPrefix + limit) ?? 0n) + BigInt(requests),
    })
  }
  const blocked = readNumber(item, spelling.blocked) ?? 0
  return {
    requests: readNumber(item, spelling.requests) ?? 0,
    byParent: readNumber(item, spelling.byParent) ?? 0,
    ...(blocked !== 0 && {blocked}),
    ...readLink(item, spelling, 'accounts'),
    ...readLink(item, spelling, 'callers'),
    lastAtMs: readNumber(item, spelling.lastAt) ?? 0,
    limits,
  }
}

function readLink(item: Item, spelling: Spelling, link: (typeof LINKS)[number]): Pick<RefusalCounts, typeof link> {
  const prefix = spelling[link]
  const found = Object.keys(item).filter(name => name.startsWith(prefix))
  return found.length === 0
    ? {}
    : {[link]: new Map(found.map(name => [name.slice(prefix.length), readNumber(item, name) ?? 0]))}
}

export function encodeUsageRefusals(counts: RefusalCounts): AttributeValue {
  const {added, lastAt} = usageRefusals(counts)
  const entries: Item = {[lastAt[0]]: n(lastAt[1])}
  if (counts.firstAtMs !== undefined) entries[FIRST_AT] = n(counts.firstAtMs)
  if (counts.before !== undefined) entries[BEFORE] = n(counts.before)
  for (const [name, count] of added) entries[name] = n(count)
  return {M: entries}
}

export const hasRefusals = ({requests, byParent, limits}: RefusalCounts): boolean =>
  requests !== 0 || byParent !== 0 || limits.size > 0

export function addRefusals(all: Iterable<RefusalCounts>): RefusalCounts {
  let [requests, byParent, blocked, lastAtMs] = [0, 0, 0, 0]
  const limits = new Map<string, LimitRefusals>()
  const links = {accounts: new Map<string, number>(), callers: new Map<string, number>()}
  let firstAtMs: number | undefined = Number.POSITIVE_INFINITY
  for (const counts of all) {
    for (const link of LINKS) for (const [bucket, count] of counts[link] ?? []) addLink(links[link], bucket, count)
    // If the first refusal of one part is unknown, so is that of the sum.
    firstAtMs = counts.firstAtMs && firstAtMs && Math.min(firstAtMs, counts.firstAtMs)
    requests += counts.requests
    byParent += counts.byParent
    blocked += counts.blocked ?? 0
    lastAtMs = Math.max(lastAtMs, counts.lastAtMs)
    for (const [limit, more] of counts.limits) {
      const known = limits.get(limit) ?? {requests: 0, tokens: 0n}
      limits.set(limit, {requests: known.requests + more.requests, tokens: known.tokens + more.tokens})
    }
  }
  return {
    ...{requests, byParent, ...(blocked !== 0 && {blocked})},
    ...(links.accounts.size > 0 && {accounts: links.accounts}),
    ...(links.callers.size > 0 && {callers: links.callers}),
    ...{lastAtMs, ...(firstAtMs !== undefined && Number.isFinite(firstAtMs) && {firstAtMs}), limits},
  }
}

export function addLink(link: Map<string, number>, bucket: string, count: number): void {
  link.set(bucket, (link.get(bucket) ?? 0) + count)
}

/** Lifetime counters of a bucket item. Other clients do not count. */
export interface BucketCounts {
  /** Admitted, net. */
  readonly requests: number
  readonly refused: number
  readonly refusedByParent: number
  /** Of `refusedByParent`, as in {@link RefusalCounts}. */
  readonly accounts?: RefusalCounts['accounts']
  /** Epoch ms; 0 if there was none. */
  readonly lastRefusedAtMs: number
  readonly unsettled?: UnsettledCount | undefined
  /** By limit, in millitokens: see `delegatedAttribute`. Absent if there are none. */
  readonly delegated?: ReadonlyMap<string, bigint> | undefined
}

export function readBucketCounts(item: Item): BucketCounts {
  const refusedByParent = readNumber(item, names.byParent) ?? 0
  const settlements = readNumber(item, names.unsettled) ?? 0
  const delegated = readDelegated(item)
  return {
    requests: readNumber(item, attributes.bucket.requests) ?? 0,
    refused: readNumber(item, names.requests) ?? 0,
    refusedByParent,
    ...(refusedByParent > 0 && readLink(item, BUCKET, 'accounts')),
    lastRefusedAtMs: readNumber(item, names.lastAt) ?? 0,
    ...(settlements > 0 && {unsettled: {settlements, lastAtMs: readNumber(item, names.unsettledAt) ?? 0}}),
    ...(delegated.size > 0 && {delegated}),
  }
}

function readDelegated(item: Item): Map<string, bigint> {
  const prefix = delegatedAttribute('')
  const found = Object.keys(item).filter(name => name.startsWith(prefix))
  return new Map(found.map(name => [name.slice(prefix.length), readBigInt(item, name) ?? 0n]))
}
