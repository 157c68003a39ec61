import {isDeepStrictEqual} from 'node:util'
import {calendarCheck} from '../../calendar/calendar-check.js'
import {InvalidInput} from '../../core/errors.js'
import {baseOf, boostedOf, isCalendarReset, type Limit, MAX_TOKENS} from '../../core/limit.js'
import {formatLimit, parseLimits} from '../../core/syntax/limit-text.js'
import {resolveFamily} from '../../inspect/family-limits.js'
import type {ActionQuestion, ActionTarget} from '../../ui/model/actions.js'
import {untilOf} from '../flags/until.js'
import {lossQuestion} from '../limits/effect.js'
import {scopeWords} from '../limits/presenter.js'
import {previewSet, type SetRequest, setAsPreviewed, setLines} from '../limits/set.js'
import {type ActionSource, NO_PROGRESS} from './action-source.js'
import {changedMeanwhile} from './changed-meanwhile.js'

/** Twice what applies now to the limit of the row, for an hour; the text is edited before it is used. */
export async function boostDraft({namespace}: ActionSource, {entity, resource, limit}: ActionTarget): Promise<string> {
  const {own} = await resolveFamily(namespace, entity, resource)
  const chosen = own.limits.find(({name}) => name === limit) ?? own.limits[0]
  return chosen ? `${formatLimit(doubled(chosen))} --for 1h` : '--for 1h'
}

/** `zael limits set … --for`, for the entity and the resource of the row. */
export async function askBoost(
  {namespace, nowMs, where}: ActionSource,
  target: ActionTarget,
  text: string,
): Promise<ActionQuestion> {
  const {entity, resource} = target
  const words = wordsOf(text)
  const {limits, flags} = boostWords(words)
  const request: SetRequest = {
    scope: {level: 'entity', entity, resource},
    limits: parseLimits(limits, calendarCheck),
    options: {until: untilOf(flags, nowMs)},
  }
  const previewed = await previewSet(namespace, request, nowMs)
  const {preview, effect} = previewed
  const loss = lossQuestion(request.scope, effect)
  const end = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value])
  return {
    command: ['limits', 'set', '--entity', entity, '--resource', resource, ...limits, ...end],
    lines: [
      `This changes the limits of ${scopeWords(request.scope)}:`,
      ...setLines(preview, effect, request, {dryRun: true, where}).slice(1),
      ...(loss === undefined ? [] : ['', loss]),
    ],
    perform: async () => {
      const now = await namespace.configs.preview(request.scope, request.limits, request.options)
      if (!isDeepStrictEqual([now.before, now.after], [preview.before, preview.after])) throw changedMeanwhile(target)
      const {change, made} = await setAsPreviewed(namespace, request, previewed, NO_PROGRESS)
      return setLines(change, made, request, {dryRun: false, where})
    },
  }
}

/** In the form in which values until an end are given: without windows of its own. */
function doubled(limit: Limit): Limit {
  const present = (limit.boost && !limit.boost.isEnded && boostedOf(limit)) || baseOf(limit)
  const {schedule: _, timeZone, ...plain} = present
  return {
    ...plain,
    ...(isCalendarReset(plain.reset) && timeZone !== undefined && {timeZone}),
    capacity: Math.min(MAX_TOKENS, 2 * plain.capacity),
    refillAmount: Math.min(MAX_TOKENS, 2 * plain.refillAmount),
  }
}

/** Separated by spaces, except inside of double quotes, which belong to crons. */
const wordsOf = (text: string): string[] => text.match(/(?:"[^"]*"|\S)+/g) ?? []

/** Limits, and an end as `zael limits set` takes it. */
function boostWords(words: readonly string[]): {
  readonly limits: readonly string[]
  readonly flags: {readonly for: string} | {readonly until: string}
} {
  const at = words.findIndex(word => word.startsWith('--'))
  const limits = at < 0 ? words : [...words.slice(0, at), ...words.slice(at + 2)]
  const [flag, value] = at < 0 ? [] : words.slice(at, at + 2)
  const other = limits.find(word => word.startsWith('--'))
  if ((flag !== '--for' && flag !== '--until') || value === undefined || other !== undefined) {
    throw new InvalidInput('watch.boost', 'A boost needs limits and one end.', {
      hint: 'Write it like tpm=200k/min --for 1h, or with --until 2026-12-01.',
    })
  }
  return {limits, flags: flag === '--for' ? {for: value} : {until: value}}
}
