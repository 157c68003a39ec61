import {parseArgs} from 'node:util'
import {scenarioOf} from './profiles.js'
import {run} from './run.js'
import {PROFILES, type Profile} from './scenario.js'
import {describeScenario, shorten} from './shrink.js'

/** `npm run simulate -- --seed 42 | --seeds 1000 | --minutes 10 [--from 1] [--profile NAME] [--log]` */
const {values} = parseArgs({
  options: {
    seed: {type: 'string'},
    seeds: {type: 'string'},
    minutes: {type: 'string'},
    from: {type: 'string'},
    profile: {type: 'string', multiple: true},
    oracle: {type: 'string'},
    log: {type: 'boolean', default: false},
  },
})

const profiles = (values.profile ?? PROFILES) as readonly Profile[]
for (const profile of profiles) {
  if (!PROFILES.includes(profile)) throw new Error(`No profile "${profile}"; there are ${PROFILES.join(', ')}.`)
}
const from = Number(values.seed ?? values.from ?? 1)
const count = values.seed === undefined ? Number(values.seeds ?? Number.POSITIVE_INFINITY) : 1
const endMs =
  values.minutes === undefined ? Number.POSITIVE_INFINITY : performance.now() + Number(values.minutes) * 60_000
if (!Number.isFinite(count) && !Number.isFinite(endMs)) throw new Error('Give --seed, --seeds or --minutes.')

const total = {seeds: 0, operations: 0, calls: 0, faults: 0, deliveries: 0}
const found = new Map<string, number[]>()
const beganMs = performance.now()
for (let seed = from; seed < from + count && performance.now() < endMs; seed++) {
  for (const profile of profiles) await one(profile, seed)
}
const seconds = Math.round((performance.now() - beganMs) / 1000)
console.log(
  `\n${total.seeds} runs, ${total.operations} operations, ${total.calls} calls, ${total.faults} faults, ${total.deliveries} deliveries in ${seconds} s`,
)
for (const [key, seeds] of found) console.log(`${key}: ${seeds.length} (seeds ${seeds.slice(0, 8).join(', ')})`)
process.exitCode = found.size > 0 ? 1 : 0

async function one(profile: Profile, seed: number): Promise<void> {
  const scenario = scenarioOf(profile, seed)
  const {violations, counts, operations, log} = await run(scenario)
  total.seeds++
  total.operations += operations
  total.calls += counts.calls
  total.faults += counts.faults
  total.deliveries += counts.deliveries
  for (const {oracle, message} of violations) {
    if (values.oracle !== undefined && !oracle.startsWith(values.oracle)) continue
    const key = `${profile} ${oracle}`
    const seeds = found.get(key) ?? []
    found.set(key, seeds)
    if (seeds.at(-1) === seed) continue
    seeds.push(seed)
    // The first of a kind is explained, the others are only counted.
    if (seeds.length > 1) continue
    const shortest = await shorten(scenario, oracle)
    console.log(`\n${oracle} ${message}\n${describeScenario(shortest)}`)
    if (values.log) console.log((await run(shortest)).log.join('\n'))
  }
  if (values.log && violations.length === 0 && count === 1) console.log(log.join('\n'))
}
