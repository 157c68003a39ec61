import {expect, it} from 'vitest'
import {scenarioOf} from './profiles.js'
import {run} from './run.js'
import {PROFILES} from './scenario.js'
import {describeScenario, shorten} from './shrink.js'

const SEEDS = process.env.ZAEL_TEST_SIZE === 'full' ? 12 : 5

/** Different seeds than in `simulation.test.ts`. A variable selects fresh ones, which may find new faults. */
const first = Number(process.env.ZAEL_SIMULATE_FROM ?? 10_050)

it.each(PROFILES)(`finds no violation from seed ${first} on: %s`, {timeout: 600_000}, async profile => {
  for (let seed = first; seed < first + SEEDS; seed++) {
    const scenario = scenarioOf(profile, seed)
    const [violation] = (await run(scenario)).violations
    if (!violation) continue
    const shortest = await shorten(scenario, violation.oracle)
    expect.fail(`${violation.oracle} ${violation.message}\n${describeScenario(shortest)}`)
  }
})
