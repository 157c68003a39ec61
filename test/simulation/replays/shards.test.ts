import {expect, it} from 'vitest'
import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {run} from '../run.js'
import {RESOURCE, type Scenario, type ScenarioEvent, type Step, USUAL_CACHE_SIZE} from '../scenario.js'
import {OTHERS} from '../world/world.js'

const SCOPE = {level: 'resource', resource: RESOURCE} as const
const HOUR_MS = 3_600_000

const quota = (reset: NonNullable<Limit['reset']>): Limit => ({
  name: 'q',
  capacity: 30,
  refillAmount: 0,
  refillPeriodSeconds: 1,
  reset,
  ...('crons' in reset && {timeZone: 'UTC'}),
})

const RATE: Limit = {name: 'rpm', capacity: 20, refillAmount: 60, refillPeriodSeconds: 60}

/** One process and operators; steps start at the given hours after the start. */
function scenarioOf(
  seed: number,
  limits: readonly Limit[],
  steps: readonly (readonly [number, ScenarioEvent])[],
): Scenario {
  return {
    seed,
    profile: 'quotas',
    skewsMs: [0],
    configs: [{scope: SCOPE, limits}],
    children: {},
    sharedSlots: false,
    cacheSize: USUAL_CACHE_SIZE,
    partitionUnits: 1000,
    longestWayMs: 12,
    aggregatorLagMs: undefined,
    faults: [],
    steps: steps.map(
      ([hours, event]): Step => ({atMs: hours * HOUR_MS, by: event.kind === 'acquire' ? 0 : OTHERS, event}),
    ),
  }
}

const use = (entity: string): ScenarioEvent => ({kind: 'acquire', entity, consume: {q: 4}, actions: []})

/** The seed decides which shard a request goes to. */
const SEEDS = [1, 2, 3, 4]

it.each(SEEDS)('S6: refunds a lease to the shard it charged while another one has expired (%i)', async seed => {
  const lease: ScenarioEvent = {
    kind: 'acquire',
    entity: 'u0',
    consume: {q: 5, rpm: 4},
    actions: [{kind: 'rollback', afterMs: 11 * 24 * HOUR_MS}],
  }
  const {violations} = await run(
    scenarioOf(
      seed,
      [quota({crons: ['0 0 * * *']}), RATE],
      [
        [1, use('u0')],
        [2, {kind: 'split', entity: 'u0'}],
        [3, lease],
        [10 * 24, {kind: 'expire'}],
        [12 * 24, use('u1')],
      ],
    ),
  )
  expect(violations).toEqual([])
})

it.each(SEEDS)(
  'L1: heals a session that another client makes a calendar quota with its next reset (%i)',
  async seed => {
    const calendar = [quota({crons: ['0 0 * * *', '0 12 * * *']}), RATE]
    const {violations} = await run(
      scenarioOf(
        seed,
        [quota({afterSeconds: 18_000}), RATE],
        [
          [1, use('u0')],
          [1.1, {kind: 'split', entity: 'u0'}],
          [1.2, use('u0')],
          [1.3, use('u0')],
          [1.4, use('u0')],
          [10, {kind: 'peer-config', scope: SCOPE, limits: calendar, isSynced: false}],
        ],
      ),
    )
    expect(violations).toEqual([])
  },
)
