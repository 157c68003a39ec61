import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {
  type BucketLimit,
  type BucketState,
  isCurrentAt,
  lifetimeSeconds,
  nextBoundary,
  refillBucket,
  tryConsumeBucket,
} from '../../../src/lib/core/buckets/bucket.js'
import {boundsOfRoom} from '../../../src/lib/core/buckets/fullness.js'
import {
  grantedFor,
  grantedForFewer,
  planQuotaGrant,
  planSplit,
  shareOfBucket,
  shareOfLimit,
  timeUntilTogether,
} from '../../../src/lib/core/buckets/shards.js'
import {type Quota, type RateSchedule, type ResetClock, rateAt} from '../../../src/lib/core/limits/limit-kind.js'
import {type Rate, shareOf} from '../../../src/lib/core/token-math.js'

const T0 = 1_700_000_000_000

/** Resets every `everyMs`, from T0 on. */
const every = (everyMs: number): ResetClock => ({
  lastMs: atMs => T0 + Math.floor((atMs - T0) / everyMs) * everyMs,
  nextMs: atMs => T0 + (Math.floor((atMs - T0) / everyMs) + 1) * everyMs,
})

/** Alternating rates, each for a while, from T0 on. */
const inTurn = (pieces: readonly {readonly rate: Rate; readonly lengthMs: number}[]): RateSchedule => ({
  at: atMs => {
    const cycleMs = pieces.reduce((sum, {lengthMs}) => sum + lengthMs, 0)
    const startMs = T0 + Math.floor((atMs - T0) / cycleMs) * cycleMs
    let untilMs = startMs
    for (const {rate, lengthMs} of pieces) {
      untilMs += lengthMs
      if (atMs < untilMs) return {rate, untilMs}
    }
    throw new Error('no piece')
  },
})

const quotaOf = (capacityMilli: bigint, quota: Quota, tokensMilli = capacityMilli): BucketLimit => ({
  capacityMilli,
  refillAmountMilli: 0n,
  refillPeriodMs: 1000,
  tokensMilli,
  remainder: 0n,
  consumedMilli: 0n,
  kind: {definition: 'quota', quota},
})

const bucketOf = (limit: BucketLimit, refilledAtMs = T0): BucketState => ({
  refilledAtMs,
  limits: new Map([['q', limit]]),
})
const tokensIn = (bucket: BucketState) => bucket.limits.get('q')?.tokensMilli
const take = (bucket: BucketState, milli: bigint, nowMs: number) =>
  tryConsumeBucket(bucket, new Map([['q', milli]]), nowMs)

const smallRate: fc.Arbitrary<Rate> = fc.record({
  capacityMilli: fc.bigInt({min: 1n, max: 400n}),
  refillAmountMilli: fc.bigInt({min: 0n, max: 50n}),
  refillPeriodMs: fc.constantFrom(1, 7, 10, 60),
})

describe('a limit with a schedule', () => {
  const pieces = fc.array(fc.record({rate: smallRate, lengthMs: fc.integer({min: 1, max: 90})}), {
    minLength: 1,
    maxLength: 4,
  })

  it('gains exactly by the rule of each stretch of time, as counted millisecond by millisecond', () => {
    fc.assert(
      fc.property(
        pieces,
        fc.bigInt({min: -200n, max: 500n}),
        fc.integer({min: 1, max: 700}),
        (turns, start, elapsedMs) => {
          const schedule = inTurn(turns)
          const base = (turns[0] as (typeof turns)[number]).rate
          const limit: BucketLimit = {
            ...base,
            tokensMilli: start,
            remainder: 0n,
            consumedMilli: 0n,
            kind: {definition: 's', schedule},
          }
          // A fraction over 420, which all periods divide.
          let level = start * 420n
          for (let atMs = T0; atMs < T0 + elapsedMs; atMs++) {
            const {rate} = schedule.at(atMs, base)
            const full = rate.capacityMilli * 420n
            const grown = level + (rate.refillAmountMilli * 420n) / BigInt(rate.refillPeriodMs)
            level = grown < full ? grown : full
          }
          const last = schedule.at(T0 + elapsedMs, base).rate.capacityMilli * 420n
          if (level > last) level = last
          const floor = level >= 0n ? level / 420n : -((-level + 419n) / 420n)
          expect(tokensIn(refillBucket(bucketOf(limit), T0 + elapsedMs))).toBe(floor)
        },
      ),
    )
  })

  it('gains no more in two refills than in one, and at most a fraction less', () => {
    fc.assert(
      fc.property(
        pieces,
        fc.integer({min: 0, max: 300}),
        fc.integer({min: 1, max: 300}),
        (turns, firstMs, secondMs) => {
          const base = (turns[0] as (typeof turns)[number]).rate
          const limit: BucketLimit = {
            ...base,
            tokensMilli: 0n,
            remainder: 0n,
            consumedMilli: 0n,
            kind: {definition: 's', schedule: inTurn(turns)},
          }
          const atMs = T0 + firstMs + secondMs
          const once = tokensIn(refillBucket(bucketOf(limit), atMs)) as bigint
          const twice = tokensIn(refillBucket(refillBucket(bucketOf(limit), T0 + firstMs), atMs)) as bigint
          expect(twice <= once && twice >= once - 1n).toBe(true)
        },
      ),
    )
  })

  it('reports a wait after which the tokens are there, and before which they are not', () => {
    fc.assert(
      fc.property(pieces, fc.bigInt({min: 1n, max: 400n}), fc.integer({min: 0, max: 200}), (turns, needed, atMs) => {
        const base = (turns[0] as (typeof turns)[number]).rate
        const limit: BucketLimit = {
          ...base,
          tokensMilli: 0n,
          remainder: 0n,
          consumedMilli: 0n,
          kind: {definition: 's', schedule: inTurn(turns)},
        }
        const {admitted, bucket, retryAfterMs} = take(bucketOf(limit), needed, T0 + atMs)
        if (admitted || !Number.isFinite(retryAfterMs)) return
        const heldAt = (waitMs: number) => tokensIn(refillBucket(bucket, T0 + atMs + waitMs)) ?? 0n
        const isTrue = [retryAfterMs, retryAfterMs - 1].some(ms => heldAt(ms) >= needed)
        // Skip instants just before a change of the rules: a caller would come too late. Also skip the time of one
        // millitoken: a rate change can lose a fraction of it.
        const lasts = (ms: number) => [ms, ms + 1, ms + 2].every(each => heldAt(each) > needed)
        // After 64 rule changes, waits drop fractions at each of them, so that they may be too long.
        const turnMs = turns.reduce((sum, {lengthMs}) => sum + lengthMs, 0) / turns.length
        const exactMs = Math.min(retryAfterMs - 2, 60 * turnMs)
        const tooEarly = Array.from({length: Math.max(0, Math.floor(exactMs))}, (_, ms) => ms).filter(lasts)
        expect({isTrue, tooEarly}).toEqual({isTrue: true, tooEarly: []})
      }),
      {numRuns: 30},
    )
  })

  it('loses nothing noticeable after a very long pause, and computes it quickly', () => {
    const low = {capacityMilli: 1000n, refillAmountMilli: 1000n, refillPeriodMs: 1000}
    const high = {capacityMilli: 5000n, refillAmountMilli: 1000n, refillPeriodMs: 1000}
    const schedule = inTurn([
      {rate: low, lengthMs: 60_000},
      {rate: high, lengthMs: 60_000},
    ])
    const limit: BucketLimit = {
      ...high,
      tokensMilli: 0n,
      remainder: 0n,
      consumedMilli: 0n,
      kind: {definition: 's', schedule},
    }
    expect(tokensIn(refillBucket(bucketOf(limit), T0 + 5 * 365 * 86_400_000 + 90_000))).toBe(5000n)
  })
})

describe('a calendar quota', () => {
  const daily = (tokensMilli?: bigint) => quotaOf(10_000n, {resets: every(1000)}, tokensMilli)

  it('is restored once by a reset, with any debt, and gains nothing else', () => {
    const bucket = bucketOf(daily(-3000n), T0 + 10)
    expect(tokensIn(refillBucket(bucket, T0 + 999))).toBe(-3000n)
    const restored = refillBucket(bucket, T0 + 3500)
    expect(tokensIn(restored)).toBe(10_000n)
    const {bucket: taken} = take(restored, 4000n, T0 + 3600)
    expect(tokensIn(refillBucket(taken, T0 + 3999))).toBe(6000n)
    expect(tokensIn(refillBucket(taken, T0 + 4000))).toBe(10_000n)
  })

  it('waits for the next reset, and is not current from then on', () => {
    const bucket = bucketOf(daily(0n), T0 + 100)
    expect(take(bucket, 1n, T0 + 400).retryAfterMs).toBe(601)
    expect(take(bucket, 10_001n, T0 + 400).retryAfterMs).toBe(Number.POSITIVE_INFINITY)
    expect([isCurrentAt(bucket, T0 + 999), isCurrentAt(bucket, T0 + 1000)]).toEqual([true, false])
    expect(nextBoundary(bucket, T0 + 400)).toBe(T0 + 1000)
    expect(boundsOfRoom(bucketOf(daily(), T0 + 100), ['q'], T0 + 900)).toHaveLength(1)
    expect(boundsOfRoom(bucketOf(daily(), T0 + 100), ['q'], T0 + 1000)).toEqual([])
  })

  it('lives at least until its next reset', () => {
    expect(lifetimeSeconds([quotaOf(10n, {resets: every(86_400_000)}, 5n)], 1, T0 + 1000)).toBeGreaterThanOrEqual(
      86_399,
    )
  })

  it('lives for the length of its session, even if it is used up or closed', () => {
    const hour = {lengthMs: 3_600_000}
    const begunAt = (startMs: number) => ({...hour, startMs, appliedMs: startMs})
    for (const session of [hour, begunAt(T0 - 1000), begunAt(T0 - 3_599_999), begunAt(T0 - 3_600_000)])
      expect(lifetimeSeconds([quotaOf(10n, {session}, 5n)], 7, T0)).toBe(7 * 3660)
  })

  it('keeps top-ups until the reset, which ends them', () => {
    const bucket = bucketOf(quotaOf(10_000n, {resets: every(1000), topUpMilli: 5000n}, 15_000n), T0 + 10)
    expect(tokensIn(refillBucket(bucket, T0 + 500))).toBe(15_000n)
    const restored = refillBucket(bucket, T0 + 1500)
    expect(tokensIn(restored)).toBe(10_000n)
    expect(restored.limits.get('q')?.kind?.quota?.topUpMilli).toBeUndefined()
  })

  it('admits its allowance in every window exactly once, over shards that split in between', () => {
    const splitOrTake = fc.oneof(
      {weight: 1, arbitrary: fc.constant('split' as const)},
      {
        weight: 8,
        arbitrary: fc.record({shard: fc.nat(7), milli: fc.bigInt({min: 1n, max: 500n}), afterMs: fc.nat(150)}),
      },
    )
    fc.assert(
      fc.property(fc.bigInt({min: 8n, max: 3000n}), fc.array(splitOrTake, {maxLength: 60}), (capacityMilli, steps) => {
        let shards: BucketState[] = [bucketOf(quotaOf(capacityMilli, {resets: every(1000)}))]
        let nowMs = T0
        let window = 0
        let admitted = 0n
        const drain = (atMs: number) => {
          for (const [index, stored] of shards.entries()) {
            const share = refillBucket(shareOfBucket(stored, index, shards.length), atMs)
            const held = tokensIn(share) as bigint
            admitted += held
            shards[index] = storedAgain(share, stored, -held)
          }
        }
        for (const step of steps) {
          if (step === 'split') {
            if (shards.length >= 8) continue
            shards = splitAgain(shards, nowMs)
            continue
          }
          nowMs += step.afterMs
          if (Math.floor((nowMs - T0) / 1000) > window) {
            // The rest of the ending window is taken in its last instant: the sum is the allowance, no more.
            drain(T0 + (window + 1) * 1000 - 1)
            expect(admitted).toBe(capacityMilli)
            window = Math.floor((nowMs - T0) / 1000)
            admitted = 0n
          }
          const index = step.shard % shards.length
          const stored = shards[index] as BucketState
          const decision = take(shareOfBucket(stored, index, shards.length), step.milli, nowMs)
          if (decision.admitted) admitted += step.milli
          shards[index] = storedAgain(decision.bucket, stored, 0n)
        }
        drain(T0 + (window + 1) * 1000 - 1)
        expect(admitted).toBe(capacityMilli)
      }),
    )
  })

  it('S8 S9 lets the shards hold exactly the allowance after any splits and changes', () => {
    const step = fc.oneof(
      {weight: 2, arbitrary: fc.constant('split' as const)},
      {weight: 3, arbitrary: fc.record({capacityMilli: fc.bigInt({min: 1n, max: 5000n})})},
      {weight: 1, arbitrary: fc.record({boughtMilli: fc.bigInt({min: 1n, max: 900n}), shard: fc.nat(31)})},
      {
        weight: 4,
        arbitrary: fc.record({milli: fc.bigInt({min: 1n, max: 500n}), shard: fc.nat(31), afterMs: fc.nat(400)}),
      },
    )
    const kind = fc.constantFrom<Quota>(
      {resets: every(1000), grantCount: 1},
      {session: {lengthMs: 1000, startMs: T0, appliedMs: T0}, grantCount: 1},
    )
    // A schedule window is a change too.
    const schedule = fc.constantFrom<RateSchedule | undefined>(undefined, {
      at: (atMs, base) => {
        const isLow = Math.floor((atMs - T0) / 300) % 2 === 1
        const untilMs = T0 + (Math.floor((atMs - T0) / 300) + 1) * 300
        return {rate: {...base, capacityMilli: isLow ? base.capacityMilli / 10n : base.capacityMilli}, untilMs}
      },
    })
    fc.assert(
      fc.property(kind, schedule, fc.array(step, {maxLength: 40}), (quota, schedule, steps) => {
        let whole: Rate = {capacityMilli: 1000n, refillAmountMilli: 0n, refillPeriodMs: 1000}
        const first = quotaOf(whole.capacityMilli, quota)
        let shards: BucketState[] = [bucketOf({...first, kind: {definition: 'quota', quota, schedule}})]
        let nowMs = T0
        const limitsNow = () =>
          shards.map(({limits}, shard) => shareOfLimit('q', limits.get('q') as BucketLimit, shard, shards.length))
        const ceilingsNow = () => limitsNow().map(limit => rateAt(limit, nowMs).rate.capacityMilli)
        const usableNow = () => {
          const ceilings = ceilingsNow()
          return sum(limitsNow().map(({tokensMilli}, shard) => lesser(tokensMilli, ceilings[shard] as bigint)))
        }
        for (const step of steps) {
          if (step === 'split') {
            if (shards.length === 32) continue
            const usable = usableNow()
            shards = splitAgain(shards, nowMs)
            expect(usableNow()).toBe(usable)
          } else if ('capacityMilli' in step) {
            whole = {...whole, ...step}
            shards = shards.map(stored => changed(stored, limit => ({...limit, ...step})))
          } else if ('milli' in step) {
            nowMs += step.afterMs
            const shard = step.shard % shards.length
            const stored = shards[shard] as BucketState
            const {bucket} = take(shareOfBucket(stored, shard, shards.length), step.milli, nowMs)
            shards[shard] = storedAgain(bucket, stored, 0n)
          } else {
            const shard = step.shard % shards.length
            shards[shard] = changed(shards[shard] as BucketState, limit => topped(limit, step.boughtMilli))
          }
          const {capacityMilli} = schedule?.at(nowMs, whole).rate ?? whole
          const bought = sum(limitsNow().map(({kind}) => kind?.quota?.topUpMilli ?? 0n))
          expect(sum(ceilingsNow())).toBe(capacityMilli + bought)
        }
      }),
    )
  })

  it('S8 names the quotas of a shard that may hold more than its part', () => {
    const stored = (tokensMilli: bigint, grantCount: number | undefined, topUpMilli?: bigint) => ({
      ...{shard: 0, shardCount: 4},
      state: bucketOf(quotaOf(1000n, {resets: every(1000), grantCount, topUpMilli}, tokensMilli)),
    })
    expect(grantedForFewer(stored(250n, 1), T0)).toEqual(['q'])
    expect(grantedForFewer(stored(251n, 1), T0)).toEqual([])
    expect(grantedForFewer(stored(300n, 2, 50n), T0)).toEqual(['q'])
    expect(grantedForFewer(stored(200n, 4), T0)).toEqual([])
    expect(grantedForFewer(stored(200n, undefined), T0)).toEqual([])
  })

  it('gives a missing shard its part from the shard that was granted it, or else a new one', () => {
    const sibling = (shard: number, tokensMilli: bigint, grantCount: number, isCurrent = true) => ({
      shard,
      tokensMilli,
      grantCount,
      isCurrent,
    })
    expect(planQuotaGrant([sibling(0, 100n, 1)], 1, 50n)).toEqual({donor: 0, tokensMilli: 50n})
    expect(planQuotaGrant([sibling(0, 30n, 1)], 1, 50n)).toEqual({donor: 0, tokensMilli: 30n})
    expect(planQuotaGrant([sibling(0, -30n, 1)], 1, 50n)).toEqual({donor: 0, tokensMilli: 0n})
    expect(planQuotaGrant([sibling(0, 50n, 2)], 1, 50n)).toEqual({donor: undefined, tokensMilli: 50n})
    expect(planQuotaGrant([sibling(0, 99n, 1), sibling(1, 40n, 2)], 3, 25n)).toEqual({donor: 1, tokensMilli: 25n})
    expect(planQuotaGrant([sibling(0, 99n, 1, false)], 1, 50n)).toEqual({donor: undefined, tokensMilli: 50n})
  })
})

/** A stored share: with the parameters of the whole, and the kind without the share. */
function storedAgain(share: BucketState, stored: BucketState, deltaMilli: bigint): BucketState {
  const limit = share.limits.get('q') as BucketLimit
  const {capacityMilli, refillAmountMilli, refillPeriodMs} = stored.limits.get('q') as BucketLimit
  const kind = limit.kind && {...limit.kind, share: undefined}
  const tokensMilli = limit.tokensMilli + deltaMilli
  return bucketOf({...limit, capacityMilli, refillAmountMilli, refillPeriodMs, tokensMilli, kind}, share.refilledAtMs)
}

function splitAgain(shards: readonly BucketState[], nowMs: number): BucketState[] {
  const moves = planSplit(shards, nowMs)
  const count = shards.length * 2
  const given = (tokensMilli: bigint) => (limit: BucketLimit) => {
    const {kind, ...rest} = grantedFor({...limit, tokensMilli, consumedMilli: 0n}, count)
    return {...rest, kind: kind && {...kind, quota: {...kind.quota, topUpMilli: undefined}}}
  }
  const donors = shards.map((stored, index) => {
    const movedMilli = moves[index]?.movedMilli.get('q') ?? 0n
    return changed(stored, limit => grantedFor({...limit, tokensMilli: limit.tokensMilli - movedMilli}, count))
  })
  const received = moves.map(({from, movedMilli}) =>
    changed(shards[from] as BucketState, given(movedMilli.get('q') ?? 0n)),
  )
  return [...donors, ...received]
}

const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((a, b) => a + b, 0n)
const lesser = (a: bigint, b: bigint): bigint => (a < b ? a : b)

function changed(stored: BucketState, change: (limit: BucketLimit) => BucketLimit): BucketState {
  return bucketOf(change(stored.limits.get('q') as BucketLimit), stored.refilledAtMs)
}

function topped(limit: BucketLimit, milli: bigint): BucketLimit {
  const quota = {...limit.kind?.quota, topUpMilli: (limit.kind?.quota?.topUpMilli ?? 0n) + milli}
  return {...limit, tokensMilli: limit.tokensMilli + milli, kind: {definition: 'quota', ...limit.kind, quota}}
}

describe('a session quota', () => {
  const session = (startMs: number | undefined, tokensMilli: bigint, appliedMs = startMs) =>
    quotaOf(10_000n, {session: {lengthMs: 1000, startMs, appliedMs}}, tokensMilli)

  it('opens with the first use, lasts for [start, start + length), and opens again after a pause', () => {
    const {admitted, bucket} = take(bucketOf(session(undefined, 0n)), 4000n, T0 + 300)
    expect(admitted).toBe(true)
    expect(bucket.limits.get('q')?.kind?.quota?.session).toMatchObject({startMs: T0 + 300, appliedMs: T0 + 300})
    expect(tokensIn(refillBucket(bucket, T0 + 1299))).toBe(6000n)
    const again = refillBucket(bucket, T0 + 1300)
    expect([tokensIn(again), again.limits.get('q')?.kind?.quota?.session?.startMs]).toEqual([10_000n, T0 + 1300])
    expect(refillBucket(bucket, T0 + 9000).limits.get('q')?.kind?.quota?.session?.startMs).toBe(T0 + 9000)
    expect(take(bucket, 7000n, T0 + 400).retryAfterMs).toBe(901)
  })

  it('stays closed if nothing is taken', () => {
    const closed = refillBucket(bucketOf(session(T0, 1000n)), T0 + 5000, false)
    expect([tokensIn(closed), closed.limits.get('q')?.kind?.quota?.session?.startMs]).toEqual([1000n, T0])
  })

  it('starts on a shard when another one has opened it, minus the consumption since', () => {
    const limit = session(T0 + 500, 100n, T0 - 600)
    const spent = {...limit, consumedMilli: 7000n}
    const quota = {
      ...limit.kind?.quota,
      session: {...limit.kind?.quota?.session, lengthMs: 1000, consumedMarkMilli: 5000n},
    }
    const pending = {...spent, kind: {definition: 'quota', quota}}
    const rolled = refillBucket(bucketOf(pending), T0 + 600)
    expect([tokensIn(rolled), rolled.limits.get('q')?.kind?.quota?.session?.appliedMs]).toEqual([8000n, T0 + 500])
    expect(tokensIn(refillBucket(rolled, T0 + 700))).toBe(8000n)
    expect(isCurrentAt(bucketOf(pending), T0 + 600)).toBe(false)
    expect(isCurrentAt(rolled, T0 + 600)).toBe(true)
  })

  it('opens even for a clock behind the last refill', () => {
    expect(tokensIn(refillBucket(bucketOf(session(T0 - 2000, 0n), T0 + 400), T0))).toBe(10_000n)
  })
})

describe('a soft limit', () => {
  const soft = (softUntilMs: number): BucketLimit => ({
    ...quotaOf(1000n, {resets: every(1000)}, 0n),
    kind: {definition: '', softUntilMs, quota: {resets: every(1000)}},
  })

  it('is charged into debt and never refuses until its softness expires', () => {
    const {admitted, bucket, statuses} = take(bucketOf(soft(T0 + 500)), 5000n, T0 + 100)
    expect([admitted, tokensIn(bucket), statuses[0]?.exceeded]).toEqual([true, -5000n, false])
    expect(take(bucket, 1n, T0 + 500).admitted).toBe(false)
    expect([isCurrentAt(bucket, T0 + 499), isCurrentAt(bucket, T0 + 500)]).toEqual([true, false])
  })
})

describe('several shards of a quota', () => {
  it('wait for the next reset together', () => {
    const shares = [0, 1].map(shard =>
      shareOfBucket(bucketOf(quotaOf(10_000n, {resets: every(1000)}, 1000n), T0), shard, 2),
    )
    expect(timeUntilTogether(shares, new Map([['q', 2000n]]), T0 + 100)).toBe(1)
    expect(timeUntilTogether(shares, new Map([['q', 9000n]]), T0 + 100)).toBe(901)
    expect(timeUntilTogether(shares, new Map([['q', 10_001n]]), T0 + 100)).toBe(Number.POSITIVE_INFINITY)
  })

  it('wait for their sum in the middle of a window, and lose it at its end', () => {
    const rate = {refillAmountMilli: 1000n, refillPeriodMs: 1000}
    const [low, high] = [
      {...rate, capacityMilli: 1000n},
      {...rate, capacityMilli: 5000n},
    ]
    const schedule = inTurn([low, high].map(each => ({rate: each, lengthMs: 60_000})))
    const limit = {...high, tokensMilli: 0n, remainder: 0n, consumedMilli: 0n, kind: {definition: '', schedule}}
    const shares = [0, 1].map(shard => shareOfBucket(bucketOf(limit), shard, 2))
    expect(timeUntilTogether(shares, new Map([['q', 3000n]]), T0)).toBe(62_001)
  })

  it('hold parts that add up to the allowance', () => {
    fc.assert(
      fc.property(fc.bigInt({min: 0n, max: 10n ** 9n}), fc.constantFrom(1, 2, 4, 8, 16, 32), (milli, count) => {
        const parts = Array.from({length: count}, (_, shard) => {
          const empty = quotaOf(milli, {resets: every(1000)}, 0n)
          return tokensIn(refillBucket(shareOfBucket(bucketOf(empty), shard, count), T0 + 1000)) as bigint
        })
        expect(parts.reduce((sum, part) => sum + part, 0n)).toBe(milli)
        expect(parts[0]).toBe(shareOf(milli, 0, count))
      }),
    )
  })
})
