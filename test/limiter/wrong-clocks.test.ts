import {expect, it} from 'vitest'
import {type Limit, makeLimit} from '../../src/lib/core/limit.js'
import {RateLimitExceeded} from '../../src/lib/limiter/errors.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NOON = Date.parse('2026-03-11T12:00:00Z')
const USER = {entity: 'user-1', resource: 'gpt-4'}

const quota = {name: 'q', capacity: 10, refillAmount: 0, refillPeriodSeconds: 1}
const daily = makeLimit({...quota, reset: {crons: ['0 0 * * *']}, timeZone: 'UTC'})
const monthly = makeLimit({...quota, reset: {crons: ['0 0 1 * *']}, timeZone: 'UTC'})
const session = makeLimit({...quota, reset: {afterSeconds: 3600}})

/** What is admitted: to a wrong and a right clock in turn; then, on the right clock, after 2, 13 and 37 hours and 22 days. */
interface Outcome {
  readonly inTurn: readonly number[]
  readonly later: readonly [number, number, number, number]
}

const NOTHING = [0, 0, 0, 0, 0, 0]
/** The next period is entered early, once: the wrong clock asks for 3, the right one gets what is left. */
const ONE_EARLY = [3, 7, 0, 0, 0, 0]

const CASES: readonly [limit: Limit, kind: string, hoursAhead: number, outcome: Outcome][] = [
  [daily, 'daily', 1 / 360, {inTurn: NOTHING, later: [0, 10, 10, 10]}],
  [daily, 'daily', 1, {inTurn: NOTHING, later: [0, 10, 10, 10]}],
  // Of two days, the second was granted on the first.
  [daily, 'daily', 13, {inTurn: ONE_EARLY, later: [0, 0, 10, 10]}],
  [daily, 'daily', 25, {inTurn: ONE_EARLY, later: [0, 0, 10, 10]}],
  [daily, 'daily', 40 * 24, {inTurn: ONE_EARLY, later: [0, 10, 10, 10]}],
  [daily, 'daily', -1, {inTurn: NOTHING, later: [0, 10, 10, 10]}],
  [daily, 'daily', -25, {inTurn: NOTHING, later: [0, 10, 10, 10]}],
  [daily, 'daily', -40 * 24, {inTurn: NOTHING, later: [0, 10, 10, 10]}],
  [monthly, 'monthly', 25, {inTurn: NOTHING, later: [0, 0, 0, 10]}],
  // The next month was granted in this one.
  [monthly, 'monthly', 40 * 24, {inTurn: ONE_EARLY, later: [0, 0, 0, 0]}],
  [monthly, 'monthly', -40 * 24, {inTurn: NOTHING, later: [0, 0, 0, 10]}],
  // A session that is up to a day ahead is waited for.
  [session, 'session', 13, {inTurn: ONE_EARLY, later: [0, 0, 10, 10]}],
  [session, 'session', 25, {inTurn: ONE_EARLY, later: [10, 10, 10, 10]}],
  [session, 'session', 40 * 24, {inTurn: ONE_EARLY, later: [10, 10, 10, 10]}],
  [session, 'session', -25, {inTurn: NOTHING, later: [10, 10, 10, 10]}],
  [session, 'session', -40 * 24, {inTurn: NOTHING, later: [10, 10, 10, 10]}],
]

describeOnBoth('S7 a quota and a clock that is wrong', {}, table => {
  function clients(limit: Limit, aheadMs: number) {
    const scene = new Scene(table)
    scene.nowMs = NOON
    const options = {defaultLimits: [limit], denyCacheMs: 0}
    const wrong = scene.limiter({...options, clock: () => scene.nowMs + aheadMs})
    return {scene, right: scene.limiter(options), wrong}
  }

  async function admitted(scene: Scene, by: RateLimiter, requests: number): Promise<number> {
    let count = 0
    for (let request = 0; request < requests; request++) {
      const outcome = await by.acquire({...USER, consume: {q: 1}}).catch(error => error)
      if (outcome instanceof RateLimitExceeded) break
      await outcome.commit()
      count++
    }
    // A refusal does not wait for the write that repairs the bucket.
    await by.settled()
    scene.nowMs += 1000
    return count
  }

  it.each(CASES)(
    '$1, $2 hours ahead: each period is granted once, and none is missing',
    async (limit, _, hours, is) => {
      const {scene, right, wrong} = clients(limit, hours * HOUR_MS)
      expect(await admitted(scene, right, 11)).toBe(10)
      const inTurn: number[] = []
      for (let turn = 0; turn < 3; turn++)
        inTurn.push(await admitted(scene, wrong, 3), await admitted(scene, right, 11))
      expect(inTurn).toEqual(is.inTurn)
      const later: number[] = []
      for (const afterMs of [2 * HOUR_MS, 13 * HOUR_MS, 37 * HOUR_MS, 22 * DAY_MS]) {
        scene.nowMs = NOON + afterMs
        later.push(await admitted(scene, right, 11))
      }
      expect(later).toEqual(is.later)
    },
  )

  it.each([
    ['monthly', monthly],
    ['session', session],
  ] as const)('a %s quota that was granted ahead of time is there again after a reset by hand', async (_, limit) => {
    const {scene, right, wrong} = clients(limit, 40 * DAY_MS)
    expect(await admitted(scene, wrong, 11)).toBe(10)
    expect(await admitted(scene, right, 1)).toBe(0)
    await new NamespaceRepository(scene.tenant, undefined).resetBucket(USER.entity, USER.resource)
    expect(await admitted(scene, right, 11)).toBe(10)
    scene.nowMs = NOON + 22 * DAY_MS
    expect(await admitted(scene, right, 11)).toBe(10)
  })

  it('a session in the future that another shard has announced does not begin: what is left of the last one is', async () => {
    const {scene, right} = clients(session, 0)
    expect(await admitted(scene, right, 4)).toBe(4)
    await announceSession(scene, NOON + 40 * DAY_MS)
    expect(await admitted(scene, scene.limiter({defaultLimits: [session], denyCacheMs: 0}), 11)).toBe(6)
    scene.nowMs = NOON + HOUR_MS
    expect(await admitted(scene, right, 11)).toBe(10)
  })

  async function announceSession({namespace}: Scene, startMs: number): Promise<void> {
    await table.transport.send('UpdateItem', {
      TableName: table.name,
      Key: wireKey(keys.bucket(namespace, USER.entity, USER.resource, 0)),
      UpdateExpression: 'SET b_q_ws = :start, vu = :now',
      ExpressionAttributeValues: {':start': n(startMs), ':now': n(0)},
    })
  }
})
