import {ZaelError} from '../core/errors.js'
import {DamagedFile} from './state-dir/private-file.js'
import {isProcessRunning} from './state-dir/process-identity.js'
import {readEnd, readState, type StackEnd, type StackState, type StateDir} from './state-dir/state.js'
import {fetchStatus, type LiveStatus} from './supervisor/control.js'

export type FoundStack =
  | {readonly kind: 'running'; readonly state: StackState; readonly live: LiveStatus}
  /** The supervisor's process exists but does not respond: suspended or overloaded. */
  | {readonly kind: 'unresponsive'; readonly state: StackState}
  | {readonly kind: 'killed'; readonly state: StackState}
  /** The state file cannot be read. A running supervisor notices that too, and stops. */
  | {readonly kind: 'damaged'; readonly file: DamagedFile}
  | {readonly kind: 'none'}

export async function findStack(stateDir: StateDir): Promise<FoundStack> {
  const state = await readState(stateDir).catch(error => {
    if (error instanceof DamagedFile) return error
    throw error
  })
  if (!state) return {kind: 'none'}
  if (state instanceof DamagedFile) return {kind: 'damaged', file: state}
  const live = await fetchStatus(state.controlPort, state.startToken)
  if (live) return {kind: 'running', state, live}
  return {kind: (await isProcessRunning(state)) ? 'unresponsive' : 'killed', state}
}

export async function requireStack(stateDir: StateDir): Promise<{state: StackState; live: LiveStatus}> {
  const found = await findStack(stateDir)
  if (found.kind === 'running') return found
  const reasons = {none: '', killed: ': it was killed', unresponsive: ': it does not respond', damaged: ''}
  const why = found.kind === 'damaged' ? `: ${found.file.message}` : reasons[found.kind]
  const message = `The local stack is not running${why} (looked in ${stateDir.folder}).`
  // HOME, XDG_DATA_HOME and ZAEL_DATA_DIR decide where to look.
  const elsewhere = found.kind === 'none' ? ', or set ZAEL_DATA_DIR to the folder of a running stack' : ''
  throw new ZaelError('negative', 'local.not-running', message, {
    hint: `zael local up${elsewhere}`,
    details: {home: stateDir.folder},
  })
}

export type StackStatus =
  | {readonly running: true; readonly state: StackState; readonly live: LiveStatus}
  /** `problem`: why it did not end normally. `lastEnd`: a killed stack records none. */
  | {readonly running: false; readonly problem: string | null; readonly lastEnd: StackEnd | null}

export async function stackStatus(stateDir: StateDir): Promise<StackStatus> {
  const found = await findStack(stateDir)
  if (found.kind === 'running') return {running: true, state: found.state, live: found.live}
  const lastEnd = (await readEnd(stateDir)) ?? null
  if (found.kind === 'none') return {running: false, problem: lastEnd?.reason ?? null, lastEnd}
  if (found.kind === 'damaged') return {running: false, problem: found.file.message, lastEnd}
  const {pid} = found.state
  const problem =
    found.kind === 'killed'
      ? `the supervisor (process ${pid}) was killed`
      : `the supervisor (process ${pid}) does not respond`
  return {running: false, problem, lastEnd}
}
