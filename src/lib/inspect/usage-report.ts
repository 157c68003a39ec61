import {InvalidInput} from '../core/errors.js'
import type {Limit} from '../core/limit.js'
import {type Window, windowEndMs} from '../core/window.js'
import {windowBudget} from '../core/window-budget.js'
import {chunksOf} from '../dynamo/concurrency.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {PageRequest} from '../repository/table/query.js'
import {isoSeconds} from '../schema/instant.js'
import type {UsageRecord} from '../schema/usage-record.js'
import {needEntity, needResource} from './known-names.js'
import {countedLimits, type LimitRefused, NOT_REFUSED, type RefusedUsage, refusedIn} from './refused.js'
import {type AskedUsage, withAsked} from './usage-asked.js'

const CONCURRENT_READS = 8

/** Windows read by one total; bounds the memory and the cost of a very long range. */
const MOST_WINDOWS = 20_000

/** What to report on: one entity, one resource, or both; windows of one type in a time range. */
export interface UsageSubject {
  readonly entity?: string | undefined
  readonly resource?: string | undefined
  readonly window: Window
  readonly sinceMs: number
  readonly untilMs: number
}

/** Consumption of one limit in one window, in whole tokens. */
export interface LimitShare {
  readonly name: string
  readonly tokens: number
  /** Writes that took from it, being soft, and left it in debt. */
  readonly overdrawn: number
  /** What the current limit allows in such a window; `null` where no limit of that name applies. */
  readonly budget: number | null
  /** tokens / budget. */
  readonly share: number | null
  /** Requests that this limit had too little for. */
  readonly refused: LimitRefused
}

/** Consumption in one window. */
export interface UsageWindow {
  readonly entity: string
  readonly resource: string
  readonly start: string
  readonly end: string
  readonly requests: number
  readonly refused: RefusedRequests
  readonly limits: readonly LimitShare[]
}

/** Requests that were refused, apart from the limits that refused them. */
export type RefusedRequests = Pick<RefusedUsage, 'requests' | 'byParent'>

/** Consumption of one limit of one resource over all windows of a range. */
export interface LimitTotal {
  readonly resource: string
  readonly name: string
  readonly tokens: number
  /** Writes that took from it, being soft, and left it in debt. */
  readonly overdrawn: number
  /** Windows in which it was used, and the average tokens of those. */
  readonly windows: number
  readonly average: number
  /** The largest window of one entity, including what it was charged for its children. */
  readonly peak: {readonly tokens: number; readonly entity: string; readonly start: string}
  /** Requests that it had too little for. */
  readonly refused: LimitRefused
}

/**
 * Totals over windows. A request that cascades is in the windows of its parent too, and counts once here. One that both
 * refused counts for both.
 */
export interface UsageTotals {
  readonly requests: number
  readonly refused: RefusedRequests
  readonly totals: readonly LimitTotal[]
}

/** A page of windows with what the limits would have allowed, newest first, and its totals. Unknown names are errors. */
export async function reportUsage(
  repository: NamespaceRepository,
  subject: UsageSubject,
  page: PageRequest,
): Promise<UsageTotals & {windows: UsageWindow[]; next: string | undefined}> {
  const {records, next} = await readUsage(repository, subject, page)
  if (records.length === 0 && page.cursor === undefined) await needSubject(repository, subject)
  const limits = await limitsOf(repository, records)
  const windows = records.map(record => windowOf(record, limits.get(pairOf(record)) ?? []))
  return {windows, ...(await totalsOf(repository, records)), next}
}

/** Totals per resource and limit; `complete` is false when there are too many windows and the oldest are missing. */
export async function totalUsage(
  repository: NamespaceRepository,
  subject: UsageSubject,
): Promise<UsageTotals & {windows: number; complete: boolean}> {
  const records: UsageRecord[] = []
  const complete = await walkUsage(repository, subject, record => records.push(record))
  if (records.length === 0) await needSubject(repository, subject)
  return {...(await totalsOf(repository, records)), windows: records.length, complete}
}

/** Calls `take` with every window of a range, newest first; resolves to whether that was all. */
export async function walkUsage(
  repository: NamespaceRepository,
  subject: UsageSubject,
  take: (record: UsageRecord) => unknown,
  most = MOST_WINDOWS,
): Promise<boolean> {
  let left = most
  for await (const record of repository.usage.records(subject)) {
    // One more than wanted shows that this is not all.
    if (left-- === 0) return false
    take(record)
  }
  return true
}

async function totalsOf(repository: NamespaceRepository, records: readonly UsageRecord[]): Promise<UsageTotals> {
  const totals = new Map<string, LimitTotal>()
  let requests = 0
  for (const usage of await withAsked(repository, records)) {
    requests += usage.asked.totalEvents
    addUp(totals, usage)
  }
  const refused = requestsOf(refusedIn(records))
  return {requests, refused, totals: [...totals].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, total]) => total)}
}

const requestsOf = ({requests, byParent}: RefusedUsage): RefusedRequests => ({requests, byParent})

/** Adds a window to the totals of its resource. */
function addUp(totals: Map<string, LimitTotal>, {record, asked}: AskedUsage): void {
  const {entity, resource, start} = record
  const {limits} = refusedIn([record])
  for (const name of countedLimits([record])) {
    const charged = record.tokens.get(name) ?? 0
    const id = `${resource} ${name}`
    const soFar = totals.get(id)
    const own = asked.tokens.get(name) ?? 0
    const tokens = (soFar?.tokens ?? 0) + own
    const windows = (soFar?.windows ?? 0) + (own === 0 ? 0 : 1)
    const peak = soFar && soFar.peak.tokens >= charged ? soFar.peak : {tokens: charged, entity, start}
    const average = windows === 0 ? 0 : tokens / windows
    const overdrawn = (soFar?.overdrawn ?? 0) + (record.overdrawn?.get(name) ?? 0)
    const [before, now] = [soFar?.refused ?? NOT_REFUSED, limits.get(name) ?? NOT_REFUSED]
    const refused = {requests: before.requests + now.requests, tokens: before.tokens + now.tokens}
    totals.set(id, {resource, name, tokens, overdrawn, windows, average, peak, refused})
  }
}

async function readUsage({usage}: NamespaceRepository, subject: UsageSubject, page: PageRequest) {
  const {entity, resource} = subject
  if (entity !== undefined) return usage.ofEntity(entity, {...subject, ...page})
  if (resource !== undefined) return usage.ofResource(resource, {...subject, ...page})
  throw new InvalidInput('usage.subject', 'Neither an entity nor a resource is named.', {
    hint: 'Name an entity, a resource with --resource, or both.',
  })
}

async function needSubject(repository: NamespaceRepository, {entity, resource}: UsageSubject): Promise<void> {
  if (entity !== undefined) await needEntity(repository, entity)
  if (resource !== undefined) await needResource(repository, resource)
}

/** The current limits for every entity and resource among the records. */
async function limitsOf({configs}: NamespaceRepository, records: readonly UsageRecord[]) {
  const pairs = new Map(records.map(record => [pairOf(record), record]))
  const limits = new Map<string, readonly Limit[]>()
  for await (const chunk of chunksOf(pairs, CONCURRENT_READS)) {
    await Promise.all(
      chunk.map(async ([pair, {entity, resource}]) => {
        limits.set(pair, (await configs.resolve(entity, resource)).limits)
      }),
    )
  }
  return limits
}

function windowOf(record: UsageRecord, limits: readonly Limit[]): UsageWindow {
  const {entity, resource, window, start, totalEvents: requests} = record
  const refused = refusedIn([record])
  const shares = countedLimits([record]).map(name => {
    const tokens = record.tokens.get(name) ?? 0
    const limit = limits.find(each => each.name === name)
    // What a quota or a schedule allows in a window of usage depends on the calendar.
    const budget = limit && !limit.reset && !limit.schedule ? windowBudget(limit, window, start) : null
    const share = budget === null ? null : tokens / budget
    const overdrawn = record.overdrawn?.get(name) ?? 0
    return {name, tokens, overdrawn, budget, share, refused: refused.limits.get(name) ?? NOT_REFUSED}
  })
  const end = isoSeconds(windowEndMs(window, start))
  return {entity, resource, start, end, requests, refused: requestsOf(refused), limits: shares}
}

const pairOf = ({entity, resource}: UsageRecord): string => `${entity} ${resource}`
