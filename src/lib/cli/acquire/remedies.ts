import {openWindow, plainAt} from '../../core/calendar/in-force.js'
import {isoMinute} from '../../core/calendar/windows-until.js'
import {formatAmount} from '../../core/limits/amount-text.js'
import {type BoostValues, baseOf, type Limit, MAX_TOKENS, type ScheduleEntry} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import {formatWait, shellWord} from '../../core/text/text.js'
import type {ExplainedLimit} from '../../insight/why/explain.js'
import {scopeArguments, scopeWords} from '../base/scope-text.js'

export type Remedy = readonly [command: string, purpose: string]

/**
 * Commands that help against an exceeded limit, those first that help at once: add to the quota, refill the bucket, or raise
 * the limit for this entity and resource alone, whatever the level it is set at. Limits that are not named stay in force.
 * `where`: flags to append.
 */
export function remedies(limit: ExplainedLimit, atMs: number, where = ''): Remedy[] {
  if (!limit.exceeded) return []
  const {configured, requested, entity, resource, capacity} = limit
  const refill: Remedy = [
    `zael bucket reset ${shellWord(entity)} --resource ${shellWord(resource)}${where}`,
    `refill the bucket of ${entity} once, now`,
  ]
  const raise = raising(limit, atMs, where)
  return [
    ...(configured.reset ? [topUp(limit, where)] : []),
    ...(requested > capacity ? [] : [refill]),
    ...(raise ? [raise] : []),
  ]
}

/**
 * Raises what applies when the command takes effect: now, or for a quota at its next reset. That may be a window of the
 * schedule. Values that end by themselves are raised until their end: without one, the command would end them, or would
 * make a copy for good that was made for them. Nothing where that comes too late, or would be what follows the end.
 */
function raising(limit: ExplainedLimit, atMs: number, where: string): Remedy | undefined {
  const {configured, requested, entity, resource, resetsAtMs, copiedUntilMs} = limit
  const scope = {level: 'entity', entity, resource} as const
  const fromMs = resetsAtMs ?? atMs
  const untilMs = configured.boost?.isEnded === false ? configured.boost.untilMs : copiedUntilMs
  if (untilMs !== undefined && untilMs <= fromMs) return undefined
  const base = baseOf(configured)
  const present = plainAt(untilMs === undefined ? base : configured, fromMs)
  const isTooSmall = requested > present.capacity
  const values = {
    capacity: isTooSmall ? requested : doubled(present.capacity),
    refillAmount: isTooSmall ? present.refillAmount : doubled(present.refillAmount),
    refillPeriodSeconds: present.refillPeriodSeconds,
  }
  if (untilMs !== undefined && !base.schedule && hasValues(base, values)) return undefined
  const window = untilMs === undefined ? openWindow(base, fromMs) : undefined
  const raised = untilMs === undefined ? withValues(base, window, values) : {...present, ...values}
  const end = untilMs === undefined ? '' : ` --until ${isoMinute(untilMs)}`
  const command = `zael limits set ${scopeArguments(scope)} ${shellWord(formatLimit(raised))}${end}${where}`
  const inWindow = window === undefined ? '' : ` in its window "${base.schedule?.[window]?.cron}"`
  const whose = `of ${scopeWords(scope)}${inWindow}`
  if (isTooSmall) return [command, `raise the ${base.reset ? 'quota' : 'burst'} ${whose} to the requested amount`]
  return [command, `double the ${base.reset ? 'quota' : 'rate'} ${whose}${raisedFrom(limit)}`]
}

/** A limit with other values, or one whose schedule has them in one of its windows. */
function withValues(limit: Limit, window: number | undefined, values: BoostValues): Limit {
  const {schedule = [], reset} = limit
  if (window === undefined) return {...limit, ...values}
  const {capacity} = values
  const changed = (entry: ScheduleEntry): ScheduleEntry => {
    const {cron} = entry
    if (!reset) return {cron, ...values}
    return 'scale' in entry ? {cron, capacity} : {...entry, capacity}
  }
  return {...limit, schedule: schedule.map((entry, at) => (at === window ? changed(entry) : entry))}
}

const hasValues = (limit: Limit, values: BoostValues): boolean =>
  (['capacity', 'refillAmount', 'refillPeriodSeconds'] as const).every(key => limit[key] === values[key])

/** From when on twice the rate or quota admits the request: what is missing is not given with it. */
function raisedFrom({configured: {reset, schedule}, retryAfterMs}: ExplainedLimit): string {
  if (reset) return ', from its next reset on'
  const isPlain = schedule === undefined && Number.isFinite(retryAfterMs)
  return isPlain ? `; clears in ${formatWait(Math.ceil(retryAfterMs / 2))}` : ''
}

function topUp({entity, resource, name, deficit, configured}: ExplainedLimit, where: string): Remedy {
  const amount = shellWord(`${name}=${formatAmount(deficit, configured.unit)}`)
  return [
    `zael bucket top-up ${shellWord(entity)} ${shellWord(resource)} ${amount}${where}`,
    'add what is missing until the reset',
  ]
}

function doubled(tokens: number): number {
  return Math.min(MAX_TOKENS, 2 * tokens)
}
