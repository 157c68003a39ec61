import {expect, it} from 'vitest'
import {type Limit, makeLimit} from '../../src/lib/core/limits/limit.js'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {repairFindings} from '../../src/lib/insight/verify/finding.js'
import {verifyTable} from '../../src/lib/insight/verify/verify.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../../src/lib/limiter/refusal/errors.js'
import {NamespaceRepository, Repository} from '../../src/lib/repository/repository.js'
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

/**
 * Admitted amounts: to a wrong and a right clock in turn; then, on the right clock, after 2, 13 and 37 hours and 22
 * days.
 */
interface Outcome {
  readonly inTurn: readonly number[]
  readonly later: readonly [number, number, number, number]
}

const NOTHING = [0, 0, 0, 0, 0, 0]
/** The next period starts early, once: the wrong clock asks for 3, the right one gets the rest. */
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
  // A session up to a day ahead is waited for.
  [session, 'session', 13, {inTurn: ONE_EARLY, later: [0, 0, 10, 10]}],
  [session, 'session', 25, {inTurn: ONE_EARLY, later: [10, 10, 10, 10]}],
  [session, 'session', 40 * 24, {inTurn: ONE_EARLY, later: [10, 10, 10, 10]}],
  [session, 'session', -25, {inTurn: NOTHING, later: [10, 10, 10, 10]}],
  [session, 'session', -40 * 24, {inTurn: NOTHING, later: [10, 10, 10, 10]}],
]

describeOnBoth('S7 a quota and a clock that is wrong', {}, (table, extent) => {
  function clients(limit: Limit, aheadMs: number) {
    const scene = new Scene(table)
    scene.nowMs = NOON
    const options = {defaultLimits: [limit], denyCacheMs: 0}
    const wrong = scene.limiter({...options, clock: () => scene.nowMs + aheadMs})
    return {scene, right: scene.limiter(options), wrong}
  }

  /** Sum of the amounts that are admitted, one after another. */
  async function admitted(scene: Scene, by: RateLimiter, ...amounts: number[]): Promise<number> {
    let sum = 0
    for (const amount of amounts) {
      const outcome = await by.acquire({...USER, consume: {q: amount}}).catch(error => error)
      if (outcome instanceof RateLimitExceeded) continue
      await outcome.commit()
      sum += amount
    }
    // A refusal does not wait for the write that repairs the bucket.
    await by.settled()
    scene.nowMs += 1000
    return sum
  }

  it.each(extent === 'all' ? CASES : CASES.filter(([, , hours]) => hours === -25))(
    'grants each period exactly once: $1, $2 hours ahead',
    async (limit, _, hours, is) => {
      const {scene, right, wrong} = clients(limit, hours * HOUR_MS)
      expect(await admitted(scene, right, 7, 3, 1)).toBe(10)
      const inTurn: number[] = []
      for (let turn = 0; turn < 3; turn++)
        inTurn.push(await admitted(scene, wrong, 3), await admitted(scene, right, 7, 3, 1))
      expect(inTurn).toEqual(is.inTurn)
      const later: number[] = []
      for (const afterMs of [2 * HOUR_MS, 13 * HOUR_MS, 37 * HOUR_MS, 22 * DAY_MS]) {
        scene.nowMs = NOON + afterMs
        later.push(await admitted(scene, right, 7, 3, 1))
      }
      expect(later).toEqual(is.later)
    },
  )

  it.each([
    ['monthly', monthly],
    ['session', session],
  ] as const)('grants a %s quota again by a manual reset after it was granted ahead of time', async (_, limit) => {
    const {scene, right, wrong} = clients(limit, 40 * DAY_MS)
    expect(await admitted(scene, wrong, 7, 3, 1)).toBe(10)
    expect(await admitted(scene, right, 1)).toBe(0)
    await new NamespaceRepository(scene.tenant, undefined).resetBucket(USER)
    expect(await admitted(scene, right, 7, 3, 1)).toBe(10)
    scene.nowMs = NOON + 22 * DAY_MS
    expect(await admitted(scene, right, 7, 3, 1)).toBe(10)
  })

  it.each([
    ['quota', 'q=10/day@UTC,40@"* 13 * * * UTC"'],
    ['session', 'q=10/5h!,40@"* 13 * * * UTC"'],
    ['rate', 'q=1/day:10,:40@"* 13 * * * UTC"'],
  ])('cuts nothing off a %s by a past rule of a clock that is behind', async (_, text) => {
    const [limit] = parseLimits([text]) as [Limit]
    const {scene, right, wrong} = clients(limit, 6000)
    scene.nowMs = NOON + HOUR_MS - 3000
    expect(await admitted(scene, wrong, 2)).toBe(2)
    expect(await admitted(scene, right, 1)).toBe(1)
    scene.nowMs = NOON + HOUR_MS + 4000
    expect(await admitted(scene, right, 38, 37, 1)).toBe(37)
  })

  it('grants at most one more allowance per period to a clock that stays far ahead', async () => {
    const {scene, right, wrong} = clients(daily, 40 * DAY_MS)
    for (let day = 0; day < 3; day++) {
      scene.nowMs = NOON + day * DAY_MS
      const inTurn: number[] = []
      for (const by of [right, wrong, right, wrong, right]) inTurn.push(await admitted(scene, by, 7, 3))
      expect(inTurn).toEqual([10, 10, 0, 0, 0])
    }
  })

  it('finds a session in the future by verify, and starts it now when verify repairs it', async () => {
    const {scene} = clients(session, 0)
    const {namespaces} = new Repository({stack: table.name, transport: table.transport})
    const {namespace} = await namespaces.register('wrong-clocks')
    const options = {defaultLimits: [session], denyCacheMs: 0, namespaceId: namespace.id}
    const wrong = scene.limiter({...options, clock: () => scene.nowMs + 40 * DAY_MS})
    expect(await admitted(scene, wrong, 3)).toBe(3)
    // As left by an older client: the bucket is current, its session is not.
    await change(namespace.id, 'SET rf = :value', NOON)
    const {findings} = await verifyTable(scene.tenant)
    const found = findings.filter(({kind}) => kind === 'refill')
    expect(found.map(({reason}) => reason)).toEqual([
      'The session of q starts at 2026-04-20T12:00:00.000Z, which is in the future.',
    ])
    expect([...(await repairFindings(scene.tenant, found)).values()]).toEqual(['repaired'])
    scene.nowMs += HOUR_MS
    expect(await admitted(scene, scene.limiter(options), 7, 3)).toBe(10)
  })

  it('does not start a future session announced by another shard: the last one remains', async () => {
    const {scene, right} = clients(session, 0)
    expect(await admitted(scene, right, 4)).toBe(4)
    await change(scene.namespace, 'SET b_q_ws = :value REMOVE vu', NOON + 40 * DAY_MS)
    expect(await admitted(scene, scene.limiter({defaultLimits: [session], denyCacheMs: 0}), 6, 1)).toBe(6)
    scene.nowMs = NOON + HOUR_MS
    expect(await admitted(scene, right, 7, 3, 1)).toBe(10)
  })

  async function change(namespace: string, expression: string, value: number): Promise<void> {
    await table.transport.send('UpdateItem', {
      TableName: table.name,
      Key: wireKey(keys.bucket(namespace, USER.entity, USER.resource, 0)),
      UpdateExpression: expression,
      ExpressionAttributeValues: {':value': n(value)},
    })
  }
})
