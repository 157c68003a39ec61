import {afterEach, beforeEach, expect, it} from 'vitest'
import {refillBucket} from '../../src/lib/core/bucket.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {request} from '../limiter/visit.js'
import {usageIn} from './fixtures/history.js'
import {usageItems} from './fixtures/stored-usage.js'
import {loggingAggregator, tableOver} from './fixtures/stream.js'
import {StreamTap, tappedPeer} from './fixtures/stream-tap.js'

const BATCH_MS = 5000
const REQUEST_MS = 2500
const FIRST = {tpm: 120_000, rpd: 900}
// 99 % and 96 % of what the limits allow, so that neither is ever full nor empty within the hour.
const CONSUME = {tpm: 2475, rpd: 2}
const LIMITS = ['tpm=60000/min:180000', 'rpd=72000/day:1000']

interface Outcome {
  readonly requests: number
  /** Requests that needed more than one call to the bucket. */
  readonly slow: number
  readonly refills: number
}

interface Course {
  readonly minutes: number
  /** Clients that take turns: each knows little of what the others have left in the bucket. */
  readonly clients: readonly ((consume: typeof CONSUME) => Promise<unknown>)[]
  readonly isFollowed: boolean
}

describeOnEngine('a bucket driven at a steady rate below its limit', () => {
  const table = useTable()
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

  /** Clients of the library, each as in a process of its own. */
  function processes(count: number): Course['clients'] {
    limiters = Array.from({length: count}, () => scene.limiter())
    return limiters.map(limiter => consume => limiter.acquire(request(consume)))
  }

  /** One request in 2.5 s; every five seconds the stream is followed, unless nobody does. */
  async function drive({minutes, clients, isFollowed}: Course): Promise<Outcome> {
    const {handle} = loggingAggregator({table: tableOver(tap, table.name, () => scene.nowMs)})
    const oracle = new Oracle(scene.nowMs)
    await scene.limiter().acquire(request(FIRST))
    oracle.take(FIRST, scene.nowMs)
    let [requests, slow, refills] = [0, 0, 0]
    for (let elapsed = REQUEST_MS; elapsed <= minutes * 60_000; elapsed += REQUEST_MS) {
      scene.nowMs += REQUEST_MS
      calls = 0
      await clients[requests++ % clients.length]?.(CONSUME)
      oracle.take(CONSUME, scene.nowMs)
      if (calls > 1) slow++
      if (elapsed % BATCH_MS !== 0 || !isFollowed) continue
      const result = await handle({Records: tap.take()})
      expect(result.failures).toEqual([])
      refills += result.counts.refills
      const [shard] = (await scene.shards('user-1', 'gpt-4')) as [BucketRecord]
      const {limits} = refillBucket(shard.state, scene.nowMs)
      for (const [limit, most] of oracle.balances) expect(limits.get(limit)?.tokensMilli).toBeLessThanOrEqual(most)
    }
    return {requests, slow, refills}
  }

  function report(who: string, {requests, slow, refills}: Outcome): void {
    console.log(`steady rate, ${who}: ${slow} of ${requests} requests took a second call; ${refills} refills`)
  }

  it('stays on the one-call path for an hour, and never holds more than it is entitled to', async () => {
    const outcome = await drive({minutes: 60, clients: processes(1), isFollowed: true})
    report('one process', outcome)
    expect(outcome.slow).toBe(0)
    const usage = [...usageIn(await usageItems(table, scene.namespace))]
    for (const window of ['hourly', 'daily', 'monthly']) {
      const counted = usage.filter(([key]) => key.includes(window)).reduce((sum, [, {tpm}]) => sum + tpm, 0n)
      expect(counted).toBe(BigInt(FIRST.tpm + outcome.requests * CONSUME.tpm) * 1000n)
    }
  }, 600_000)

  it.each([true, false])(
    'is shared by ten processes, followed: %s',
    async isFollowed => {
      const outcome = await drive({minutes: 20, clients: processes(10), isFollowed})
      report(`ten processes, ${isFollowed ? 'followed' : 'not followed'}`, outcome)
      if (isFollowed) expect(outcome.slow).toBe(0)
      else expect(outcome.slow).toBeGreaterThan(0)
    },
    600_000,
  )

  it('never keeps clients waiting that ask without looking and cannot refill', async () => {
    const peer = tappedPeer(scene, tap)
    const blind = async (consume: typeof CONSUME) => expect(await peer.speculative(consume)).toBe(true)
    const outcome = await drive({minutes: 20, clients: [blind], isFollowed: true})
    report('clients that cannot refill', outcome)
    expect(outcome.refills).toBeGreaterThan(0)
  }, 600_000)
})

/** What the limits entitle to, exactly: in units of a millitoken over a day, so that nothing is rounded. */
class Oracle {
  static readonly #UNIT = 86_400_000n
  readonly #balances = {tpm: 180_000_000n * Oracle.#UNIT, rpd: 1_000_000n * Oracle.#UNIT}
  #atMs: number

  constructor(atMs: number) {
    this.#atMs = atMs
  }

  take(consume: typeof CONSUME, nowMs: number): void {
    const elapsed = BigInt(nowMs - this.#atMs)
    this.#atMs = nowMs
    const take = (limit: 'tpm' | 'rpd', perDayMilli: bigint, capacityMilli: bigint) => {
      const grown = this.#balances[limit] + elapsed * perDayMilli
      const full = capacityMilli * Oracle.#UNIT
      this.#balances[limit] = (grown < full ? grown : full) - BigInt(consume[limit]) * 1000n * Oracle.#UNIT
    }
    take('tpm', 60_000_000n * 1440n, 180_000_000n)
    take('rpd', 72_000_000n, 1_000_000n)
  }

  /** Millitokens, rounded down. */
  get balances(): [string, bigint][] {
    return Object.entries(this.#balances).map(([limit, units]) => [limit, units / Oracle.#UNIT])
  }
}
