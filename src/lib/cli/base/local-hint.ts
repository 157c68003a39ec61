import {ZaelError} from '../../core/errors.js'
import type {Setting} from './settings.js'

/** What goes wrong on the way to AWS for somebody who does not want to go there. */
const ON_THE_WAY_TO_AWS = new Set(['aws.region', 'aws.credentials', 'dynamo.denied', 'stack.missing'])

/** Whoever named no stack and has a local one running most likely means that. */
export async function withLocalHint(error: unknown, stack: Setting | undefined): Promise<unknown> {
  if (!(error instanceof ZaelError) || !ON_THE_WAY_TO_AWS.has(error.code) || stack?.source !== 'default') return error
  const {readSupervisor} = await import('./local-health.js')
  if (!(await readSupervisor())) return error
  const {kind, code, message, details, cause} = error
  const hint = `No stack is named, so this was about "${stack.value}". For the local one add --stack local, or: eval "$(zael local env)"`
  return new ZaelError(kind, code, message, {hint, details, cause})
}
