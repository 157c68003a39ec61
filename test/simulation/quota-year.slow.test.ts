import {expect, it} from 'vitest'
import {makeLimit} from '../../src/lib/core/limits/limit.js'
import {plain} from './rare.js'
import {run} from './run.js'
import type {Scenario, Step} from './scenario.js'
import {Draws} from './world/draws.js'
import {START_MS} from './world/virtual-time.js'
import {OTHERS} from './world/world.js'

const ZONE = 'Europe/Berlin'
const DAY_MS = 86_400_000
/** January to April has a leap day and a clock change; `ZAEL_TEST_SIZE=full` plays the whole year. */
const [MONTHS, DAYS] = process.env.ZAEL_TEST_SIZE === 'full' ? [12, 366] : [4, 121]
const DAILY = 10
/** Less than the days of any month allow. */
const MONTHLY = 280

const quota = {refillAmount: 0, refillPeriodSeconds: 1, timeZone: ZONE}
const LIMITS = [
  makeLimit({...quota, name: 'q', capacity: DAILY, reset: {crons: ['0 0 * * *']}}),
  makeLimit({...quota, name: 'm', capacity: MONTHLY, reset: {crons: ['0 0 1 * *']}}),
]

/** Noon of the first day of 2024, a leap year, in Berlin. */
const FIRST_NOON_MS = Date.parse('2024-01-01T12:00:00+01:00') - START_MS

/** Two processes, one a second ahead, use up every day in two requests; a third request is refused. */
function year(): Scenario {
  const draws = new Draws(15)
  const steps: Step[] = []
  const ask = (atMs: number, tokens: number) =>
    steps.push({
      atMs,
      by: draws.int(0, 1),
      event: {kind: 'acquire', entity: 'u0', consume: {q: tokens, m: tokens}, actions: []},
    })
  for (let day = 0; day < DAYS; day++) {
    const noonMs = FIRST_NOON_MS + day * DAY_MS
    const first = draws.int(1, DAILY - 1)
    // Berlin's clocks change by an hour twice a year.
    ask(noonMs - draws.int(0, 10 * 3_600_000), first)
    ask(noonMs + 1000 + draws.int(0, 5 * 3_600_000), DAILY - first)
    if (day % 7 === 0) ask(noonMs + 6 * 3_600_000, 1)
  }
  for (const day of [40, 100])
    steps.push({atMs: FIRST_NOON_MS + day * DAY_MS, by: OTHERS, event: {kind: 'split', entity: 'u0'}})
  return {seed: 1, profile: 'quotas', ...plain(2, LIMITS), skewsMs: [0, 1000], steps}
}

it('grants every unit of every day and month exactly once', {timeout: 300_000}, async () => {
  const {violations, log} = await run(year())
  expect(violations).toEqual([])
  const local = new Intl.DateTimeFormat('en-CA', {timeZone: ZONE, dateStyle: 'short'})
  const [days, months] = [new Map<string, number>(), new Map<string, number>()]
  for (const line of log) {
    const [, ms, tokens] = /^ *(\d+) p\d admitted u0 .*"q":(\d+)/.exec(line) ?? []
    if (ms === undefined) continue
    const day = local.format(START_MS + Number(ms))
    for (const [key, sums] of [
      [day, days],
      [day.slice(0, 7), months],
    ] as const)
      sums.set(key, (sums.get(key) ?? 0) + Number(tokens))
  }
  expect([...months.values()]).toEqual(Array.from({length: MONTHS}, () => MONTHLY))
  expect([...days.values()]).toEqual(Array.from({length: MONTHS * (MONTHLY / DAILY)}, () => DAILY))
})
