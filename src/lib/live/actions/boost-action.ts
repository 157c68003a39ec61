import {isDeepStrictEqual} from 'node:util'
import {scopeWords} from '../../cli/base/scope-text.js'
import {untilOf} from '../../cli/flags/until.js'
import {previewSet, type SetRequest, setAsPreviewed, setLines, setQuestion} from '../../cli/limits/set.js'
import {plainAt} from '../../core/calendar/kind-definition.js'
import {calendarCheck} from '../../core/calendar/schedule.js'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {limitText} from '../../core/limits/boost-text.js'
import {type Limit, MAX_TOKENS} from '../../core/limits/limit.js'
import {formatLimit, parseLimits} from '../../core/limits/limit-text.js'
import {resolveFamily} from '../../insight/lookup/family-limits.js'
import type {ConfigChange} from '../../repository/limits/change-options.js'
import type {ActionQuestion, ActionTarget} from '../state/actions.js'
import {type ActionSource, NO_PROGRESS} from './switch-action.js'

export async function boostDraft(
  {namespace, nowMs}: ActionSource,
  {entity, resource, limit}: ActionTarget,
): Promise<string> {
  const {own} = await resolveFamily(namespace, entity, resource)
  const chosen = own.limits.find(({name}) => name === limit) ?? own.limits[0]
  return chosen ? `${formatLimit(doubled(chosen, nowMs))} --for 1h` : '--for 1h'
}

export async function askBoost(
  {namespace, nowMs, where}: ActionSource,
  target: ActionTarget,
  text: string,
): Promise<ActionQuestion> {
  const {entity, resource} = target
  const words = wordsOf(text)
  const {limits, flags} = boostWords(words)
  const end = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value])
  const request: SetRequest = {
    scope: {level: 'entity', entity, resource},
    limits: parseLimits(limits, calendarCheck),
    options: {until: untilOf(flags, nowMs)},
    words: [...limits, ...end],
  }
  const previewed = await previewSet(namespace, request, nowMs)
  const {planned, preview} = previewed
  const loss = setQuestion(request, previewed, where)?.question
  return {
    command: ['limits', 'set', '--entity', entity, '--resource', resource, ...request.words],
    lines: [
      `This changes the limits of ${scopeWords(request.scope)}:`,
      ...setLines(planned, preview, request, {dryRun: true, where, nowMs}).slice(1),
      ...(loss === undefined ? [] : ['', loss]),
    ],
    perform: async () => {
      const now = await namespace.configs.preview(request.scope, request.limits, request.options)
      if (!isDeepStrictEqual(shownIn(now), shownIn(planned))) throw changedMeanwhile(target)
      const {change, made} = await setAsPreviewed(namespace, request, previewed, NO_PROGRESS)
      return setLines(change, made, request, {dryRun: false, where, nowMs})
    },
  }
}

/** Compared as text: the windows of a boost depend on the hour it is made in, but mean the same. */
const shownIn = ({before, after}: ConfigChange): string[][] => [before.map(limitText), after.map(limitText)]

/** Temporary limits have no windows: uses the values in force now, perhaps those of an open window. */
function doubled(limit: Limit, nowMs: number): Limit {
  const present = plainAt(limit, nowMs)
  return {
    ...present,
    capacity: Math.min(MAX_TOKENS, 2 * present.capacity),
    refillAmount: Math.min(MAX_TOKENS, 2 * present.refillAmount),
  }
}

/** Splits at spaces, except inside double quotes, which crons need. */
const wordsOf = (text: string): string[] => text.match(/(?:"[^"]*"|\S)+/g) ?? []

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

export function changedMeanwhile({entity, resource}: ActionTarget): ZaelError {
  return new ZaelError(
    'conflict',
    'watch.changed',
    `Somebody has changed ${entity} for ${resource} since the question.`,
    {
      hint: 'Nothing was done; press the key again to see what it would do now.',
    },
  )
}
