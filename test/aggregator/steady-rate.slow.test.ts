import {afterEach, beforeEach, expect, it} from 'vitest'
import {refillBucket} from '../../src/lib/core/buckets/bucket.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {request} from '../limiter/visit.js'
import {usageIn} from './fixtures/history.js'
import {usageItems} from './fixtures/stored-usage.js'
import {loggingAggregator, tableOver} from './fixtures/stream.js'
import {StreamTap, tappedPeer} from './fixtures/stream-tap.js'

const BATCH_MS = 5000
const REQUEST_MS = 2500
const FIRST = {tpm: 120_000, rpd: 900}
// 99 % and 96 % of the limits: neither becomes full or empty within the hour.
const CONSUME = {tpm: 2475, rpd: 2}
const LIMITS = ['tpm=60000/min:180000', 'rpd=72000/day:1000']

interface Outcome {
  readonly requests: number
  /** Requests that needed more than one call to the bucket. */
  readonly slow: number
  readonly refills: number
}

interface Simulation {
  readonly minutes: number
  /** Clients take turns: each knows little of the others' consumption. */
  readonly clients: readonly ((consume: typeof CONSUME) => Promise<unknown>)[]
  readonly hasAggregator: boolean
}

describeOnBoth('a bucket driven at a steady rate below its limit', {timeout: 300_000}, (table, extent) => {
  const minutes = (all: number) => (extent === 'all' ? all : all / 10)
  let scene: Scene
  let tap: StreamTap
  let calls: number
  let limiters: RateLimiter[]

  beforeEach(async () => {
    scene = new Scene(table)
    tap = new StreamTap(table.transport, () => scene.nowMs)
    scene.transport = {
      send: (operation, input, options) => {
        if (JSON.stringify(input).includes('/BUCKET#')) calls++
        return tap.send(operation, input, options)
      },
    }
    await scene.configure({level: 'resource', resource: 'gpt-4'}, ...LIMITS)
    limiters = []
  })
  afterEach(() => Promise.all(limiters.map(limiter => limiter.close())))

  /** Limiters of the library, as in separate processes. */
  function processes(count: number): Simulation['clients'] {
    limiters = Array.from({length: count}, () => scene.limiter())
    return limiters.map(limiter => consume => limiter.acquire(request(consume)))
  }

  /** One request every 2.5 s; the aggregator, if any, gets a batch every 5 s. */
  async function simulate({minutes, clients, hasAggregator}: Simulation): Promise<Outcome> {
    const {handle} = loggingAggregator({table: tableOver(tap, table.name, () => scene.nowMs)})
    const exact = new ExactBalances(scene.nowMs)
    await scene.limiter().acquire(request(FIRST))
    exact.take(FIRST, scene.nowMs)
    let [requests, slow, refills] = [0, 0, 0]
    for (let elapsed = REQUEST_MS; elapsed <= minutes * 60_000; elapsed += REQUEST_MS) {
      scene.nowMs += REQUEST_MS
      calls = 0
      await clients[requests++ % clients.length]?.(CONSUME)
      exact.take(CONSUME, scene.nowMs)
      if (calls > 1) slow++
      if (elapsed % BATCH_MS !== 0 || !hasAggregator) continue
      const result = await handle({Records: tap.take()})
      expect(result.failures).toEqual([])
      refills += result.counts.refills
      const [shard] = (await scene.shards('user-1', 'gpt-4')) as [BucketRecord]
      const {limits} = refillBucket(shard.state, scene.nowMs)
      for (const [limit, most] of exact.balances) expect(limits.get(limit)?.tokensMilli).toBeLessThanOrEqual(most)
    }
    return {requests, slow, refills}
  }

  function report(clients: string, {requests, slow, refills}: Outcome): void {
    console.log(`steady rate, ${clients}: ${slow} of ${requests} requests took a second call; ${refills} refills`)
  }

  it('needs one call per request for an hour, and never has more tokens than the limits allow', async () => {
    const outcome = await simulate({minutes: minutes(60), clients: processes(1), hasAggregator: true})
    report('one process', outcome)
    // Only the first decision of the process, with empty caches, must read first.
    expect(outcome.slow).toBeLessThanOrEqual(1)
    const usage = [...usageIn(await usageItems(table, scene.namespace))]
    for (const window of ['hourly', 'daily', 'monthly']) {
      const counted = usage.filter(([key]) => key.includes(window)).reduce((sum, [, {tpm}]) => sum + tpm, 0n)
      expect(counted).toBe(BigInt(FIRST.tpm + outcome.requests * CONSUME.tpm) * 1000n)
    }
  }, 600_000)

  it.each([true, false])(
    'is shared by ten processes, with aggregator: %s',
    async hasAggregator => {
      const outcome = await simulate({minutes: minutes(20), clients: processes(10), hasAggregator})
      report(`ten processes, ${hasAggregator ? 'with' : 'without'} aggregator`, outcome)
      if (hasAggregator) expect(outcome.slow).toBeLessThanOrEqual(10)
      else expect(outcome.slow).toBeGreaterThan(10)
    },
    600_000,
  )

  it('always serves clients that write blindly and cannot refill', async () => {
    const peer = tappedPeer(scene, tap)
    const blind = async (consume: typeof CONSUME) => expect(await peer.speculative(consume)).toBe(true)
    const outcome = await simulate({minutes: minutes(20), clients: [blind], hasAggregator: true})
    report('clients that cannot refill', outcome)
    expect(outcome.refills).toBeGreaterThan(0)
  }, 600_000)
})

/** The exact balances that the limits allow, in millitokens over a day, so that nothing is rounded. */
class ExactBalances {
  static readonly #UNIT = 86_400_000n
  readonly #balances = {tpm: 180_000_000n * ExactBalances.#UNIT, rpd: 1_000_000n * ExactBalances.#UNIT}
  #atMs: number

  constructor(atMs: number) {
    this.#atMs = atMs
  }

  take(consume: typeof CONSUME, nowMs: number): void {
    const elapsed = BigInt(nowMs - this.#atMs)
    this.#atMs = nowMs
    const take = (limit: 'tpm' | 'rpd', perDayMilli: bigint, capacityMilli: bigint) => {
      const grown = this.#balances[limit] + elapsed * perDayMilli
      const full = capacityMilli * ExactBalances.#UNIT
      this.#balances[limit] = (grown < full ? grown : full) - BigInt(consume[limit]) * 1000n * ExactBalances.#UNIT
    }
    take('tpm', 60_000_000n * 1440n, 180_000_000n)
    take('rpd', 72_000_000n, 1_000_000n)
  }

  /** Millitokens, rounded down. */
  get balances(): [string, bigint][] {
    return Object.entries(this.#balances).map(([limit, units]) => [limit, units / ExactBalances.#UNIT])
  }
}
