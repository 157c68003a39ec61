import {findStack} from './find.js'
import type {StateDir} from './state-dir/paths.js'
import {readEnd, type StackEnd, type StackState} from './state-dir/state.js'
import type {LiveStatus} from './supervisor/control.js'

/** How the stack of a home is doing. */
export type StackStatus =
  | {readonly running: true; readonly state: StackState; readonly live: LiveStatus}
  /** `problem` says that it did not end as it should; `lastEnd` how the last one ended that could tell. */
  | {readonly running: false; readonly problem: string | null; readonly lastEnd: StackEnd | null}

/** Looks, and changes nothing. */
export async function stackStatus(home: StateDir): Promise<StackStatus> {
  const found = await findStack(home)
  if (found.kind === 'running') return {running: true, state: found.state, live: found.live}
  const lastEnd = (await readEnd(home)) ?? null
  if (found.kind === 'none') return {running: false, problem: lastEnd?.reason ?? null, lastEnd}
  const {pid} = found.state
  const problem =
    found.kind === 'killed'
      ? `the supervisor (process ${pid}) was killed`
      : `the supervisor (process ${pid}) does not answer`
  return {running: false, problem, lastEnd}
}
