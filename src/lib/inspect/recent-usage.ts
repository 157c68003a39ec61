import type {Consumption} from '../core/consumption.js'
import {windowStart} from '../core/window.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {UsageRecord} from '../schema/usage-record.js'
import {limitNames, type Refused, refusedIn} from './refused.js'

const HOUR_MS = 3_600_000

/** Hours of which the typical request is the average, the current one included. */
export const TYPICAL_HOURS = 24

/** What a bucket was asked for lately, by its usage records. */
export interface RecentUsage {
  /** The average request of the last hours, in whole tokens rounded up; `undefined` when none is recorded. */
  readonly typical: Consumption | undefined
  /** Since the start of the hour before this one. */
  readonly refused: Refused
  /** That start, UTC. */
  readonly refusedSince: string
}

/** Reads the last hours of one bucket, in one query. */
export async function recentUsage(
  {usage}: Pick<NamespaceRepository, 'usage'>,
  entity: string,
  resource: string,
  nowMs: number,
): Promise<RecentUsage> {
  const sinceMs = nowMs - (TYPICAL_HOURS - 1) * HOUR_MS
  const range = {window: 'hourly', sinceMs, untilMs: nowMs + 1, limit: TYPICAL_HOURS} as const
  const {records} = await usage.ofEntity(entity, {resource, ...range})
  const refusedSince = windowStart('hourly', nowMs - HOUR_MS)
  return {
    typical: typicalRequest(records),
    refused: refusedIn(records.filter(({start}) => start >= refusedSince)),
    refusedSince,
  }
}

/** The average of admitted requests; where none was admitted, of those that limits had too little for. */
function typicalRequest(records: readonly UsageRecord[]): Consumption | undefined {
  const requests = records.reduce((sum, {totalEvents}) => sum + totalEvents, 0)
  const {limits} = refusedIn(records)
  const averages = limitNames(records).flatMap((name): [string, number][] => {
    const tokens = records.reduce((sum, record) => sum + (record.tokens.get(name) ?? 0), 0)
    const refused = limits.get(name)
    if (requests > 0 && tokens > 0) return [[name, Math.ceil(tokens / requests)]]
    return requests <= 0 && refused ? [[name, Math.ceil(refused.tokens / refused.requests)]] : []
  })
  return averages.length > 0 ? Object.fromEntries(averages) : undefined
}
