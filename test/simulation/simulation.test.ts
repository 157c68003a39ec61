import {getEventListeners} from 'node:events'
import {describe, expect, it} from 'vitest'
import {explore, SITUATIONS} from './explore.js'
import {scenarioOf} from './profiles.js'
import {run} from './run.js'
import {PROFILES} from './scenario.js'
import {VirtualTime} from './world/virtual-time.js'

describe('the simulator', () => {
  // The slow suites play more seeds.
  it.each(PROFILES)('finds no violation in a fixed seed: %s', async profile => {
    const {violations} = await run(scenarioOf(profile, 1))
    expect(violations, `npm run simulate -- --seed 1 --profile ${profile}`).toEqual([])
  })

  // `mixed` plays most of what the other profiles play.
  it('plays a seed the same way every time', async () => {
    const first = await run(scenarioOf('mixed', 7))
    const second = await run(scenarioOf('mixed', 7))
    expect(second.log).toEqual(first.log)
    expect(second.trace).toBe(first.trace)
    expect(first.counts.calls).toBeGreaterThan(0)
  })

  it('plays different seeds differently', async () => {
    const traces = await Promise.all([1, 2, 3].map(seed => scenarioOf('mixed', seed)).map(each => JSON.stringify(each)))
    expect(new Set(traces).size).toBe(3)
  })

  it('leaves no listener on a signal after many waits, and ends them when it aborts', async () => {
    const [time, source] = [new VirtualTime(), new AbortController()]
    for (let wait = 0; wait < 20; wait++) void time.sleep(10, source.signal)
    expect(getEventListeners(source.signal, 'abort')).toHaveLength(1)
    await time.runUntil(time.nowMs + 10)
    expect(getEventListeners(source.signal, 'abort')).toEqual([])
    const waiting = time.sleep(10, source.signal)
    source.abort()
    await waiting
    expect(time.elapsedMs).toBe(10)
  })

  it('restores timers and clocks', async () => {
    const before = [setTimeout, clearTimeout, Date.now, performance.now, AbortSignal.timeout]
    await run(scenarioOf('burst', 1))
    expect([setTimeout, clearTimeout, Date.now, performance.now, AbortSignal.timeout]).toEqual(before)
  })
})

// `npm run simulate -- --orders` plays all orders.
describe('small situations, every order of messages', () => {
  it.each(SITUATIONS)('finds no violation: $name', async situation => {
    const {orders, states, violations} = await explore(situation, 25)
    expect([...violations.keys()]).toEqual([])
    expect(orders).toBeGreaterThan(20)
    expect(states).toBeGreaterThan(2)
  })
})
