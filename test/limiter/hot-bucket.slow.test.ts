import {expect, it} from 'vitest'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {HotBucket, type HotBucketOptions} from './fixtures/hot-bucket.js'
import {consumedMilli, expectConserved} from './fixtures/ledger.js'

const ROUND_TRIP_MS = 4

/** The goals for one bucket under pressure, counted in virtual time on a real engine. */
describeOnBoth('a hot bucket, 4 ms away', {timeout: 300_000}, (table, extent) => {
  const seconds = (all: number) => (extent === 'all' ? all : all / 2)

  type Load = Omit<HotBucketOptions, 'table' | 'namespace'>

  function hotBucket(options: Load): [HotBucket, Scene] {
    const scene = new Scene(table)
    return [new HotBucket({table, namespace: scene.namespace, roundTripMs: ROUND_TRIP_MS, ...options}), scene]
  }

  /** Offers more than an empty bucket can give; resolves to the used share of its refill. */
  async function overload(options: Load, perSecond: number, seconds: number): Promise<[HotBucket, number]> {
    const [bucket, scene] = hotBucket(options)
    await bucket.warmUp(true)
    const read = async () => (await scene.shards('hot', 'gpt-4'))[0] as BucketRecord
    const before = await read()
    await bucket.offer(perSecond, seconds)
    const after = await read()

    expect(consumedMilli([after], 'tpm') - consumedMilli([before], 'tpm')).toBe(BigInt(bucket.granted) * 1000n)
    expectConserved(before, after, 'tpm')
    expect(bucket.largestExcess).toBeLessThanOrEqual(0)
    const {refillAmount, refillPeriodSeconds} = bucket.limit
    const elapsedMs = bucket.time.nowMs - before.state.refilledAtMs
    const stored = Number(before.state.limits.get('tpm')?.tokensMilli) / 1000
    return [bucket, bucket.granted / (stored + (refillAmount * elapsedMs) / (refillPeriodSeconds * 1000))]
  }

  it.each(extent === 'all' ? [100, 1000] : [100])(
    'admits all waiting requests with one call if there is plenty for %i callers',
    async callers => {
      const [bucket] = hotBucket({limit: 'tpm=1M/sec'})
      await bucket.warmUp()
      await bucket.crowd(callers, 20)
      expect(bucket.granted).toBe(callers * 20)
      expect(bucket.callsPerDecision).toBeLessThanOrEqual(2 / callers)
      expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(2 * ROUND_TRIP_MS)
    },
  )

  it('S1 S2 S3 uses the whole supply and no more at twice the demand', async () => {
    const [bucket, used] = await overload({limit: 'tpm=1000/sec:100'}, 2000, seconds(2))
    expect(used).toBeGreaterThanOrEqual(0.99)
    expect(bucket.callsPerDecision).toBeLessThanOrEqual(0.15)
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(6 * ROUND_TRIP_MS)
  })

  it('S1 S2 S3 makes hardly any call per refusal at 16 times the demand', async () => {
    const [bucket, used] = await overload({limit: 'tpm=1000/sec:100'}, 16_000, seconds(1))
    expect(used).toBeGreaterThanOrEqual(0.99)
    expect(bucket.callsPerDecision).toBeLessThanOrEqual(0.03)
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(6 * ROUND_TRIP_MS)
  })

  it('makes one call per second for all refusals of a long-empty bucket', async () => {
    const [bucket] = hotBucket({limit: 'tpm=1/hour:1'})
    await bucket.warmUp()
    await bucket.offer(1000, seconds(4))
    expect(bucket.granted).toBe(0)
    expect(bucket.calls).toBeLessThanOrEqual(6)
    expect(bucket.percentileMs(0.99)).toBe(0)
  })

  it.each([
    [3, 'tpm=1000/sec', 10],
    [3, 'tpm=1000/sec:100', 15],
    [8, 'tpm=1000/sec:100', 15],
  ])('L6 refuses no request with %i limiters, %s, at half the demand', async (limiters, limit, trips) => {
    const [bucket] = hotBucket({limit, limiters, jitter: 0.25})
    await bucket.warmUp()
    await bucket.offer(500, seconds(2))
    expect(bucket.granted).toBe(bucket.decisions)
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(trips * ROUND_TRIP_MS)
    expect(bucket.largestExcess).toBeLessThanOrEqual(0)
  })

  it('S1 S2 S3 grants no token twice and leaves hardly any with three limiters at twice the demand', async () => {
    // Long enough that the few tokens left at its end do not count.
    const [bucket, used] = await overload({limit: 'tpm=1000/sec:100', limiters: 3, jitter: 0.25}, 2000, 4)
    expect(used).toBeGreaterThanOrEqual(0.99)
    expect(bucket.callsPerDecision).toBeLessThanOrEqual(0.25)
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(15 * ROUND_TRIP_MS)
  })

  it('L5 does not queue requests that two shards refuse, with three limiters at twice the demand', async () => {
    const [bucket, scene] = hotBucket({limit: 'tpm=1000/sec:100', limiters: 3, maxShards: 2, jitter: 0.25})
    await bucket.warmUp(true)
    scene.nowMs = bucket.time.nowMs
    await splitBucket(scene.tenant, 'hot', 'gpt-4', 1)
    await bucket.offer(2000, seconds(4))
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(100 * ROUND_TRIP_MS)
    expect(bucket.granted).toBeGreaterThanOrEqual(0.9 * 1000 * seconds(4))
  })
})
