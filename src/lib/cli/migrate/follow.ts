import {parseDuration} from '../../core/duration.js'
import {InvalidInput} from '../../core/errors.js'
import type {StepId} from '../../migrations/walk/steps.js'

/** Ms of `--follow`, which belongs to the step that catches up; a run that ends before it would follow nobody. */
export function followMsOf(follow: string | undefined, until: StepId | undefined): number | undefined {
  if (follow === undefined) return undefined
  if (until !== undefined && until !== 'catch-up' && until !== 'version') {
    throw new InvalidInput('migrate.follow', `--follow comes after step "${until}", where this run is to stop.`, {
      hint: 'Leave out --until, or say --until catch-up.',
    })
  }
  return parseDuration(follow)
}
