import {nextResetMs, resetsOf} from '../../core/calendar/kind-definition.js'
import type {DeepReadonly} from '../../core/deep-readonly.js'
import {InvalidInput} from '../../core/errors.js'
import {isInFlight, isSessionReset, type Limit} from '../../core/limits/limit.js'
import {type Window, windowEndMs} from '../../core/window.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import type {BucketView} from '../../repository/buckets/view.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {PageRequest} from '../../repository/table/query.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import {needEntity, needResource} from '../lookup/known-names.js'
import {
  countedLimits,
  type LimitRefused,
  NOT_REFUSED,
  type RefusedRequests,
  type RefusedUsage,
  refusedIn,
  requestsOf,
  withRefused,
} from './refused.js'
import {type AskedFigures, AskedUsage} from './usage-asked.js'

const CONCURRENT_READS = 8

/** Per resource or entity. Bounds the cost of a very long range, at one read unit each. */
export const MOST_WINDOWS = 1_000_000

export interface UsageSubject {
  readonly entity?: string | undefined
  readonly resource?: string | undefined
  readonly window: Window
  readonly sinceMs: number
  readonly untilMs: number
}

export interface LimitTotal {
  readonly resource: string
  readonly name: string
  readonly tokens: number
  readonly overdrawn: number
  /** Windows with usage. `average` covers these only. */
  readonly windows: number
  readonly average: number
  /** Largest window of one entity, including charges for its children. */
  readonly peak: {readonly tokens: number; readonly entity: string; readonly start: string}
  readonly refused: LimitRefused
}

/** A cascading request counts once. */
export interface UsageTotals {
  readonly requests: number
  /** Of these requests, up to so many count twice if an entity changed its parent. */
  readonly doubtful: number
  readonly refused: RefusedRequests
  /** Of these refusals, up to so many count twice: an entity and its parent both refused the request. */
  readonly refusedTwice: number
  readonly totals: readonly LimitTotal[]
}

/** Newest first. Throws for unknown names. */
export async function reportUsage(
  repository: NamespaceRepository,
  subject: UsageSubject,
  page: PageRequest,
): Promise<UsageTotals & {windows: UsageWindow[]; next: string | undefined}> {
  const {records, next} = await readUsage(repository, subject, page)
  if (records.length === 0 && page.cursor === undefined) await needSubject(repository, subject)
  const limits = await limitsOf(repository, records)
  const windows = records.map(record => windowOf(record, limits.get(pairOf(record)) ?? []))
  const sum = new UsageSum(repository)
  for (const record of records) await sum.add(record)
  const isPart = next !== undefined || page.cursor !== undefined
  return {windows, ...(await sum.end(isPart)), next}
}

/** `complete` is false if there are too many windows and the oldest are missing. */
export async function totalUsage(
  repository: NamespaceRepository,
  subject: UsageSubject,
  onProgress?: (windows: number) => void,
): Promise<UsageTotals & {windows: number; complete: boolean}> {
  const sum = new UsageSum(repository)
  let windows = 0
  const take = (record: UsageRecord) => {
    windows++
    onProgress?.(windows)
    return sum.add(record)
  }
  const complete = await walkUsage(repository, subject, take)
  if (windows === 0) await needSubject(repository, subject)
  return {...(await sum.end(!complete)), windows, complete}
}

/** Newest first. Resolves to false if there are more than `most`. */
export async function walkUsage(
  repository: NamespaceRepository,
  subject: UsageSubject,
  take: (record: UsageRecord) => unknown,
  most = MOST_WINDOWS,
): Promise<boolean> {
  let left = most
  for await (const record of repository.usage.records(subject)) {
    // One extra shows that there are more.
    if (left-- === 0) return false
    await take(record)
  }
  return true
}

type LimitSum = Omit<LimitTotal, 'average'>

/** Keeps only the windows of the current instant. */
class UsageSum {
  readonly #totals = new Map<string, LimitSum>()
  readonly #asked: AskedUsage
  #requests = 0
  #refused: RefusedUsage | undefined

  constructor(repository: NamespaceRepository) {
    this.#asked = new AskedUsage(repository, (asked, resource) => this.#addAsked(asked, resource))
  }

  async add(record: UsageRecord): Promise<void> {
    this.#refused = withRefused(this.#refused, record)
    this.#addCharged(record)
    await this.#asked.add(record)
  }

  async end(isPart: boolean): Promise<UsageTotals> {
    await this.#asked.end()
    const refusedTwice = await this.#asked.refusedTwice(isPart)
    const refused = requestsOf(this.#refused ?? refusedIn([]))
    const sorted = [...this.#totals].sort(([a], [b]) => (a < b ? -1 : 1))
    const totals = sorted.map(([, {resource, name, tokens, overdrawn, windows, peak, refused: own}]) => {
      const average = windows === 0 ? 0 : tokens / windows
      return {resource, name, tokens, overdrawn, windows, average, peak, refused: own}
    })
    return {requests: this.#requests, doubtful: this.#asked.doubtful, refused, refusedTwice, totals}
  }

  #addCharged(record: UsageRecord): void {
    const {entity, resource, start} = record
    const {limits} = refusedIn([record])
    for (const name of countedLimits([record])) {
      const charged = record.tokens.get(name) ?? 0
      const id = `${resource} ${name}`
      const soFar = this.#totals.get(id)
      const peak = soFar && soFar.peak.tokens >= charged ? soFar.peak : {tokens: charged, entity, start}
      const overdrawn = (soFar?.overdrawn ?? 0) + (record.overdrawn?.get(name) ?? 0)
      const [before, now] = [soFar?.refused ?? NOT_REFUSED, limits.get(name) ?? NOT_REFUSED]
      const refused = {requests: before.requests + now.requests, tokens: before.tokens + now.tokens}
      const {tokens = 0, windows = 0} = soFar ?? {}
      this.#totals.set(id, {resource, name, tokens, overdrawn, windows, peak, refused})
    }
  }

  #addAsked({totalEvents, tokens}: AskedFigures, resource: string): void {
    this.#requests += totalEvents
    for (const [name, own] of tokens) {
      const id = `${resource} ${name}`
      const soFar = this.#totals.get(id) as LimitSum
      this.#totals.set(id, {...soFar, tokens: soFar.tokens + own, windows: soFar.windows + (own === 0 ? 0 : 1)})
    }
  }
}

async function readUsage({usage}: NamespaceRepository, subject: UsageSubject, page: PageRequest) {
  const {entity, resource} = subject
  if (entity !== undefined) return usage.ofEntity(entity, {...subject, ...page})
  if (resource !== undefined) return usage.ofResource(resource, {...subject, ...page})
  throw new InvalidInput('usage.subject', 'No entity and no resource was given.', {
    hint: 'Give an entity, --resource NAME, or both.',
  })
}

async function needSubject(repository: NamespaceRepository, {entity, resource}: UsageSubject): Promise<void> {
  if (entity !== undefined) await needEntity(repository, entity)
  if (resource !== undefined) await needResource(repository, resource)
}

interface BudgetedLimit extends Limit {
  /** Added to a quota in its current period. */
  readonly topUp?: {readonly tokens: number; readonly sinceMs: number} | undefined
}

async function limitsOf(repository: NamespaceRepository, records: readonly UsageRecord[]) {
  const pairs = new Map(records.map(record => [pairOf(record), record]))
  const limits = new Map<string, readonly BudgetedLimit[]>()
  for await (const chunk of chunksOf(pairs, CONCURRENT_READS)) {
    await Promise.all(
      chunk.map(async ([pair, {entity, resource}]) => {
        const found = (await repository.configs.resolve({entity, resource})).limits
        const bucket = found.some(({reset}) => reset) ? await repository.bucket({entity, resource}) : undefined
        limits.set(
          pair,
          found.map(limit => ({...limit, topUp: topUpOf(limit, bucket)})),
        )
      }),
    )
  }
  return limits
}

function topUpOf(limit: Limit, bucket: BucketView | undefined): BudgetedLimit['topUp'] {
  const {toppedUp: tokens = 0, resetsAt} = bucket?.limits.find(({name}) => name === limit.name) ?? {}
  if (tokens === 0 || resetsAt === undefined) return undefined
  const resetMs = Date.parse(resetsAt)
  const {reset} = limit
  const sinceMs = isSessionReset(reset) ? resetMs - reset.afterSeconds * 1000 : resetsOf(limit)?.lastReset(resetMs - 1)
  return sinceMs === undefined ? undefined : {tokens, sinceMs}
}

export type UsageWindow = DeepReadonly<ReturnType<typeof windowOf>>

/** In whole tokens. */
export type LimitShare = UsageWindow['limits'][number]

function windowOf(record: UsageRecord, limits: readonly BudgetedLimit[]) {
  const {entity, resource, window, start, totalEvents: requests} = record
  const refused = refusedIn([record])
  const shares = countedLimits([record]).map(name => {
    const tokens = record.tokens.get(name) ?? 0
    const limit = limits.find(each => each.name === name)
    const {topUp} = limit ?? {}
    const added = topUp && topUp.sinceMs < windowEndMs(window, start) ? topUp.tokens : 0
    // The amount that the current limit allows in such a window, with top-ups. `null`: no such limit, or it has a schedule.
    const budget = limit && !limit.schedule && !isInFlight(limit) ? windowBudget(limit, window, start) + added : null
    const share = budget === null ? null : tokens / budget
    const overdrawn = record.overdrawn?.get(name) ?? 0
    return {name, tokens, overdrawn, budget, share, refused: refused.limits.get(name) ?? NOT_REFUSED}
  })
  const end = isoSeconds(windowEndMs(window, start))
  return {entity, resource, start, end, requests, refused: requestsOf(refused), limits: shares}
}

const pairOf = ({entity, resource}: UsageRecord): string => `${entity} ${resource}`

/**
 * Whole tokens: the refill of the window, or the burst if that is more. A burst on top can exceed it once. For a quota,
 * the allowances that begin in the window, at least one.
 */
export function windowBudget(limit: Limit, window: Window, start: string): number {
  const {capacity, refillAmount, refillPeriodSeconds, reset} = limit
  const [startMs, endMs] = [Date.parse(start), windowEndMs(window, start)]
  const seconds = (endMs - startMs) / 1000
  if (isSessionReset(reset)) return capacity * Math.max(1, Math.floor(seconds / reset.afterSeconds))
  if (reset) return capacity * Math.max(1, resetsWithin(limit, startMs, endMs))
  return Math.max(capacity, Math.floor((refillAmount * seconds) / refillPeriodSeconds))
}

function resetsWithin(limit: Limit, startMs: number, endMs: number): number {
  let count = 0
  for (let atMs = nextResetMs(limit, startMs - 1); atMs !== undefined && atMs < endMs; atMs = nextResetMs(limit, atMs))
    count++
  return count
}
