import {moneyDecimal} from '../../core/text/money.js'
import {type Window, windowEndMs, windowStart} from '../../core/window.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import {countedLimits, NOT_REFUSED, providerTotal, refusedByOthers, refusedIn} from './refused.js'

/** Batches wait for up to five minutes, and counts of refusals for ten seconds more. */
const LATE_MS = 10 * 60_000

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

/** One limit in one window, as the schema of `zael usage export` describes it. */
export type ExportedUsage = Readonly<ReturnType<typeof rowsOf>[number]>

function rowsOf(
  record: UsageRecord,
  {parent, open}: {readonly parent: string | null; readonly open: boolean},
  units: ReadonlyMap<string, string>,
) {
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
