import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {
  type BucketLimit,
  type BucketState,
  refillBucket,
  tryConsumeBucket,
} from '../../../src/lib/core/buckets/bucket.js'
import {
  availableTogether,
  planGather,
  planSplit,
  shareOfBucket,
  shouldGrow,
  timeUntilTogether,
  writesPerSecond,
} from '../../../src/lib/core/buckets/shards.js'
import {type Rate, shareOf, shareOfRate} from '../../../src/lib/core/token-math.js'
import {anyRate} from '../arbitraries.js'

const counts = Array.from({length: 64}, (_, index) => index + 1)
const anyMilli = fc.bigInt({min: 0n, max: 10n ** 16n})

function bucket(limits: Record<string, Rate & {tokensMilli: bigint}>): BucketState {
  const entries = Object.entries(limits).map(([name, limit]): [string, BucketLimit] => [
    name,
    {remainder: 0n, consumedMilli: 0n, ...limit},
  ])
  return {refilledAtMs: 0, limits: new Map(entries)}
}

const sum = (values: Iterable<bigint>) => [...values].reduce((total, value) => total + value, 0n)
const tokens = (state: BucketState, name: string) => state.limits.get(name)?.tokensMilli ?? 0n

describe('shares', () => {
  it('S8 add up to the whole for every count from 1 to 64 and differ by at most one milli', () => {
    fc.assert(
      fc.property(anyMilli, value => {
        for (const count of counts) {
          const shares = Array.from({length: count}, (_, shard) => shareOf(value, shard, count))
          expect(sum(shares)).toBe(value)
          const floor = value / BigInt(count)
          expect(shares.every(share => share === floor || share === floor + 1n)).toBe(true)
        }
      }),
      {numRuns: 30},
    )
  })

  it('S8 of a shard divide exactly between it and the shard it feeds when the count doubles', () => {
    fc.assert(
      fc.property(anyMilli, fc.constantFrom(...counts), (value, count) => {
        for (let shard = 0; shard < count; shard++) {
          const halves = shareOf(value, shard, 2 * count) + shareOf(value, count + shard, 2 * count)
          expect(halves).toBe(shareOf(value, shard, count))
        }
      }),
      {numRuns: 300},
    )
  })

  it('apply to capacity and refill, but never divide write pressure', () => {
    const rate: Rate = {capacityMilli: 1001n, refillAmountMilli: 7n, refillPeriodMs: 1000}
    expect(shareOfRate('tpm', rate, 0, 2)).toEqual({capacityMilli: 500n, refillAmountMilli: 3n, refillPeriodMs: 1000})
    expect(shareOfRate('tpm', rate, 1, 2)).toEqual({capacityMilli: 501n, refillAmountMilli: 4n, refillPeriodMs: 1000})
    expect(shareOfRate('wcu', rate, 1, 2)).toEqual(rate)
    expect(shareOfRate('tpm', rate, 0, 1)).toEqual(rate)
  })

  it('S8 D-9 refill together exactly as fast as the undivided bucket', () => {
    fc.assert(
      fc.property(
        anyRate,
        fc.constantFrom(2, 3, 4, 8, 32),
        fc.integer({min: 1, max: 10 ** 9}),
        (rate, count, elapsedMs) => {
          const debt = -(10n ** 30n)
          const level = (state: BucketState) => {
            const limit = state.limits.get('x') as BucketLimit
            return limit.tokensMilli * BigInt(limit.refillPeriodMs) + limit.remainder
          }
          const gained = (state: BucketState) => level(refillBucket(state, elapsedMs)) - level(state)
          const shards = Array.from({length: count}, (_, shard) =>
            shareOfBucket(bucket({x: {...rate, tokensMilli: debt}}), shard, count),
          )
          expect(sum(shards.map(gained))).toBe(gained(bucket({x: {...rate, tokensMilli: debt}})))
        },
      ),
    )
  })
})

describe('split', () => {
  const anyBalance = fc.bigInt({min: -(10n ** 12n), max: 10n ** 13n})

  it('S2 S8 D-9 conserves tokens, debts too, through repeated doublings', () => {
    fc.assert(
      fc.property(anyRate, anyRate, anyBalance, anyBalance, (tpm, rpm, tpmTokens, rpmTokens) => {
        let shards = [bucket({tpm: {...tpm, tokensMilli: tpmTokens}, rpm: {...rpm, tokensMilli: rpmTokens}})]
        for (let doubling = 0; doubling < 4; doubling++) {
          shards = applySplit(shards)
          expect(sum(shards.map(shard => tokens(shard, 'tpm')))).toBe(tpmTokens)
          expect(sum(shards.map(shard => tokens(shard, 'rpm')))).toBe(rpmTokens)
        }
      }),
    )
  })

  it('S8 splits a full bucket into full shards: no share overflows and nothing is lost', () => {
    fc.assert(
      fc.property(anyRate, rate => {
        let shards = [bucket({x: {...rate, tokensMilli: rate.capacityMilli}})]
        for (let doubling = 0; doubling < 5; doubling++) {
          shards = applySplit(shards)
          const held = shards.map(shard => tokens(shard, 'x'))
          expect(held).toEqual(shards.map((_, index) => shareOf(rate.capacityMilli, index, shards.length)))
        }
      }),
    )
  })

  it('pairs shard i with new shard n+i and keeps write pressure', () => {
    const rate: Rate = {capacityMilli: 8000n, refillAmountMilli: 8000n, refillPeriodMs: 1000}
    const one = bucket({x: {...rate, tokensMilli: 3000n}, wcu: {...rate, tokensMilli: 500n}})
    expect(planSplit([one, one], 0).map(({from, to, movedMilli}) => [from, to, [...movedMilli]])).toEqual([
      [0, 2, [['x', 1500n]]],
      [1, 3, [['x', 1500n]]],
    ])
  })
})

function applySplit(shards: BucketState[]): BucketState[] {
  const next = [...shards, ...shards]
  for (const {from, to, movedMilli} of planSplit(shards, 0)) {
    const donor = shards[from] as BucketState
    const withTokens = (of: (name: string, old: bigint) => bigint): BucketState => ({
      ...donor,
      limits: new Map(
        [...donor.limits].map(([name, limit]) => [name, {...limit, tokensMilli: of(name, limit.tokensMilli)}]),
      ),
    })
    next[from] = withTokens((name, old) => old - (movedMilli.get(name) ?? 0n))
    next[to] = withTokens(name => movedMilli.get(name) ?? 0n)
  }
  return next
}

describe('gather', () => {
  const rate: Rate = {capacityMilli: 10n ** 9n, refillAmountMilli: 1n, refillPeriodMs: 1000}
  const anyShards = fc.array(
    fc.record({tpm: fc.bigInt({min: -5000n, max: 50_000n}), rpm: fc.bigInt({min: -5n, max: 50n})}),
    {minLength: 1, maxLength: 16},
  )

  it('S2 S8 takes exactly the request, never more than a shard holds, if all together hold enough', () => {
    fc.assert(
      fc.property(anyShards, fc.bigInt({min: 0n, max: 200_000n}), fc.bigInt({min: 0n, max: 200n}), (held, tpm, rpm) => {
        const shards = new Map(
          held.map((each, index) => [
            index,
            bucket({tpm: {...rate, tokensMilli: each.tpm}, rpm: {...rate, tokensMilli: each.rpm}}),
          ]),
        )
        const plan = planGather(
          shards,
          new Map([
            ['tpm', tpm],
            ['rpm', rpm],
          ]),
        )
        const total = (name: 'tpm' | 'rpm') => sum(held.map(each => (each[name] > 0n ? each[name] : 0n)))
        expect(plan !== undefined).toBe(total('tpm') >= tpm && total('rpm') >= rpm)
        if (!plan) return
        for (const [name, amount] of [
          ['tpm', tpm],
          ['rpm', rpm],
        ] as const) {
          expect(sum([...plan.values()].map(parts => parts.get(name) ?? 0n))).toBe(amount)
          for (const [shard, parts] of plan)
            expect((parts.get(name) ?? 0n) <= tokens(shards.get(shard) as BucketState, name) || !parts.has(name)).toBe(
              true,
            )
        }
      }),
    )
  })

  it('D-10 admits a request up to the full capacity however many shards there are', () => {
    const whole: Rate = {capacityMilli: 1_000_003n, refillAmountMilli: 1000n, refillPeriodMs: 1000}
    for (const count of [1, 2, 8, 32, 64]) {
      const shards = new Map(
        Array.from({length: count}, (_, shard) => [
          shard,
          bucket({x: {...whole, tokensMilli: shareOf(whole.capacityMilli, shard, count)}}),
        ]),
      )
      const plan = planGather(shards, new Map([['x', whole.capacityMilli]]))
      expect(plan && sum([...plan.values()].map(parts => parts.get('x') ?? 0n))).toBe(whole.capacityMilli)
    }
  })

  it('touches few shards', () => {
    const shards = new Map(
      [10n, 900n, 20n, 300n].map((held, index) => [index, bucket({x: {...rate, tokensMilli: held}})]),
    )
    expect([...(planGather(shards, new Map([['x', 1000n]])) ?? [])]).toEqual([
      [1, new Map([['x', 900n]])],
      [3, new Map([['x', 100n]])],
    ])
  })
})

describe('several shards together', () => {
  const rate: Rate = {capacityMilli: 50_000n, refillAmountMilli: 1000n, refillPeriodMs: 1000}
  const shards = (...held: bigint[]) => held.map(tokensMilli => bucket({x: {...rate, tokensMilli}}))
  const of = (milli: bigint) => new Map([['x', milli]])

  it('D-46 hold the sum of those without debt, and are in debt only if all are', () => {
    expect(availableTogether(shards(3000n, 4000n), 'x')).toBe(7000n)
    expect(availableTogether(shards(3000n, -9000n), 'x')).toBe(3000n)
    expect(availableTogether(shards(-1000n, -9000n), 'x')).toBe(-10_000n)
    expect(availableTogether(shards(3000n), 'missing')).toBe(0n)
  })

  it('L2 hold enough after the wait, and not two milliseconds earlier', () => {
    fc.assert(
      fc.property(
        fc.array(fc.bigInt({min: -20_000n, max: 50_000n}), {minLength: 1, maxLength: 4}),
        fc.bigInt({min: 1n, max: 50_000n}),
        (held, milli) => {
          const states = shards(...held)
          const waitMs = timeUntilTogether(states, of(milli), 0)
          const heldAfter = (ms: number) => {
            const positive = states.map(state => tokens(refillBucket(state, ms), 'x')).filter(each => each > 0n)
            return sum(positive) >= milli
          }
          expect(heldAfter(waitMs)).toBe(true)
          if (waitMs > 2) expect(heldAfter(waitMs - 2)).toBe(false)
        },
      ),
    )
  })

  it('L2 wait as long as a single one if there is one', () => {
    const [one] = shards(-3000n) as [BucketState]
    expect(timeUntilTogether([one], of(5000n), 0)).toBe(tryConsumeBucket(one, of(5000n), 0).retryAfterMs)
  })

  it('L2 do not wait less for a balance above the capacity: the next write cuts it', () => {
    const waitMs = timeUntilTogether(shards(50_000n, 15_000n), of(90_000n), 0)
    expect(timeUntilTogether(shards(80_000n, 15_000n), of(90_000n), 0)).toBe(waitMs)
    expect(timeUntilTogether(shards(80_000n), of(50_000n), 0)).toBe(0)
  })

  it('L3 never hold more than their capacities, nor a limit that none of them has', () => {
    expect(timeUntilTogether(shards(0n, 0n), of(100_001n), 0)).toBe(Number.POSITIVE_INFINITY)
    expect(timeUntilTogether(shards(0n), new Map([['missing', 1n]]), 0)).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('growth', () => {
  const plenty = new Map<string, Rate>([
    ['tpm', {capacityMilli: 10n ** 8n, refillAmountMilli: 10n ** 8n, refillPeriodMs: 60_000}],
    ['wcu', {capacityMilli: 10n, refillAmountMilli: 10n, refillPeriodMs: 1000}],
  ])

  it('D-1 follows the measured rate, not the age of a bucket', () => {
    const old = {atMs: 0, countMilli: 5_000_000_000n}
    expect(writesPerSecond(old, {atMs: 10_000, countMilli: 5_001_000_000n})).toBe(100)
    expect(shouldGrow({unitsPerSecond: 100, shardCount: 1, limits: plenty})).toEqual({grow: false, because: 'calm'})
    expect(shouldGrow({unitsPerSecond: 900, shardCount: 1, limits: plenty})).toEqual({grow: true, shardCount: 2})
  })

  it('is not measured by readings too close together, out of order, or across a re-created bucket', () => {
    const first = {atMs: 5000, countMilli: 1000n}
    expect(writesPerSecond(first, {atMs: 5900, countMilli: 900_000n})).toBeUndefined()
    expect(writesPerSecond(first, {atMs: 4000, countMilli: 900_000n})).toBeUndefined()
    expect(writesPerSecond(first, {atMs: 9000, countMilli: 0n})).toBeUndefined()
  })

  it('D-1 stops at 32 shards, or at the given maximum', () => {
    const busy = {unitsPerSecond: 5000, limits: plenty}
    expect(shouldGrow({...busy, shardCount: 16})).toEqual({grow: true, shardCount: 32})
    expect(shouldGrow({...busy, shardCount: 32})).toEqual({grow: false, because: 'at-maximum'})
    expect(shouldGrow({...busy, shardCount: 4, maxShards: 4})).toEqual({grow: false, because: 'at-maximum'})
  })

  it('D-10 never splits below one token or below the requests it sees', () => {
    const small = new Map([['rpm', {capacityMilli: 4000n, refillAmountMilli: 4000n, refillPeriodMs: 1000}]])
    const busy = {unitsPerSecond: 5000, limits: small}
    expect(shouldGrow({...busy, shardCount: 2})).toEqual({grow: true, shardCount: 4})
    expect(shouldGrow({...busy, shardCount: 4})).toEqual({grow: false, because: 'share-too-small'})
    const asked = {...busy, largestRequestMilli: new Map([['rpm', 2000n]])}
    expect(shouldGrow({...asked, shardCount: 1})).toEqual({grow: true, shardCount: 2})
    expect(shouldGrow({...asked, shardCount: 2})).toEqual({grow: false, because: 'share-too-small'})
  })
})
