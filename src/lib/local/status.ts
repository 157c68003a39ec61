import {findStack} from './find.js'
import type {StateDir} from './state-dir/paths.js'
import {readEnd, type StackEnd, type StackState} from './state-dir/state.js'
import type {LiveStatus} from './supervisor/control.js'

export type StackStatus =
  | {readonly running: true; readonly state: StackState; readonly live: LiveStatus}
  /** `problem`: why it did not end normally. `lastEnd`: the end that the last stack recorded; a killed one records none. */
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
      : `the supervisor (process ${pid}) does not answer`
  return {running: false, problem, lastEnd}
}
