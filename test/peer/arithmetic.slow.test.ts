import {afterAll, beforeAll, expect, it} from 'vitest'
import {type BucketLimit, type BucketState, tryConsumeBucket} from '../../src/lib/core/buckets/bucket.js'
import {shareOfBucket} from '../../src/lib/core/buckets/shards.js'
import {kindedRateOf} from '../../src/lib/core/calendar/kind-definition.js'
import type {Limit} from '../../src/lib/core/limits/limit.js'
import type {Quota} from '../../src/lib/core/limits/limit-kind.js'
import {Picker, seeded} from '../core/calendar/random-schedules.js'
import {describeWithPeers, PythonProcess} from './python-client.js'

const CASES = 40
const STEPS = 25
const HOUR_MS = 3_600_000
const START_MS = 1_700_000_000_000

interface Step {
  readonly ms: number
  readonly amount: number
  /** Another shard has just opened a session. */
  readonly announces?: true
  /** Topped up just now, in millitokens. */
  readonly topUp?: number
}

interface Case {
  readonly limit: Limit
  readonly shards: number
  readonly tokensMilli: number
  readonly grantCount: number | null
  readonly sessionStartMs: number | null
  readonly appliedMs: number | null
  readonly steps: readonly Step[]
}

type Answer = readonly [
  admitted: boolean,
  tokensMilli: number,
  startMs: number | null,
  appliedMs: number | null,
  grantCount: number | null,
  topUpMilli: number,
]

/** The requests go to shard 0, whose part is the same in both: zael gives indivisible rests to the first shards. */
function randomCase(pick: Picker): Case {
  const isSession = pick.chance(0.5)
  const shards = 2 ** pick.whole(0, 3)
  const capacity = pick.whole(1, 100)
  const limit: Limit = {
    ...{name: 'q', capacity, refillAmount: 0, refillPeriodSeconds: 1},
    reset: isSession ? {afterSeconds: pick.whole(1, 10) * 1800} : {crons: [pick.of(['0 * * * *', '30 */3 * * *'])]},
    ...(pick.chance(0.4) && {schedule: [{cron: '* 0-11 * * *', scale: pick.of([0.1, 0.5, 2])}]}),
    timeZone: pick.of(['UTC', 'Europe/Berlin']),
  }
  const sessionStartMs = isSession && pick.chance(0.8) ? START_MS - pick.whole(0, 4 * HOUR_MS) : null
  // Granted for this number of shards or for fewer, before they were split.
  const grantCount = 2 ** pick.whole(0, Math.log2(shards))
  let ms = START_MS
  const steps = Array.from({length: STEPS}, (): Step => {
    // Clocks of clients differ: sometimes the next one is behind.
    ms += pick.chance(0.1) ? -pick.whole(0, 5000) : pick.whole(0, pick.of([1000, HOUR_MS, 6 * HOUR_MS]))
    const amount = pick.chance(0.1) ? pick.whole(1, 50) : pick.whole(1, Math.ceil(capacity / shards))
    return {
      ...{ms, amount},
      ...(isSession && pick.chance(0.1) && {announces: true}),
      ...(pick.chance(0.1) && {topUp: 1000 * pick.whole(1, 20)}),
    }
  })
  const tokensMilli = Math.floor((capacity * 1000 * (pick.random() * 1.5 - 0.3)) / grantCount)
  const appliedMs = sessionStartMs === null ? null : pick.chance(0.8) ? sessionStartMs : sessionStartMs - HOUR_MS
  return {limit, shards, tokensMilli, grantCount, sessionStartMs, appliedMs, steps}
}

/** A case as a question to Python. */
function theirCase({limit, steps, ...stored}: Case): object {
  const tz = limit.timeZone
  const reset = limit.reset as {crons?: string[]; afterSeconds?: number}
  return {
    limit: {
      ...{name: limit.name, capacity: limit.capacity, refill_amount: 0, refill_period_seconds: 1},
      ...(limit.schedule && {schedule: limit.schedule.map(entry => ({...entry, tz}))}),
      ...(reset.crons
        ? {reset_schedule: reset.crons.map(cron => ({cron, tz}))}
        : {reset_after_seconds: reset.afterSeconds}),
    },
    state: {
      tokens_milli: stored.tokensMilli,
      last_refill_ms: START_MS,
      total_consumed_milli: 0,
      shard_count: stored.shards,
      grant_count: stored.grantCount,
      window_start_ms: stored.sessionStartMs,
      window_applied_ms: stored.appliedMs,
    },
    steps,
  }
}

/** A case by our arithmetic, in the form of Python's results. */
function ourAnswers({limit, shards, steps, ...stored}: Case): Answer[] {
  const rate = kindedRateOf(limit, START_MS)
  let state = changed(
    {...rate, tokensMilli: BigInt(stored.tokensMilli), consumedMilli: 0n, remainder: 0n},
    ({session, ...quota}) => ({
      ...quota,
      grantCount: stored.grantCount ?? undefined,
      session: session && {
        ...session,
        startMs: stored.sessionStartMs ?? undefined,
        appliedMs: stored.appliedMs ?? undefined,
      },
    }),
  )
  let refilledAtMs = START_MS
  return steps.map(({ms, amount, announces, topUp}): Answer => {
    if (announces) {
      const consumedMarkMilli = state.consumedMilli
      state = changed(state, quota => ({
        ...quota,
        session: quota.session && {...quota.session, startMs: ms, consumedMarkMilli},
      }))
    }
    if (topUp !== undefined) {
      const bought = BigInt(topUp)
      state = changed({...state, tokensMilli: state.tokensMilli + bought}, quota => ({
        ...quota,
        topUpMilli: (quota.topUpMilli ?? 0n) + bought,
      }))
    }
    const bucket: BucketState = shareOfBucket({refilledAtMs, limits: new Map([['q', state]])}, 0, shards)
    const decision = tryConsumeBucket(bucket, new Map([['q', BigInt(amount) * 1000n]]), ms)
    const after = decision.bucket.limits.get('q') as BucketLimit
    if (decision.admitted) {
      refilledAtMs = decision.bucket.refilledAtMs
      // Records have the parameters of the whole.
      const {share: _, ...kind} = after.kind as NonNullable<BucketLimit['kind']>
      state = {...after, ...kindedRateOf(limit, ms), kind}
    }
    const {session, grantCount, topUpMilli} = (after.kind as {quota: Quota}).quota
    return [
      decision.admitted,
      Number(after.tokensMilli),
      session?.startMs ?? null,
      session?.appliedMs ?? null,
      grantCount ?? null,
      Number(topUpMilli ?? 0n),
    ]
  })
}

function changed(limit: BucketLimit, change: (quota: Quota) => Quota): BucketLimit {
  const {kind} = limit
  return kind?.quota ? {...limit, kind: {...kind, quota: change(kind.quota)}} : limit
}

describeWithPeers('the arithmetic of quotas beside zae-limiter 0.17', () => {
  let python: PythonProcess

  beforeAll(() => {
    python = new PythonProcess('0.17')
  })
  afterAll(() => python[Symbol.asyncDispose]())

  it(`gives the same answers in ${CASES} random sequences of requests, announced sessions and top-ups`, async () => {
    const pick = new Picker(seeded(7))
    const cases = Array.from({length: CASES}, () => randomCase(pick))
    const theirs = await python.request<Answer[][]>('play', {cases: cases.map(theirCase)})
    const different = cases.flatMap((each, at) => {
      const ours = ourAnswers(each)
      const step = ours.findIndex((answer, index) => String(answer) !== String(theirs[at]?.[index]))
      return step < 0 ? [] : [{each, step, ours: ours.slice(0, step + 1), theirs: theirs[at]?.slice(0, step + 1)}]
    })
    expect(different.slice(0, 3)).toEqual([])
    const admitted = theirs.flat().filter(([isAdmitted]) => isAdmitted).length
    expect(admitted).toBeGreaterThan((CASES * STEPS) / 4)
    expect(admitted).toBeLessThan((CASES * STEPS * 3) / 4)
  })
})
