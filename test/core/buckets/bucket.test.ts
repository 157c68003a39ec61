import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {
  type Amounts,
  type BucketLimit,
  type BucketState,
  chooseFitting,
  expiresAtSeconds,
  LATEST_EXPIRY_SECONDS,
  lifetimeSeconds,
  neededUntilSeconds,
  negateAmounts,
  refillBucket,
  sumAmounts,
  tryConsumeBucket,
  waitInPlainBucket,
} from '../../../src/lib/core/buckets/bucket.js'
import {rateOf} from '../../../src/lib/core/limits/limit.js'
import type {Rate} from '../../../src/lib/core/token-math.js'
import {runs} from '../../helpers/runs.js'
import {anyRate, anyTokensMilli} from '../arbitraries.js'

const T0 = 1_700_000_000_000

function full(rate: Rate): BucketLimit {
  return {...rate, tokensMilli: rate.capacityMilli, remainder: 0n, consumedMilli: 0n}
}

function bucketOf(limits: Record<string, Rate>): BucketState {
  return {refilledAtMs: T0, limits: new Map(Object.entries(limits).map(([name, rate]) => [name, full(rate)]))}
}

const asked = (amounts: Record<string, number>): Amounts =>
  new Map(Object.entries(amounts).map(([name, tokens]) => [name, BigInt(tokens) * 1000n]))

const PER_DAY: Rate = {capacityMilli: 10_000n, refillAmountMilli: 10_000n, refillPeriodMs: 86_400_000}
const PER_SECOND: Rate = {capacityMilli: 100_000n, refillAmountMilli: 100_000n, refillPeriodMs: 1000}
const slowAndFast = () => bucketOf({rpd: PER_DAY, rps: PER_SECOND})

/** Charges (or refunds, if negative) regardless of the balance, like settlements. */
function settle(bucket: BucketState, amounts: Amounts, nowMs: number): BucketState {
  const {refilledAtMs, limits} = refillBucket(bucket, nowMs)
  const charged = [...limits].map(([name, limit]): [string, BucketLimit] => {
    const milli = amounts.get(name) ?? 0n
    return [name, {...limit, tokensMilli: limit.tokensMilli - milli, consumedMilli: limit.consumedMilli + milli}]
  })
  return {refilledAtMs, limits: new Map(charged)}
}

/** Exact level of a limit as a fraction over its period, without remainders or shared instants. */
class RationalOracle {
  #level: bigint
  #atMs = T0
  constructor(readonly rate: Rate) {
    this.#level = rate.capacityMilli * BigInt(rate.refillPeriodMs)
  }
  advance(nowMs: number): bigint {
    if (nowMs > this.#atMs) {
      const full = this.rate.capacityMilli * BigInt(this.rate.refillPeriodMs)
      const grown = this.#level + BigInt(nowMs - this.#atMs) * this.rate.refillAmountMilli
      this.#level = grown < full ? grown : full
      this.#atMs = nowMs
    }
    return this.#level
  }
  charge(milli: bigint): void {
    this.#level -= milli * BigInt(this.rate.refillPeriodMs)
  }
}

const exactLevel = (limit: BucketLimit): bigint => limit.tokensMilli * BigInt(limit.refillPeriodMs) + limit.remainder

/** One event: time passes (or goes back, as on a skewed clock), then a request, a charge or a refund. */
const anyEvent = fc.record({
  passMs: fc.oneof(
    {weight: 4, arbitrary: fc.integer({min: 0, max: 30_000})},
    fc.integer({min: -20_000, max: -1}),
    fc.integer({min: 0, max: 200_000_000}),
  ),
  how: fc.constantFrom('try', 'try', 'try', 'force', 'return'),
  rpd: fc.integer({min: 0, max: 12}),
  rps: fc.integer({min: 0, max: 130}),
})
const anyHistory = fc.array(anyEvent, {maxLength: 60})

describe('a 10/day limit beside a 100/s limit in one bucket', () => {
  it('S2 S3 gains exactly as much as an exact rational oracle, at any pattern of instants', () => {
    fc.assert(
      fc.property(anyHistory, history => {
        let bucket = slowAndFast()
        const oracles = new Map([...bucket.limits].map(([name, rate]) => [name, new RationalOracle(rate)]))
        let nowMs = T0
        for (const {passMs, how, rpd, rps} of history) {
          nowMs += passMs
          for (const oracle of oracles.values()) oracle.advance(nowMs)
          const sign = how === 'return' ? -1 : 1
          const amounts = asked({rpd: sign * rpd, rps: sign * rps})
          if (how === 'try') {
            const decision = tryConsumeBucket(bucket, amounts, nowMs)
            bucket = decision.bucket
            if (!decision.admitted) continue
          } else {
            bucket = settle(bucket, amounts, nowMs)
          }
          for (const [name, milli] of amounts) oracles.get(name)?.charge(milli)
        }
        for (const [name, limit] of bucket.limits) {
          expect([name, exactLevel(limit)]).toEqual([name, oracles.get(name)?.advance(bucket.refilledAtMs)])
        }
      }),
      {numRuns: runs(500)},
    )
  })

  it('D-2 recovers the slow limit fully in a day although the fast one is refilled every 700 ms', () => {
    let bucket = tryConsumeBucket(slowAndFast(), asked({rpd: 10}), T0).bucket
    for (let nowMs = T0; nowMs < T0 + 86_400_000; nowMs += 700) {
      bucket = tryConsumeBucket(bucket, asked({rps: 50}), nowMs).bucket
    }
    expect(refillBucket(bucket, T0 + 86_400_000).limits.get('rpd')?.tokensMilli).toBe(10_000n)
  })
})

describe('rate bound', () => {
  it('S1 admits no more than capacity plus refill over every interval', () => {
    fc.assert(
      fc.property(anyHistory, history => {
        let bucket = slowAndFast()
        const admitted: Array<{atMs: number; name: string; milli: bigint}> = []
        let nowMs = T0
        for (const {passMs, rpd, rps} of history) {
          nowMs = Math.max(nowMs, nowMs + passMs)
          const amounts = asked({rpd, rps})
          const decision = tryConsumeBucket(bucket, amounts, nowMs)
          bucket = decision.bucket
          if (decision.admitted) for (const [name, milli] of amounts) admitted.push({atMs: nowMs, name, milli})
        }
        for (const [name, rate] of Object.entries({rpd: PER_DAY, rps: PER_SECOND})) {
          const mine = admitted.filter(entry => entry.name === name)
          mine.forEach((first, from) => {
            let sum = 0n
            for (const last of mine.slice(from)) {
              sum += last.milli
              const period = BigInt(rate.refillPeriodMs)
              const bound = rate.capacityMilli * period + BigInt(last.atMs - first.atMs) * rate.refillAmountMilli
              expect(sum * period <= bound).toBe(true)
            }
          })
        }
      }),
      {numRuns: runs(300)},
    )
  })
})

describe('time', () => {
  it('S7 never creates tokens or moves the refill instant back when a clock jumps back', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({min: -30_000, max: 30_000}), {maxLength: 80}), jumps => {
        let bucket = settle(slowAndFast(), asked({rpd: 1000, rps: 1_000_000}), T0)
        const before = bucket
        let nowMs = T0
        let latestMs = T0
        for (const jump of jumps) {
          nowMs += jump
          latestMs = Math.max(latestMs, nowMs)
          const next = refillBucket(bucket, nowMs)
          expect(next.refilledAtMs).toBe(latestMs)
          bucket = next
        }
        expect(bucket).toEqual(refillBucket(before, latestMs))
      }),
    )
  })

  it('D-5 admits as much with two clocks 10 s apart as with one', () => {
    const perSecond: Rate = {capacityMilli: 100_000n, refillAmountMilli: 1000n, refillPeriodMs: 1000}
    let bucket = bucketOf({rps: perSecond})
    let admitted = 0
    for (let ms = 0; ms < 60_000; ms += 50) {
      const skewMs = (ms / 50) % 2 === 0 ? 0 : 10_000
      const decision = tryConsumeBucket(bucket, asked({rps: 1}), T0 + ms + skewMs)
      bucket = decision.bucket
      if (decision.admitted) admitted += 1
    }
    expect(admitted).toBe(160)
  })

  it('D-4 stores the instant that the refill was computed for', () => {
    const decision = tryConsumeBucket(slowAndFast(), asked({rps: 1}), T0 + 1234)
    expect(decision.bucket.refilledAtMs).toBe(T0 + 1234)
  })

  it('L2 reports a true retry-after if the refill instant is ahead of the clock', () => {
    const emptyAhead = settle(bucketOf({rps: PER_SECOND}), asked({rps: 100}), T0 + 5000)
    const decision = tryConsumeBucket(emptyAhead, asked({rps: 10}), T0)
    expect(decision.admitted).toBe(false)
    expect(decision.retryAfterMs).toBe(5000 + 101)
    expect(tryConsumeBucket(emptyAhead, asked({rps: 10}), T0 + decision.retryAfterMs).admitted).toBe(true)
  })
})

describe('decisions', () => {
  it('S4 S5 charge nothing if one of several limits refuses', () => {
    const decision = tryConsumeBucket(slowAndFast(), asked({rps: 5, rpd: 11}), T0)
    expect(decision.admitted).toBe(false)
    expect(decision.bucket).toEqual(slowAndFast())
  })

  it('report each requested limit with the missing amount', () => {
    const {statuses, retryAfterMs} = tryConsumeBucket(slowAndFast(), asked({rps: 5, rpd: 12}), T0)
    expect(statuses).toEqual([
      {name: 'rps', capacity: 100, available: 100, requested: 5, deficit: 0, exceeded: false, retryAfterMs: 0},
      {name: 'rpd', capacity: 10, available: 10, requested: 12, deficit: 2, exceeded: true, retryAfterMs: Infinity},
    ])
    expect(retryAfterMs).toBe(Infinity)
  })

  it('D-20 do not check a limit that is not requested, even in debt', () => {
    const inDebt = settle(slowAndFast(), asked({rpd: 50}), T0)
    expect(tryConsumeBucket(inDebt, asked({rps: 1, rpd: 0}), T0).admitted).toBe(true)
    expect(tryConsumeBucket(inDebt, asked({rps: 1, rpd: 1}), T0).admitted).toBe(false)
  })

  it('refuse a limit that the bucket lacks, and names that objects inherit', () => {
    expect(() => tryConsumeBucket(slowAndFast(), asked({tpm: 1}), T0)).toThrow('no limit "tpm"; it has rpd, rps')
    expect(() => tryConsumeBucket(slowAndFast(), asked({constructor: 1}), T0)).toThrow('no limit "constructor"')
  })

  it('count consumption separately from refill', () => {
    let bucket = tryConsumeBucket(slowAndFast(), asked({rps: 30}), T0).bucket
    bucket = settle(bucket, asked({rps: -10}), T0 + 60_000)
    expect(bucket.limits.get('rps')?.consumedMilli).toBe(20_000n)
    expect([...bucket.limits.values()].map(limit => limit.tokensMilli)).toEqual([10_000n, 110_000n])
  })
})

describe('amounts', () => {
  const requests = [{amounts: asked({a: 3, b: 1})}, {amounts: asked({a: 5})}, {amounts: asked({a: 2})}]

  it('add up by limit', () => {
    expect(sumAmounts(requests)).toEqual(asked({a: 10, b: 1}))
    expect(sumAmounts([])).toEqual(new Map())
  })

  it('undo a charge if negated', () => {
    expect(negateAmounts(asked({a: 3, b: -1}))).toEqual(asked({a: -3, b: 1}))
  })

  it('are fitted in order; one that does not fit is skipped and takes nothing', () => {
    const [first, second, third] = requests
    expect(chooseFitting(requests, asked({a: 5, b: 1}))).toEqual({fitting: [first, third], others: [second]})
    expect(chooseFitting(requests, asked({a: 10, b: 1}))).toEqual({fitting: requests, others: []})
  })

  it('do not fit if a limit is missing, and are taken all or none', () => {
    const request = {amounts: asked({a: 1, missing: 1})}
    const after = {amounts: asked({a: 5})}
    expect(chooseFitting([request, after], asked({a: 5}))).toEqual({fitting: [after], others: [request]})
  })
})

describe('lifetime', () => {
  const limit = (capacity: number, refillAmount: number, refillPeriodSeconds: number) =>
    rateOf({name: 'x', capacity, refillAmount, refillPeriodSeconds})

  it.each([
    [100, 100, 60, 420],
    [1000, 10, 60, 42_000],
    [7, 3, 1, 16],
    [1, 3, 1, 2],
    [10, 10, 86_400, 604_800],
  ])('of capacity %s, %s per %s s is %s s at multiplier 7', (capacity, amount, period, seconds) => {
    expect(lifetimeSeconds([limit(capacity, amount, period)], 7)).toBe(seconds)
  })

  it('depends on the slowest limit', () => {
    expect(lifetimeSeconds([limit(100, 100, 60), limit(10, 10, 86_400)], 7)).toBe(604_800)
  })

  it('is at least seven days: recreating a bucket costs more than keeping it', () => {
    const week = 7 * 86_400
    expect(expiresAtSeconds([limit(100, 100, 60)], 7, 5_000_500)).toBe(5000 + week)
    expect(expiresAtSeconds([limit(10, 10, 86_400)], 7, 5_000_500)).toBe(5000 + week)
    expect(expiresAtSeconds([limit(11, 10, 86_400)], 7, 5_000_500)).toBe(5000 + 1.1 * week)
  })

  it('is at least a minute, so that a fast bucket does not expire between two requests', () => {
    expect(neededUntilSeconds([limit(100, 1000, 1)], 7, 5_000_500)).toBe(5060)
    expect(neededUntilSeconds([limit(100, 100, 60)], 7, 5_000_500)).toBe(5420)
  })

  it('L5 ends with the year 9999, however slowly the bucket fills', () => {
    expect(expiresAtSeconds([limit(20_000_000_000, 1, 86_400)], 7, 5_000_500)).toBe(LATEST_EXPIRY_SECONDS)
    const indebted = {...limit(1, 1, 30 * 86_400), tokensMilli: -(10n ** 12n)}
    expect(neededUntilSeconds([indebted], 1, 5_000_500)).toBe(LATEST_EXPIRY_SECONDS)
  })

  it('D-41 grows with a debt, so that expiry forgives none', () => {
    expect(lifetimeSeconds([{...limit(100, 100, 60), tokensMilli: -900_000n}], 7)).toBe(4200)
    expect(lifetimeSeconds([{...limit(100, 100, 60), tokensMilli: 50_000n}], 7)).toBe(420)
  })
})

it('L2 is the wait of the decision for a refilled bucket, whatever the clock shows', () => {
  const anyElapsedMs = fc.integer({min: -3 * 86_400_000, max: 3 * 86_400_000})
  const anyAmount = fc.bigInt({min: 0n, max: 10n ** 16n})
  fc.assert(
    fc.property(anyRate, anyTokensMilli, anyAmount, anyElapsedMs, (rate, tokensMilli, milli, elapsedMs) => {
      const limit = {...rate, tokensMilli, remainder: 0n, consumedMilli: 0n}
      const bucket = {refilledAtMs: T0, limits: new Map([['rpm', limit]])}
      const nowMs = T0 + elapsedMs
      const {retryAfterMs} = tryConsumeBucket(bucket, new Map([['rpm', milli]]), nowMs)
      expect(waitInPlainBucket(refillBucket(bucket, nowMs), 'rpm', milli, nowMs)).toBe(retryAfterMs)
    }),
  )
})
