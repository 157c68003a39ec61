import {beforeEach, expect, it} from 'vitest'
import {type Limit, makeLimit} from '../../src/lib/core/limits/limit.js'
import type {Lease} from '../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {readShards, splitBucket} from '../../src/lib/repository/buckets/split.js'
import {loggingAggregator, tableOver} from '../aggregator/fixtures/stream.js'
import {StreamTap} from '../aggregator/fixtures/stream-tap.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {seededRandom} from '../limiter/fixtures/seeded-random.js'

/** `ZAEL_TEST_SIZE=full` plays a year. */
const DAYS = process.env.ZAEL_TEST_SIZE === 'full' ? 365 : 20

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const USER = {entity: 'user-1', resource: 'gpt-4'}
const DAILY = 40
const SESSION = 25
const SESSION_MS = 5 * HOUR_MS

const LIMITS: readonly Limit[] = [
  makeLimit({
    name: 'day',
    capacity: DAILY,
    refillAmount: 0,
    refillPeriodSeconds: 1,
    reset: {crons: ['0 0 * * *']},
    timeZone: 'Europe/Berlin',
  }),
  makeLimit({
    name: 'session',
    capacity: SESSION,
    refillAmount: 0,
    refillPeriodSeconds: 1,
    reset: {afterSeconds: 18_000},
  }),
  makeLimit({name: 'soft', capacity: 5, refillAmount: 5, refillPeriodSeconds: 3600, soft: true}),
  makeLimit({
    name: 'rpm',
    capacity: 600,
    refillAmount: 600,
    refillPeriodSeconds: 60,
    schedule: [{cron: '* 22-23 * * *', scale: 0.1}],
    timeZone: 'Europe/Berlin',
  }),
]

/** Net consumption in one window of a quota. */
interface Window {
  readonly startMs: number
  taken: number
}

/** Independent bookkeeping of several processes, splits, and refunds in the same and later windows. */
describeOnBoth('quotas over a long time', {timeout: 300_000}, (table, extent) => {
  let scene: Scene
  let random: () => number
  let limiters: RateLimiter[]

  beforeEach(() => {
    scene = new Scene(table)
    // Spans both clock changes in Berlin.
    scene.nowMs = Date.parse('2026-01-01T00:00:00+01:00')
    random = seededRandom(15)
  })

  const whole = (below: number) => Math.floor(random() * below)
  const localDay = new Intl.DateTimeFormat('en-CA', {timeZone: 'Europe/Berlin', dateStyle: 'short'})

  it('grant every unit of every window exactly once', async () => {
    const days = extent === 'all' ? DAYS : 3
    const tap = new StreamTap(table.transport, () => scene.nowMs)
    scene.transport = tap
    const aggregator = loggingAggregator({table: tableOver(tap, table.name, () => scene.nowMs)})
    limiters = Array.from({length: 3}, () => scene.limiter({defaultLimits: LIMITS, denyCacheMs: 0}))
    const windows = new Map<string, Window>()
    const open: {lease: Lease; day: string; amount: number}[] = []
    let shards = 1
    let [admitted, refused, returned] = [0, 0, 0]

    const take = async (amount: number): Promise<boolean> => {
      const limiter = limiters[whole(3)] as RateLimiter
      const decision = await limiter.tryAcquire({...USER, consume: {day: amount, soft: amount}})
      if (!decision.admitted) {
        refused++
        return false
      }
      admitted++
      const day = localDay.format(scene.nowMs)
      const window = windows.get(day) ?? {startMs: scene.nowMs, taken: 0}
      window.taken += amount
      windows.set(day, window)
      open.push({lease: decision.lease, day, amount})
      return true
    }
    const giveBack = async () => {
      const held = open.splice(whole(open.length), 1)[0]
      if (!held) return
      await held.lease.release({day: held.amount})
      returned++
      const window = windows.get(held.day)
      // A refund of an ended window does not count for another.
      if (window && held.day === localDay.format(scene.nowMs)) window.taken -= held.amount
    }

    const endMs = scene.nowMs + days * DAY_MS
    let today = localDay.format(scene.nowMs)
    while (scene.nowMs < endMs) {
      const step = random()
      if (step < 0.65) await take(1 + whole(6))
      else if (step < 0.8) await giveBack()
      else if (step < 0.82 && shards < 4)
        shards = await splitBucket(scene.tenant, USER.entity, USER.resource, shards).catch(() => shards)
      else if (step < 0.9) await aggregator.handle({Records: tap.take()})
      const nextMs = scene.nowMs + whole(100 * 60_000)
      if (localDay.format(nextMs) !== today) {
        // The rest of the day is taken in its last moments, token by token: the sum is the allowance.
        while (await take(1)) {}
        await Promise.all(limiters.map(limiter => limiter.settled()))
        expect({day: today, taken: windows.get(today)?.taken}).toEqual({day: today, taken: DAILY})
        today = localDay.format(nextMs)
      }
      scene.nowMs = nextMs
    }
    expect(admitted).toBeGreaterThan(days * 5)
    expect(refused).toBeGreaterThanOrEqual(days - 1)
    expect(returned).toBeGreaterThan(days)
    expect(shards).toBe(4)
  })

  it('grant the whole allowance of a session within its length, and no more', async () => {
    const sessions = extent === 'all' ? 20 : 5
    limiters = Array.from({length: 3}, () => scene.limiter({defaultLimits: LIMITS, denyCacheMs: 0}))
    const taken: {atMs: number; amount: number}[] = []
    let shards = 1
    let full = 0
    for (let round = 0; round < sessions; round++) {
      const startMs = scene.nowMs
      let inSession = 0
      for (let request = 0; request < 40 && scene.nowMs < startMs + SESSION_MS; request++) {
        const amount = 1 + whole(3)
        const limiter = limiters[whole(3)] as RateLimiter
        const {admitted} = await limiter.tryAcquire({...USER, consume: {session: amount, rpm: 1}})
        if (admitted) {
          taken.push({atMs: scene.nowMs, amount})
          inSession += amount
        }
        scene.nowMs += whole(20 * 60_000)
      }
      if (inSession > SESSION - 3) full++
      await Promise.all(limiters.map(limiter => limiter.settled()))
      if (shards < 4 && round % 5 === 4) shards = await splitBucket(scene.tenant, USER.entity, USER.resource, shards)
      // A pause beyond the end of the window.
      scene.nowMs = Math.max(scene.nowMs, startMs + SESSION_MS) + whole(HOUR_MS)
      expect(inSession).toBeLessThanOrEqual(SESSION)
    }
    expect(full).toBeGreaterThan(sessions / 2)
    const records = [...(await readShards(scene.tenant, USER.entity, USER.resource, shards)).values()]
    const consumed = records.reduce((sum, {state}) => sum + (state.limits.get('session')?.consumedMilli ?? 0n), 0n)
    expect(Number(consumed) / 1000).toBe(taken.reduce((sum, {amount}) => sum + amount, 0))
  })
})
