import {moneyDecimal} from '../../core/text/money.js'
import {type Window, windowEndMs, windowStart} from '../../core/window.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import {countedLimits, NOT_REFUSED, providerTotal, refusedByOthers, refusedIn} from './refused.js'

/** Batches wait for up to five minutes, and counts of refusals for ten seconds more. */
const LATE_MS = 10 * 60_000

/** One limit in one window. The columns of files are the same in every version. */
export interface ExportedUsage {
  readonly entity: string
  readonly parent: string | null
  readonly resource: string
  readonly window: Window
  readonly start: string
  /** Usage may still arrive. */
  readonly open: boolean
  /** Admitted. The three counts of requests belong to the window, so each of its rows has them. */
  readonly requests: number
  /** By limits of the entity itself, each request once. */
  readonly requestsRefused: number
  readonly requestsRefusedByParent: number
  readonly requestsRefusedByProvider: number
  /** `null`: requests were counted, but no limit. */
  readonly limit: string | null
  /** Currency; `null`: tokens. */
  readonly unit: string | null
  /** Whole tokens, net of refunds: millionths of the unit, if there is one. */
  readonly consumed: number
  /** The same in the unit, as an exact decimal. */
  readonly amount: string | null
  readonly overdrawn: number
  /** Requests that exceeded this limit. */
  readonly refused: number
  readonly refusedTokens: number
  readonly refusedAmount: string | null
  /** Of `requestsRefused`, because the entity or resource was disabled; also the same in each row. */
  readonly requestsBlocked: number
}

export interface ExportRequest {
  readonly window: Window
  readonly sinceMs: number
  readonly untilMs: number
}

/** From the start of the first window to the end of the last: only whole windows are exported. */
export function wholeWindows({window, sinceMs, untilMs}: ExportRequest): {sinceMs: number; untilMs: number} {
  return {
    sinceMs: Date.parse(windowStart(window, sinceMs)),
    untilMs: windowEndMs(window, windowStart(window, untilMs - 1)),
  }
}

/** All usage of a namespace, by entity, each newest first. Holds some pages in memory. */
export async function* exportUsage(
  {entities, usage, configs}: NamespaceRepository,
  request: ExportRequest,
  nowMs: number,
): AsyncGenerator<ExportedUsage, void> {
  const units = await configs.units()
  for await (const {of, record} of usage.ofEntities(entities.everyId(), request)) {
    const open = windowEndMs(record.window, record.start) + LATE_MS > nowMs
    yield* rowsOf(record, {parent: of.record?.parent ?? null, open}, units)
  }
}

function rowsOf(
  record: UsageRecord,
  {parent, open}: Pick<ExportedUsage, 'parent' | 'open'>,
  units: ReadonlyMap<string, string>,
): ExportedUsage[] {
  const {entity, resource, window, start, totalEvents: requests} = record
  const refusals = refusedIn([record])
  const {requests: requestsRefused, blocked, limits} = refusals
  const {byParent: requestsRefusedByParent, byProvider} = refusedByOthers(refusals)
  const requestsRefusedByProvider = providerTotal(byProvider)
  const counts = {requests, requestsRefused, requestsRefusedByParent}
  const names = countedLimits([record])
  return (names.length === 0 ? [null] : names).flatMap(limit => {
    const consumed = record.tokens.get(limit ?? '') ?? 0
    const overdrawn = record.overdrawn?.get(limit ?? '') ?? 0
    const {requests: refused, tokens: refusedTokens} = limits.get(limit ?? '') ?? NOT_REFUSED
    // Refunds may leave nothing.
    if ([...Object.values(counts), requestsRefusedByProvider, consumed, overdrawn, refused].every(count => count === 0))
      return []
    const unit = units.get(limit ?? '') ?? null
    const money = (tokens: number) => (unit === null ? null : moneyDecimal(tokens))
    return [
      {
        ...{entity, parent, resource, window, start, open, ...counts, limit, unit},
        ...{consumed, amount: money(consumed), overdrawn},
        ...{
          refused,
          refusedTokens,
          refusedAmount: money(refusedTokens),
          requestsBlocked: blocked,
          requestsRefusedByProvider,
        },
      },
    ]
  })
}
