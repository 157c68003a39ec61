import {formatMinute} from '../text/text.js'
import {type BoostValues, boostedOf, type Limit} from './limit.js'
import {formatLimit} from './limit-text.js'

export const plainRate = (limit: Limit): string => formatLimit(limit).slice(limit.name.length + 1)

/** Without the name: `100/min:500`, or `200/min until 2026-11-17 14:37 UTC, then 100/min:500`. */
export function rateText(limit: Limit): string {
  const boost = boostText(limit)
  if (boost === undefined) return plainRate(limit)
  return limit.boost?.isEnded ? `${plainRate(limit)} (${boost}, ended)` : `${boost}, then ${afterBoost(limit)}`
}

export const afterBoost = (limit: Limit): string => (limit.boost?.endsCopy ? NEXT_LEVEL : plainRate(limit))

const NEXT_LEVEL = 'the next level'

export function limitText(limit: Limit): string {
  const boost = boostText(limit)
  if (boost === undefined) return formatLimit(limit)
  const more = limit.boost?.isEnded ? ', ended' : limit.boost?.endsCopy ? `, then ${NEXT_LEVEL}` : ''
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
