import {formatMinute} from '../text/text.js'
import {type BoostValues, boostedOf, type Level, type Limit} from './limit.js'
import {formatLimit} from './limit-text.js'

export const plainRate = (limit: Limit): string => formatLimit(limit).slice(limit.name.length + 1)

/** The level that applies when a copy for a boost expires. */
export interface NextLevel {
  /** `undefined`: no level has limits. */
  readonly level: Level | undefined
  /** The limit of the same name. `undefined`: the level has none. */
  readonly limit: Limit | undefined
}

interface ResolvedLevels {
  readonly source: Level | undefined
  readonly trace: readonly {
    readonly level: Level
    readonly limits: readonly Limit[]
    readonly copiedUntilMs?: number | undefined
  }[]
}

/** `undefined` unless the limit is such a copy. */
export function nextLevel({source, trace}: ResolvedLevels, {name, boost}: Limit): NextLevel | undefined {
  if (!boost?.endsCopy) return undefined
  const lower = trace.slice(trace.findIndex(({level}) => level === source) + 1)
  const next = lower.find(
    ({limits, copiedUntilMs = Number.POSITIVE_INFINITY}) => limits.length > 0 && copiedUntilMs > boost.untilMs,
  )
  return {level: next?.level, limit: next?.limits.find(limit => limit.name === name)}
}

/** Without the name: `100/min:500`, or `200/min until 2026-11-17 14:37 UTC, then 100/min:500`. */
export function rateText(limit: Limit, next?: NextLevel): string {
  const boost = boostText(limit)
  if (boost === undefined) return plainRate(limit)
  if (limit.boost?.isEnded) return `${plainRate(limit)} (${boost}, ended)`
  return `${boost}, then ${afterBoost(limit, next)}`
}

function nextText({level, limit}: NextLevel): string {
  if (level === undefined) return 'no limits, so requests fail'
  return `${limit ? plainRate(limit) : 'no such limit'} (${level.replace('_', ' ')} level)`
}

export function afterBoost(limit: Limit, next?: NextLevel): string {
  if (!limit.boost?.endsCopy) return plainRate(limit)
  return next ? nextText(next) : INHERITED
}

/** Where the level is not known, or differs by resource. */
const INHERITED = 'the inherited limit'

export function limitText(limit: Limit): string {
  const boost = boostText(limit)
  if (boost === undefined) return formatLimit(limit)
  const more = limit.boost?.isEnded ? ', ended' : limit.boost?.endsCopy ? `, then ${INHERITED}` : ''
  return `${formatLimit(limit)} (${boost}${more})`
}

function boostText(limit: Limit): string | undefined {
  const boosted = boostedOf(limit)
  return limit.boost && boosted && `${plainRate(boosted)} until ${formatMinute(limit.boost.untilMs)}`
}

interface BoostForm extends BoostValues {
  readonly text: string
  readonly until: string
  readonly ended: boolean
  /** The limits of this scope are a copy that expires with the boost. The next level applies then. */
  readonly endsCopy: boolean
}

export function boostField(limit: Limit): {readonly boost?: BoostForm} {
  const boosted = boostedOf(limit)
  if (!limit.boost || !boosted) return {}
  const {capacity, refillAmount, refillPeriodSeconds} = boosted
  const until = new Date(limit.boost.untilMs).toISOString().replace('.000Z', 'Z')
  const text = formatLimit(boosted)
  const {isEnded: ended, endsCopy = false} = limit.boost
  return {boost: {capacity, refillAmount, refillPeriodSeconds, text, until, ended, endsCopy}}
}
