import {ZaelError} from '../core/errors.js'
import type {StateDir} from './state-dir/paths.js'
import {isProcessRunning} from './state-dir/process-identity.js'
import {readState, type StackState} from './state-dir/state.js'
import {fetchStatus, type LiveStatus} from './supervisor/control.js'

/** What was found in a home. */
export type FoundStack =
  | {readonly kind: 'running'; readonly state: StackState; readonly live: LiveStatus}
  /** The supervisor's process is there and does not answer: stopped, or swamped. */
  | {readonly kind: 'silent'; readonly state: StackState}
  /** The supervisor was killed and could not clean up. */
  | {readonly kind: 'killed'; readonly state: StackState}
  | {readonly kind: 'none'}

/** Looks for the stack of a home; changes nothing. */
export async function findStack(home: StateDir): Promise<FoundStack> {
  const state = await readState(home)
  if (!state) return {kind: 'none'}
  const live = await fetchStatus(state.controlPort, state.startToken)
  if (live) return {kind: 'running', state, live}
  return {kind: (await isProcessRunning(state)) ? 'silent' : 'killed', state}
}

/** The running stack of a home; throws when there is none. */
export async function requireStack(home: StateDir): Promise<{state: StackState; live: LiveStatus}> {
  const found = await findStack(home)
  if (found.kind === 'running') return found
  const why = found.kind === 'killed' ? 'it was killed' : 'it does not answer'
  const message = found.kind === 'none' ? 'the local stack is not running' : `the local stack is not running: ${why}`
  throw new ZaelError('notFound', 'local.not-running', message, {
    hint: 'zael local up',
    details: {home: home.folder},
  })
}
