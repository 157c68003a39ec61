import {parseArgs} from 'node:util'
import {explore, SITUATIONS} from './explore.js'
import {writeTable} from './page.js'
import {type PlayedSeed, playerCount, playSeeds, type Seed} from './players.js'
import {scenarioOf} from './profiles.js'
import {run} from './run.js'
import {PROFILES, type Profile} from './scenario.js'
import {describeScenario, shorten} from './shrink.js'
import {Totals} from './totals.js'

const USAGE = `npm run simulate -- --seed 42 | --seeds 1000 | --minutes 10 | --orders 1000
  --profile NAME   play only this profile; repeatable: ${PROFILES.join(', ')}
  --from SEED      the first seed. Default: 1
  --oracle PREFIX  report only these violations
  --workers N      processes that play at a time. Default: the number of cores
  --orders N       explore up to N orders of messages of each small situation
  --log            print every call and write of a shortened scenario
  --list           print only violations: profile, seed and oracle
  --write          write the figures to docs/how-tested.md`

const {values} = parseArgs({
  options: {
    seed: {type: 'string'},
    seeds: {type: 'string'},
    minutes: {type: 'string'},
    from: {type: 'string'},
    orders: {type: 'string'},
    workers: {type: 'string'},
    profile: {type: 'string', multiple: true},
    oracle: {type: 'string', default: ''},
    log: {type: 'boolean', default: false},
    write: {type: 'boolean', default: false},
    list: {type: 'boolean', default: false},
    help: {type: 'boolean', default: false},
  },
})

const {seed, seeds, minutes, from, orders, oracle: wanted} = values
const profiles = (values.profile ?? PROFILES) as readonly Profile[]
const isUnknown = profiles.some(profile => !PROFILES.includes(profile))
const isEmpty = [seed, seeds, minutes, orders].every(value => value === undefined)
if (values.help || isUnknown || isEmpty) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}

// Thousands of refused writes throw errors; their stacks are not needed.
if (!values.log) Error.stackTraceLimit = 0
const totals = new Totals()
const explained = new Set<string>()
let isBroken = false
let isStopped = false
// Finish the current seed, so that the figures so far are not lost.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    isStopped = true
  })
const beganMs = performance.now()
await playAll()
await exploreAll()
if (!values.list) {
  for (const table of [totals.seedTable, totals.orderTable]) if (table) console.log(`\n${table}\n`)
  for (const [key, found] of totals.found) console.log(`${key}: seeds ${found.slice(0, 12).join(', ')}`)
  console.log(`${Math.round((performance.now() - beganMs) / 1000)} s`)
}
if (values.write && totals.seedTable) await writeTable('seeds', totals.seedTable)
if (values.write && totals.orderTable) await writeTable('orders', totals.orderTable)
process.exitCode = isBroken ? 1 : 0

async function playAll(): Promise<void> {
  if (seed === undefined && seeds === undefined && minutes === undefined) return
  const first = Number(seed ?? from ?? 1)
  const count = seed === undefined ? Number(seeds ?? Number.POSITIVE_INFINITY) : 1
  const endMs = minutes === undefined ? Number.POSITIVE_INFINITY : beganMs + Number(minutes) * 60_000
  const players = playerCount(
    count * profiles.length,
    values.workers === undefined ? undefined : Number(values.workers),
  )
  if (players > 1 && !values.log) {
    for await (const {played, ...each} of playSeeds(seedsToPlay(), players)) await judge(each, played)
    return
  }
  for (const each of seedsToPlay()) {
    const result = await run(scenarioOf(each.profile, each.seed))
    await judge(each, result)
    if (values.log && result.violations.length === 0 && seed !== undefined) console.log(result.log.join('\n'))
  }

  function* seedsToPlay(): Generator<Seed, void> {
    for (let each = first; each < first + count && performance.now() < endMs && !isStopped; each++) {
      for (const profile of profiles) yield {profile, seed: each}
    }
  }
}

async function judge({profile, seed: number}: Seed, played: PlayedSeed): Promise<void> {
  const violations = played.violations.filter(({oracle}) => oracle.startsWith(wanted))
  totals.add(profile, number, {...played, violations})
  for (const {oracle, message} of violations) {
    isBroken = true
    // Explain the first violation of each kind; only count the others.
    const key = `${profile} ${oracle}`
    if (values.list) console.log(`${profile} ${number} ${oracle}`)
    if (values.list || explained.has(key)) continue
    explained.add(key)
    const shortest = await shorten(scenarioOf(profile, number), oracle)
    console.log(`\n${oracle} ${message}\n${describeScenario(shortest)}`)
    if (values.log) console.log((await run(shortest)).log.join('\n'))
  }
}

async function exploreAll(): Promise<void> {
  if (orders === undefined) return
  for (const situation of SITUATIONS) {
    const exploration = await explore(situation, Number(orders))
    totals.addExploration(situation, exploration)
    isBroken ||= exploration.violations.size > 0
  }
}
