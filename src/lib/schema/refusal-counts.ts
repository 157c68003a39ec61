import {type AttributeValue, type Item, n, readBigInt, readNumber} from './attribute-value.js'
import {attributes} from './attributes.js'

export interface LimitRefusals {
  readonly requests: number
  /** Whole tokens requested. */
  readonly tokens: bigint
}

export interface RefusalCounts {
  /** Counts a request once, however many limits refused it. */
  readonly requests: number
  /** Requests that this bucket would have admitted and the parent's refused. */
  readonly byParent: number
  /** Of `requests`, refused by a switch: no limit counts them. Absent if there were none. */
  readonly blocked?: number | undefined
  readonly lastAtMs: number
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
}

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
}
const USAGE: Spelling = {
  ...{requests: 'n', byParent: 'p', blocked: 'b', lastAt: 'at'},
  ...{requestsPrefix: 'r:', tokensPrefix: 't:'},
}

export const isRefusalAttribute = (attribute: string): boolean =>
  attribute.startsWith(BUCKET.requestsPrefix) ||
  attribute.startsWith(BUCKET.tokensPrefix) ||
  attribute === BUCKET.requests ||
  attribute === BUCKET.byParent ||
  attribute === BUCKET.blocked ||
  attribute === BUCKET.lastAt

export const bucketRefusals = (counts: RefusalCounts) => spell(counts, BUCKET)

export const usageRefusals = (counts: RefusalCounts) => spell(counts, USAGE)

interface SpelledCounts {
  readonly added: ReadonlyMap<string, bigint>
  readonly lastAt: readonly [name: string, epochMs: number]
}

/** Stores tokens minus requests: limits that count requests then need no second number. */
function spell({requests, byParent, blocked = 0, lastAtMs, limits}: RefusalCounts, spelling: Spelling): SpelledCounts {
  const added = new Map<string, bigint>([
    [spelling.requests, BigInt(requests)],
    [spelling.byParent, BigInt(byParent)],
    [spelling.blocked, BigInt(blocked)],
  ])
  for (const [limit, {requests: count, tokens}] of limits) {
    added.set(spelling.requestsPrefix + limit, BigInt(count))
    added.set(spelling.tokensPrefix + limit, tokens - BigInt(count))
  }
  return {added: new Map([...added].filter(([, count]) => count !== 0n)), lastAt: [spelling.lastAt, lastAtMs]}
}

export const readRefusals = (item: Item): RefusalCounts => read(item, BUCKET)

export function readUsageRefusals(item: Item): RefusalCounts | undefined {
  const value = item[attributes.usage.refusals]
  return value && 'M' in value ? read(value.M, USAGE) : undefined
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
    lastAtMs: readNumber(item, spelling.lastAt) ?? 0,
    limits,
  }
}

export function encodeUsageRefusals(counts: RefusalCounts): AttributeValue {
  const {added, lastAt} = usageRefusals(counts)
  const entries: Item = {[lastAt[0]]: n(lastAt[1])}
  for (const [name, count] of added) entries[name] = n(count)
  return {M: entries}
}

export const hasRefusals = ({requests, byParent, limits}: RefusalCounts): boolean =>
  requests !== 0 || byParent !== 0 || limits.size > 0

export function addRefusals(all: Iterable<RefusalCounts>): RefusalCounts {
  let [requests, byParent, blocked, lastAtMs] = [0, 0, 0, 0]
  const limits = new Map<string, LimitRefusals>()
  for (const counts of all) {
    requests += counts.requests
    byParent += counts.byParent
    blocked += counts.blocked ?? 0
    lastAtMs = Math.max(lastAtMs, counts.lastAtMs)
    for (const [limit, more] of counts.limits) {
      const known = limits.get(limit) ?? {requests: 0, tokens: 0n}
      limits.set(limit, {requests: known.requests + more.requests, tokens: known.tokens + more.tokens})
    }
  }
  return {requests, byParent, ...(blocked !== 0 && {blocked}), lastAtMs, limits}
}

/** Lifetime counters of a bucket item. Other clients do not count. */
export interface BucketCounts {
  /** Admitted, net. */
  readonly requests: number
  readonly refused: number
  readonly refusedByParent: number
  /** Epoch ms; 0 if there was none. */
  readonly lastRefusedAtMs: number
}

export function readBucketCounts(item: Item): BucketCounts {
  return {
    requests: readNumber(item, attributes.bucket.requests) ?? 0,
    refused: readNumber(item, names.requests) ?? 0,
    refusedByParent: readNumber(item, names.byParent) ?? 0,
    lastRefusedAtMs: readNumber(item, names.lastAt) ?? 0,
  }
}
