import {ZaelError} from '../../core/errors.js'
import type {ActionTarget} from '../state/actions.js'

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
