import type {Limit} from './limit.js'

/** Where limits can be configured, most specific first. Other clients use the same spelling. */
export const LEVELS = ['entity', 'entity_default', 'resource', 'system'] as const

export type Level = (typeof LEVELS)[number]

/** The limits configured at each level; a level may be absent or empty. */
export type LimitsByLevel = Readonly<Partial<Record<Level, readonly Limit[]>>>

export interface ResolvedLimits {
  readonly source: Level
  readonly limits: readonly Limit[]
}

/** The most specific level with limits applies as a whole; levels are never mixed. `undefined` if none has any. */
export function resolveLimits(configured: LimitsByLevel): ResolvedLimits | undefined {
  for (const source of LEVELS) {
    const limits = configured[source]
    if (limits && limits.length > 0) return {source, limits}
  }
  return undefined
}
