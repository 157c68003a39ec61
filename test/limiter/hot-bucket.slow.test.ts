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

  /** Offers more than an empty bucket can give; resolves to the share used of what it gained meanwhile. */
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
    'with plenty for %i callers at once, one call admits all that wait',
    async callers => {
      const [bucket] = hotBucket({limit: 'tpm=1M/sec'})
      await bucket.warmUp()
      await bucket.crowd(callers, 20)
      expect(bucket.granted).toBe(callers * 20)
      expect(bucket.callsPerDecision).toBeLessThanOrEqual(2 / callers)
      expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(2 * ROUND_TRIP_MS)
    },
  )

  it('S1 S2 S3 demand twice the supply: all that is entitled is used, nothing more', async () => {
    const [bucket, used] = await overload({limit: 'tpm=1000/sec:100'}, 2000, seconds(2))
    expect(used).toBeGreaterThanOrEqual(0.99)
    expect(bucket.callsPerDecision).toBeLessThanOrEqual(0.15)
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(6 * ROUND_TRIP_MS)
  })

  it('S1 S2 S3 demand 16 times the supply: hardly a call for a refusal', async () => {
    const [bucket, used] = await overload({limit: 'tpm=1000/sec:100'}, 16_000, seconds(1))
    expect(used).toBeGreaterThanOrEqual(0.99)
    expect(bucket.callsPerDecision).toBeLessThanOrEqual(0.03)
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(6 * ROUND_TRIP_MS)
  })

  it('nothing left for a long time: one call a second is enough for all refusals', async () => {
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
  ])(
    'L6 %i limiters, %s, demand half the supply: no request is refused while there is plenty',
    async (limiters, limit, trips) => {
      const [bucket] = hotBucket({limit, limiters, jitter: 0.25})
      await bucket.warmUp()
      await bucket.offer(500, seconds(2))
      expect(bucket.granted).toBe(bucket.decisions)
      expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(trips * ROUND_TRIP_MS)
      expect(bucket.largestExcess).toBeLessThanOrEqual(0)
    },
  )

  it('S1 S2 S3 three limiters, demand twice the supply: no token is granted twice, hardly one is left', async () => {
    // Long enough that the few tokens left at its end do not count.
    const [bucket, used] = await overload({limit: 'tpm=1000/sec:100', limiters: 3, jitter: 0.25}, 2000, 4)
    expect(used).toBeGreaterThanOrEqual(0.99)
    expect(bucket.callsPerDecision).toBeLessThanOrEqual(0.25)
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(15 * ROUND_TRIP_MS)
  })

  it('L5 three limiters, two shards, demand twice the supply: requests that both refuse do not wait in a line', async () => {
    const [bucket, scene] = hotBucket({limit: 'tpm=1000/sec:100', limiters: 3, maxShards: 2, jitter: 0.25})
    await bucket.warmUp(true)
    scene.nowMs = bucket.time.nowMs
    await splitBucket(scene.tenant, 'hot', 'gpt-4', 1)
    await bucket.offer(2000, seconds(4))
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(100 * ROUND_TRIP_MS)
    expect(bucket.granted).toBeGreaterThanOrEqual(0.9 * 1000 * seconds(4))
  })
})
