import {onePass, type Pass, type PassContext} from './pass.js'
import type {Step} from './steps.js'

/** Passes over the table at most: while old clients write there is always something to catch up with. */
const MOST_PASSES = 8

/** Goes over the table again and again until a pass finds nothing; what the last one found is what is told. */
export async function catchUp(step: Step, context: PassContext): Promise<Pass> {
  const {lease} = context
  for (;;) {
    // Always from the beginning, also in place of a runner that died: a pass tells about the whole table.
    await lease.save({position: undefined, passWrites: 0})
    const {pass} = lease.record
    const done = await onePass(step, context)
    if (done.isQuiet || pass >= MOST_PASSES) return done
    await lease.save({pass: pass + 1})
  }
}
