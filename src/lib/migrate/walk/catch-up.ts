import {pause} from '../../dynamo/retry.js'
import {type Pass, type RunContext, runPass} from './pass.js'
import type {MigrationStep} from './steps.js'

/** Most passes of one run: while old clients write, every pass finds something to catch up with. */
const MAX_PASSES = 8

/** Pause between two passes with `--follow`. */
const PAUSE_MS = 2_000

export async function catchUp(step: MigrationStep, run: RunContext, followMs = 0): Promise<Pass> {
  await follow(step, run, followMs)
  const last = run.lease.record.pass + MAX_PASSES - 1
  for (;;) {
    const {pass} = run.lease.record
    const done = await runWholePass(step, run)
    if (done.isUpToDate || pass >= last) return done
    await run.lease.save({pass: pass + 1})
  }
}

async function follow(step: MigrationStep, run: RunContext, followMs: number): Promise<void> {
  const {table, signal} = await run.open()
  const {lease} = run
  const untilMs = table.clock() + followMs
  const backoff = {...table.backoff, random: () => 1, baseMs: PAUSE_MS, maxMs: PAUSE_MS}
  while (table.clock() < untilMs) {
    await runWholePass(step, run)
    await lease.save({pass: lease.record.pass + 1})
    await pause(0, backoff, signal)
  }
}

/** Starts at the beginning even after a crash: the result has to cover the whole table. */
async function runWholePass(step: MigrationStep, run: RunContext): Promise<Pass> {
  await run.lease.save({position: undefined, passWrites: 0})
  return runPass(step, run)
}
