import fc from 'fast-check'
import {expect, it} from 'vitest'
import {RateLimitExceeded, RequestTooLarge} from '../../src/lib/limiter/refusal/errors.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {failure, isTemporary, request, splitInto} from './visit.js'

interface State {
  readonly capacity: number
  readonly rate: number
  readonly periodSeconds: number
  readonly shards: number
  /** Millitokens per shard, left by some history. */
  readonly balances: readonly number[]
  readonly remainderMs: number
  /** Lag of the refill instant behind the clock, in ms; negative: it is ahead. */
  readonly sinceRefillMs: number
  readonly parentBalance: number | undefined
  readonly asked: number
}

const TEN_YEARS_MS = 10 * 365 * 86_400_000
const states: fc.Arbitrary<State> = fc.record({
  capacity: fc.integer({min: 1, max: 5000}),
  rate: fc.integer({min: 1, max: 5000}),
  periodSeconds: fc.constantFrom(1, 7, 60, 3600, 86_400),
  shards: fc.constantFrom(1, 1, 2, 4),
  balances: fc.array(fc.integer({min: -20_000, max: 100_000}), {minLength: 4, maxLength: 4}),
  remainderMs: fc.nat(999),
  sinceRefillMs: fc.integer({min: -10_000, max: 100_000}),
  parentBalance: fc.option(fc.integer({min: -5000, max: 50_000}), {nil: undefined}),
  asked: fc.integer({min: 1, max: 5000}),
})

describeOnBoth('L2 retry-after', {timeout: 300_000}, (table, extent) => {
  async function stage({capacity, rate, periodSeconds, ...state}: State): Promise<Scene> {
    const scene = new Scene(table)
    const python = new PythonPeer(scene)
    const limit = `rpm=${rate}/${periodSeconds}sec:${capacity}`
    await scene.configure({level: 'resource', resource: 'gpt-4'}, limit)
    if (state.parentBalance !== undefined) await scene.entity('user-1', 'team-1')
    await scene.limiter().acquire(request({}))
    await splitInto(scene, state.shards)
    const rf = scene.nowMs - state.sinceRefillMs
    const rfr = {S: `${rf}|rpm:${state.remainderMs}/${periodSeconds * 1000}`}
    for (let shard = 0; shard < state.shards; shard++) {
      const tk = Math.min(state.balances[shard] as number, capacity * 1000)
      await python.set({b_rpm_tk: n(tk), rf: n(rf), rfr}, shard)
    }
    const {parentBalance} = state
    if (parentBalance !== undefined) {
      const tk = Math.min(parentBalance, capacity * 1000)
      await new PythonPeer(scene, 'team-1').set({b_rpm_tk: n(tk), rf: n(rf), rfr})
    }
    return scene
  }

  it('is finite, positive and exact: without contention, waiting that long admits', async () => {
    let refused = 0
    await fc.assert(
      fc.asyncProperty(states, async state => {
        const scene = await stage(state)
        const limiter = scene.limiter()
        const ask = () => limiter.acquire(request({rpm: state.asked}))
        const error = await ask().then(
          () => undefined,
          (caught: unknown) => caught,
        )
        await limiter.settled()
        if (error instanceof RequestTooLarge) {
          expect(state.asked).toBeGreaterThan(state.capacity)
          return
        }
        expect(state.asked).toBeLessThanOrEqual(state.capacity)
        if (error === undefined) return
        refused++
        if (!isTemporary(error)) throw error
        const {retryAfterMs} = error
        expect(retryAfterMs).toBeGreaterThan(0)
        expect(Number.isSafeInteger(retryAfterMs)).toBe(true)
        const check = await limiter.check(request({rpm: state.asked}))
        // A shard above its share admitted this request before the parent refused it; a check does not count on that.
        const isEven = state.balances.every(balance => balance * state.shards <= state.capacity * 1000)
        expect(check.admitted).toBe(false)
        expect(check.retryAfterMs).toBeGreaterThanOrEqual(retryAfterMs)
        // The wait of several shards is rounded up by one more.
        if (isEven) expect((check.retryAfterMs ?? 0) - retryAfterMs).toBeLessThanOrEqual(state.shards > 1 ? 1 : 0)
        // The next request does not count on it either: it may go to another shard.
        if (!isEven && state.parentBalance !== undefined) return
        scene.nowMs += retryAfterMs
        await ask()
      }),
      {numRuns: extent === 'all' ? 100 : 8},
    )
    // Their number depends on chance, but 200 runs always have some.
    if (extent === 'all') expect(refused).toBeGreaterThan(0)
  })

  it('is not much too long: 2 ms earlier, the request is refused again', async () => {
    await fc.assert(
      fc.asyncProperty(states, async generated => {
        // None above its share.
        const share = Math.floor((generated.capacity * 1000) / generated.shards)
        const balances = generated.balances.map(balance => Math.min(balance, share))
        const state = {...generated, balances, asked: Math.min(generated.asked, generated.capacity)}
        const scene = await stage(state)
        const limiter = scene.limiter({denyCacheMs: 0})
        const error = await failure(limiter.acquire(request({rpm: state.asked})))
        if (!isTemporary(error) || error.retryAfterMs <= 2) return
        // Waits over ten years are not computed exactly.
        if (error.retryAfterMs >= TEN_YEARS_MS) return
        await limiter.settled()
        scene.nowMs += error.retryAfterMs - 2
        // In a separate process: one that has seen a bucket ahead of its clock may admit earlier (decision 29).
        const again = scene.limiter({denyCacheMs: 0}).acquire(request({rpm: state.asked}))
        expect(await failure(again)).toBeInstanceOf(RateLimitExceeded)
      }),
      {numRuns: extent === 'all' ? 40 : 4},
    )
  })
})
