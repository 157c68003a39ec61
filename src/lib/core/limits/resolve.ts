import type {Limit} from './limit.js'

/** Where limits can be configured, most specific first. The spelling is shared with other clients. */
export const LEVELS = ['entity', 'entity_default', 'resource', 'system'] as const

export type Level = (typeof LEVELS)[number]

/** The limits configured at each level; a level may be absent or empty. */
export type LimitsByLevel = Readonly<Partial<Record<Level, readonly Limit[]>>>

export interface ResolvedLimits {
  readonly source: Level
  readonly limits: readonly Limit[]
}

/**
 * The first level that has any limit wins as a whole: limits of different levels are never mixed, so an operator can
 * read off one record what applies. `undefined` when nothing is configured anywhere.
 */
export function resolveLimits(configured: LimitsByLevel): ResolvedLimits | undefined {
  for (const source of LEVELS) {
    const limits = configured[source]
    if (limits && limits.length > 0) return {source, limits}
  }
  return undefined
}
