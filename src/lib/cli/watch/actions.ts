import {shellWord} from '../../core/text.js'
import type {ActionTarget, BucketActions} from '../../ui/model/actions.js'
import type {StackContext} from '../base/context.js'
import {asFailure} from '../base/failure.js'
import {withNearestNames, withWhere} from '../base/hints.js'
import {type Settings, typedFlags, typedFlagWords} from '../base/settings.js'
import {plainLine} from '../output/paint.js'
import type {ActionSource} from './action-source.js'
import {askBoost, boostDraft} from './boost-action.js'
import {askReset} from './reset-action.js'
import {askBlock, askUnblock} from './switch-action.js'

/**
 * What `zael watch --actions` may change: what commands change, by the functions that do it for the commands. Everything
 * is read anew for each question, and again when it is done.
 */
export function bucketActions(stack: StackContext, settings: Settings): BucketActions {
  const source = async (): Promise<ActionSource> => {
    const namespace = await stack.namespace()
    return {namespace, nowMs: stack.table.clock(), where: typedFlags(settings)}
  }
  /** With the hints that a command would give. */
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
        const {command, lines, perform} = await ask[kind](await source(), target, text ?? '')
        return {
          command: ['zael', ...command.map(shellWord), ...typedFlagWords(settings)],
          lines: [...lines, ...otherReasons(kind, target)].map(plainLine),
          perform: () => explained(async () => (await perform()).map(plainLine)),
        }
      }),
  }
}

/** Why requests would go on being refused all the same. */
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
