import type {PlayedSeed, Seed} from './players.js'
import {scenarioOf} from './profiles.js'
import {run} from './run.js'

/** Plays the seeds it is sent, one at a time: a run needs the timers of its process for itself. */

Error.stackTraceLimit = 0
// The parent ends this process.
process.on('SIGINT', () => {})
let last = Promise.resolve()
process.on('message', (seed: Seed) => {
  last = last.then(() => play(seed))
})

async function play({profile, seed}: Seed): Promise<void> {
  const {violations, trace, counts, operations} = await run(scenarioOf(profile, seed)).catch(error => {
    process.stderr.write(`The run of seed ${seed} of ${profile} has failed.\n`)
    throw error
  })
  const played: PlayedSeed = {violations, trace, counts, operations}
  process.send?.(played)
}
