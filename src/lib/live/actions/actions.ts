import type {StackContext} from '../../cli/base/context.js'
import {asFailure} from '../../cli/base/failure.js'
import {withNearestNames, withWhere} from '../../cli/base/hints.js'
import {type Settings, typedFlags, typedFlagWords} from '../../cli/base/settings.js'
import {resetBucket, resetQuestion} from '../../cli/bucket/operations.js'
import {plainLine} from '../../cli/output/paint.js'
import {factLines} from '../../cli/output/text-table.js'
import {formatNumber, formatTokens, shellWord} from '../../core/text/text.js'
import {bucketsOf} from '../../insight/lookup/bucket-search.js'
import type {LimitLevel} from '../../repository/buckets/view.js'
import {Repository} from '../../repository/repository.js'
import {untilAborted} from '../../repository/table/table.js'
import type {ActionQuestion, ActionTarget, BucketActions} from '../state/actions.js'
import {askBoost, boostDraft, changedMeanwhile} from './boost-action.js'
import {type ActionSource, askBlock, askUnblock} from './switch-action.js'

/** Uses the commands' own functions and principal. Reads everything anew to ask, and again to act. */
export function bucketActions(stack: StackContext, settings: Settings, signal: AbortSignal): BucketActions {
  const {principal, table} = stack
  const {transport, backoff} = untilAborted(table, signal)
  const seams = {stack: stack.stack, transport, clock: table.clock, sleep: backoff.sleep}
  const repository = new Repository(principal ? {...seams, principal} : seams)
  const source = async (): Promise<ActionSource> => {
    const namespace = await repository.namespace(settings.namespace.value)
    return {namespace, nowMs: table.clock(), where: typedFlags(settings)}
  }
  const explained = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      throw asFailure(withWhere(await withNearestNames(error, stack), settings, process.env))
    }
  }
  const ask = {reset: askReset, boost: askBoost, block: askBlock, unblock: askUnblock} as const
  return {
    boostText: target => explained(async () => boostDraft(await source(), target)),
    ask: (kind, target, text) =>
      explained(async () => {
        const question = await ask[kind](await source(), target, text ?? '')
        const {command, lines} = question
        /** Somebody may have thrown a switch since; that may call for another command. */
        const stillAsked = async () => {
          const now = kind === 'block' || kind === 'unblock' ? await ask[kind](await source(), target) : question
          if (now.command.join(' ') !== command.join(' ')) throw changedMeanwhile(target)
          return now
        }
        return {
          command: ['zael', ...command.map(shellWord), ...typedFlagWords(settings)],
          lines: [...lines, ...otherReasons(kind, target)].map(plainLine),
          perform: () => explained(async () => (await (await stillAsked()).perform()).map(plainLine)),
        }
      }),
  }
}

function otherReasons(kind: string, {entity, isDisabled, refusingParent}: ActionTarget): string[] {
  if (kind === 'block') return []
  const disabled =
    isDisabled && kind !== 'unblock' ? [`${entity} is disabled: requests stay refused until X lifts that.`] : []
  const parent =
    refusingParent === undefined
      ? []
      : [`Requests are refused by its parent ${refusingParent} now; this changes nothing about the parent.`]
  const reasons = [...disabled, ...parent]
  return reasons.length === 0 ? [] : ['', ...reasons]
}

export async function askReset(
  {namespace, nowMs}: ActionSource,
  {entity, resource}: ActionTarget,
): Promise<ActionQuestion> {
  const [[bucket], units] = await Promise.all([
    bucketsOf(namespace, entity, resource, nowMs),
    namespace.configs.units(),
  ])
  const levels = (bucket?.limits ?? []).map(limit => [limit.name, levelChange(limit, units.get(limit.name))])
  return {
    command: ['bucket', 'reset', entity, '--resource', resource],
    lines: [
      ...factLines(`${resetQuestion({entity, resource})}:`, Object.fromEntries(levels)),
      ...(bucket?.limits.some(({quota}) => quota) ? ['A quota starts a new period, without what was topped up.'] : []),
      'Recorded usage does not change.',
    ],
    perform: async () => (await resetBucket(namespace, {entity, resource})).lines,
  }
}

function levelChange({level, capacity}: LimitLevel, unit: string | undefined): string {
  const text = (tokens: number) =>
    unit === undefined ? formatNumber(tokens, 'down') : formatTokens(Math.floor(tokens), unit)
  return level === capacity ? `${text(level)}, full already` : `${text(level)} → ${text(capacity)}`
}
