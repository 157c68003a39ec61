import {expect, it} from 'vitest'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {HotBucket, type HotBucketOptions} from './fixtures/hot-bucket.js'

describeOnEngine('a hot bucket, 4 ms away', () => {
  const table = useTable()

  async function hotBucket(options: Omit<HotBucketOptions, 'table' | 'namespace'>): Promise<[HotBucket, Scene]> {
    const scene = new Scene(table)
    const bucket = new HotBucket({table, namespace: scene.namespace, ...options})
    await bucket.warmUp()
    return [bucket, scene]
  }

  /** Tokens that the limit entitles to in some time that begins with `tokens` in the bucket. */
  const entitled = ({limit}: HotBucket, tokens: number, seconds: number) =>
    tokens + (limit.refillAmount / limit.refillPeriodSeconds) * seconds

  it.each([100, 1000])('plenty for %i callers at once: one call serves all who wait', async callers => {
    const [bucket] = await hotBucket({limit: 'tpm=1M/sec'})
    await bucket.crowd(callers, 20)
    expect(bucket.granted).toBe(callers * 20)
    expect(bucket.callsPerDecision).toBeLessThanOrEqual(2 / callers)
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(8)
  })

  it('S1 demand twice the supply: all that is entitled is used, nothing more', async () => {
    const [bucket, scene] = await hotBucket({limit: 'tpm=1000/sec:100'})
    const {tokens, consumed} = await scene.totals('hot', 'gpt-4', 'tpm')
    await bucket.offer(2000, 3)
    console.log(
      bucket.decisions,
      bucket.granted,
      bucket.calls,
      bucket.percentileMs(0.5),
      bucket.percentileMs(0.99),
      bucket.granted / entitled(bucket, tokens, 3),
      bucket.callsPerDecision,
      bucket.largestExcess,
    )
    expect(bucket.granted / entitled(bucket, tokens, 3)).toBeGreaterThanOrEqual(0.99)
    expect(bucket.callsPerDecision).toBeLessThanOrEqual(0.15)
    expect(bucket.percentileMs(0.99)).toBeLessThanOrEqual(6 * 4)
    expect(bucket.largestExcess).toBeLessThanOrEqual(0)
    expect((await scene.totals('hot', 'gpt-4', 'tpm')).consumed - consumed).toBe(bucket.granted)
  })

  it('S1 demand 16 times the supply: hardly a call for a refusal', async () => {
    const [bucket, scene] = await hotBucket({limit: 'tpm=1000/sec:100'})
    const {tokens, consumed} = await scene.totals('hot', 'gpt-4', 'tpm')
    await bucket.offer(16_000, 1)
    console.log(
      bucket.decisions,
      bucket.granted,
      bucket.calls,
      bucket.percentileMs(0.5),
      bucket.percentileMs(0.99),
      bucket.granted / entitled(bucket, tokens, 1),
      bucket.callsPerDecision,
      bucket.largestExcess,
    )
    expect(bucket.granted / entitled(bucket, tokens, 1)).toBeGreaterThanOrEqual(0.99)
    expect(bucket.callsPerDecision).toBeLessThanOrEqual(0.03)
    expect(bucket.largestExcess).toBeLessThanOrEqual(0)
    expect((await scene.totals('hot', 'gpt-4', 'tpm')).consumed - consumed).toBe(bucket.granted)
  })

  it('nothing left for long: one look a second is enough for all refusals', async () => {
    const [bucket] = await hotBucket({limit: 'tpm=1/hour:1'})
    await bucket.offer(1000, 5)
    expect(bucket.granted).toBe(0)
    expect(bucket.calls).toBeLessThanOrEqual(6)
    expect(bucket.percentileMs(0.99)).toBe(0)
  })

  it('S1 three limiters on one bucket, demand twice the supply: no token is granted twice, hardly one lost', async () => {
    const [bucket, scene] = await hotBucket({limit: 'tpm=1000/sec:100', limiters: 3, jitter: 0.25})
    const {tokens, consumed} = await scene.totals('hot', 'gpt-4', 'tpm')
    await bucket.offer(2000, 3)
    console.log(
      bucket.decisions,
      bucket.granted,
      bucket.calls,
      bucket.percentileMs(0.5),
      bucket.percentileMs(0.99),
      bucket.granted / entitled(bucket, tokens, 3),
      bucket.callsPerDecision,
      bucket.largestExcess,
    )
    expect(bucket.granted / entitled(bucket, tokens, 3)).toBeGreaterThanOrEqual(0.99)
    expect(bucket.callsPerDecision).toBeLessThanOrEqual(0.4)
    expect(bucket.largestExcess).toBeLessThanOrEqual(0)
    expect((await scene.totals('hot', 'gpt-4', 'tpm')).consumed - consumed).toBe(bucket.granted)
  })
})
