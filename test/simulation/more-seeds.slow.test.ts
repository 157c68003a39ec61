import {expect, it} from 'vitest'
import {isKnown} from './known.js'
import {scenarioOf} from './profiles.js'
import {run} from './run.js'
import {PROFILES} from './scenario.js'
import {describeScenario, shorten} from './shrink.js'

const SEEDS = 150

/** Others than in `simulation.test.ts`. A variable selects fresh ones, which may find what no run has found yet. */
const first = Number(process.env.ZAEL_SIMULATE_FROM ?? 10_000)

it.each(PROFILES)(
  `finds no violation that is not known from seed ${first} on: %s`,
  {timeout: 600_000},
  async profile => {
    for (let seed = first; seed < first + SEEDS; seed++) {
      const scenario = scenarioOf(profile, seed)
      const {violations} = await run(scenario)
      const unknown = violations.find(({oracle}) => !isKnown(oracle))
      if (!unknown) continue
      const shortest = await shorten(scenario, unknown.oracle)
      expect.fail(`${unknown.oracle} ${unknown.message}\n${describeScenario(shortest)}`)
    }
  },
)
