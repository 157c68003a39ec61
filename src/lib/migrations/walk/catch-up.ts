import {pause} from '../../dynamo/retry.js'
import {onePass, type Pass, type PassContext} from './pass.js'
import type {Step} from './steps.js'

/** Passes of one runner at most: while old clients write there is always something to catch up with. */
const MOST_PASSES = 8

/** Between two passes of somebody who follows. */
const PAUSE_MS = 2_000

/** Goes over the table again and again until a pass finds nothing; what the last one found is what is told. */
export async function catchUp(step: Step, context: PassContext, followMs = 0): Promise<Pass> {
  await follow(step, context, followMs)
  const last = context.lease.record.pass + MOST_PASSES - 1
  for (;;) {
    const {pass} = context.lease.record
    const done = await wholePass(step, context)
    if (done.isQuiet || pass >= last) return done
    await context.lease.save({pass: pass + 1})
  }
}

/** Keeps both places together for a time, whether there is something to catch up with or not. */
async function follow(step: Step, context: PassContext, followMs: number): Promise<void> {
  const {table, signal} = await context.open()
  const {lease} = context
  const untilMs = table.clock() + followMs
  const backoff = {...table.backoff, random: () => 1, baseMs: PAUSE_MS, maxMs: PAUSE_MS}
  while (table.clock() < untilMs) {
    await wholePass(step, context)
    await lease.save({pass: lease.record.pass + 1})
    await pause(0, backoff, signal)
  }
}

/** Always from the beginning, also in place of a runner that died: a pass tells about the whole table. */
async function wholePass(step: Step, context: PassContext): Promise<Pass> {
  await context.lease.save({position: undefined, passWrites: 0})
  return onePass(step, context)
}
