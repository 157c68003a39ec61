import {windowStart} from '../../core/window.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {RefusalCounts} from '../../schema/refusal-counts.js'
import type {UsageRecord} from '../../schema/usage-record.js'

const HOUR_MS = 3_600_000

export interface RefusedUsage {
  /** By the entity's own limits, each request once. */
  readonly requests: number
  /** Only by the parent; also counted there. */
  readonly byParent: number
  /** Whole tokens requested, by exceeded limit. */
  readonly limits: ReadonlyMap<string, LimitRefused>
  /** Epoch ms. `undefined`: none refused. */
  readonly lastAtMs: number | undefined
}

export interface LimitRefused {
  readonly requests: number
  readonly tokens: number
}

export const NOT_REFUSED: LimitRefused = {requests: 0, tokens: 0}

const NOTHING_REFUSED: RefusedUsage = {requests: 0, byParent: 0, limits: new Map(), lastAtMs: undefined}

export function refusedIn(records: Iterable<Pick<UsageRecord, 'refused'>>): RefusedUsage {
  let all: RefusedUsage | undefined
  for (const record of records) all = withRefused(all, record)
  return all ?? NOTHING_REFUSED
}

export function withRefused(
  soFar: RefusedUsage = NOTHING_REFUSED,
  {refused}: Pick<UsageRecord, 'refused'>,
): RefusedUsage {
  if (!refused) return soFar
  const limits = new Map(soFar.limits)
  for (const [name] of refused.limits) limits.set(name, sum(limits.get(name), refused, name))
  const lastAtMs = Math.max(soFar.lastAtMs ?? 0, refused.lastAtMs)
  return {
    requests: soFar.requests + refused.requests,
    byParent: soFar.byParent + refused.byParent,
    limits,
    lastAtMs: lastAtMs > 0 ? lastAtMs : undefined,
  }
}

function sum(known: LimitRefused = NOT_REFUSED, {limits}: RefusalCounts, name: string): LimitRefused {
  const {requests, tokens} = limits.get(name) ?? {requests: 0, tokens: 0n}
  return {requests: known.requests + requests, tokens: known.tokens + Number(tokens)}
}

export function countedLimits(records: Iterable<Pick<UsageRecord, 'tokens' | 'refused'>>): string[] {
  const names = new Set<string>()
  for (const {tokens, refused} of records) {
    for (const name of tokens.keys()) names.add(name)
    for (const name of refused?.limits.keys() ?? []) names.add(name)
  }
  return [...names].sort()
}

/** `refusedSince` is the start of the previous hour, UTC. */
export async function recentlyRefused(
  {usage}: Pick<NamespaceRepository, 'usage'>,
  entity: string,
  resource: string,
  nowMs: number,
): Promise<{refused: RefusedUsage; refusedSince: string}> {
  const range = {window: 'hourly', sinceMs: nowMs - HOUR_MS, untilMs: nowMs + 1, limit: 2} as const
  const {records} = await usage.ofEntity(entity, {resource, ...range})
  return {refused: refusedIn(records), refusedSince: windowStart('hourly', nowMs - HOUR_MS)}
}
