import fc from 'fast-check'
import {describe, expect, test} from 'vitest'
import {ServerClock} from '../../src/lib/dynamo/server-clock.js'
import type {ResponseInfo} from '../../src/lib/dynamo/transport.js'

const NOON = Date.UTC(2026, 5, 1, 12)

/** A response dated by a server whose clock is `offsetMs` ahead, sampled midway. */
function response(sentAtMs: number, offsetMs: number, thereMs = 0, backMs = 0): ResponseInfo {
  const serverMs = sentAtMs + thereMs + offsetMs
  return {
    operation: 'GetItem',
    sentAtMs,
    receivedAtMs: sentAtMs + thereMs + backMs,
    serverDateMs: Math.floor(serverMs / 1000) * 1000,
    capacity: [],
  }
}

const dated = (serverDateMs: number | undefined, sentAtMs: number, receivedAtMs = sentAtMs): ResponseInfo => ({
  ...response(sentAtMs, 0),
  receivedAtMs,
  serverDateMs,
})

describe('server time', () => {
  test('is local time before the first sample', () => {
    const clock = new ServerClock(() => NOON)
    expect(clock.now()).toBe(NOON)
    expect(clock.intervalMs).toEqual({lowMs: -Infinity, highMs: Infinity})
  })

  test('is local time while that fits, down to the last millisecond', () => {
    const clock = new ServerClock(() => NOON)
    clock.observe(dated(NOON, NOON + 999, NOON + 1_030))
    expect(clock.offsetMs).toBe(0)
  })

  test('moves forward by the minimum: to the start of the second', () => {
    const clock = new ServerClock(() => NOON)
    clock.observe(dated(NOON + 60_000, NOON, NOON + 40))
    expect(clock.intervalMs).toEqual({lowMs: 59_960, highMs: 61_000})
    expect(clock.now()).toBe(NOON + 59_960)
  })

  test('moves back by the minimum: to the end of the second', () => {
    const clock = new ServerClock(() => NOON)
    clock.observe(dated(NOON - 60_000, NOON, NOON + 40))
    expect(clock.now()).toBe(NOON - 59_000)
  })

  test('keeps the true offset within the interval, and never overshoots it', () => {
    const journey = fc.record({
      waitMs: fc.integer({min: 0, max: 5_000}),
      thereMs: fc.integer({min: 0, max: 3_000}),
      backMs: fc.integer({min: 0, max: 3_000}),
    })
    fc.assert(
      fc.property(
        fc.integer({min: -10_000_000, max: 10_000_000}),
        fc.array(journey, {minLength: 1, maxLength: 200}),
        (offsetMs, journeys) => {
          let nowMs = NOON
          const clock = new ServerClock(() => nowMs)
          for (const {waitMs, thereMs, backMs} of journeys) {
            nowMs += waitMs
            const info = response(nowMs, offsetMs, thereMs, backMs)
            // AWS rejects requests from a clock that is too far off.
            clock.observe({...info, isTimeRefused: Math.abs(offsetMs - clock.offsetMs) > 300_000})
            nowMs += thereMs + backMs
            const {lowMs, highMs} = clock.intervalMs
            expect(offsetMs).toBeGreaterThanOrEqual(lowMs)
            expect(offsetMs).toBeLessThanOrEqual(highMs)
            expect(Math.abs(clock.offsetMs)).toBeLessThanOrEqual(Math.abs(offsetMs))
            expect(clock.offsetMs * offsetMs).toBeGreaterThanOrEqual(0)
            expect(clock.now()).toBe(nowMs + clock.offsetMs)
          }
        },
      ),
    )
  })

  test('narrows the interval with many samples', () => {
    const clock = new ServerClock(() => NOON)
    for (let i = 0; i < 200; i++) clock.observe(response(NOON + i * 1_037, 5_432, 3, 4))
    const {lowMs, highMs} = clock.intervalMs
    expect(highMs - lowMs).toBeLessThan(50)
  })
})

describe('outdated evidence', () => {
  test('is dropped after a jump of either clock, once two responses agree on it', () => {
    const clock = new ServerClock(() => NOON)
    clock.observe(response(NOON, 0, 5, 5))
    clock.observe(response(NOON + 100, 120_000, 5, 5))
    expect(clock.offsetMs).toBe(0)
    clock.observe(response(NOON + 200, 0, 5, 5))
    clock.observe(response(NOON + 300, 120_000, 5, 5))
    expect(clock.offsetMs).toBe(0)
    clock.observe(response(NOON + 400, 120_000, 5, 5))
    expect(clock.offsetMs).toBeGreaterThan(118_000)
    // The local clock is set forward by two minutes, so both agree again.
    clock.observe(response(NOON + 120_500, 0, 5, 5))
    clock.observe(response(NOON + 120_600, 0, 5, 5))
    expect(clock.offsetMs).toBe(0)
  })

  test('is dropped after a jump by hours, when the service rejects a request for its time', () => {
    const clock = new ServerClock(() => NOON)
    clock.observe(response(NOON, 0, 5, 5))
    clock.observe({...response(NOON + 100, 7_200_000, 5, 5), isTimeRefused: true})
    expect(clock.offsetMs).toBeGreaterThan(7_198_000)
  })

  test('is dropped during a slow drift, although no two successive samples contradict each other', () => {
    const clock = new ServerClock(() => NOON)
    // 5 s per hour, three responses per minute.
    for (let i = 0; i <= 180; i++) clock.observe(response(NOON + i * 20_011, (i * 5_000) / 180, 5, 5))
    expect(clock.offsetMs).toBeGreaterThan(3_800)
    expect(clock.offsetMs).toBeLessThanOrEqual(5_000)
  })

  test('is dropped after two generations', () => {
    const clock = new ServerClock(() => NOON)
    clock.observe(dated(NOON, NOON, NOON))
    expect(clock.intervalMs).toEqual({lowMs: 0, highMs: 1_000})
    const later = (minutes: number) => NOON + minutes * 60_000
    clock.observe(dated(later(6), later(6), later(6) + 500))
    expect(clock.intervalMs).toEqual({lowMs: 0, highMs: 1_000})
    clock.observe(dated(later(12), later(12), later(12) + 500))
    expect(clock.intervalMs).toEqual({lowMs: -500, highMs: 1_000})
  })
})

describe('useless evidence is ignored', () => {
  test.each([
    ['no date', dated(undefined, NOON)],
    ['not a number', dated(Number.NaN, NOON)],
    ['a date before the project', dated(0, NOON)],
    ['a date in another century', dated(Date.UTC(2150, 0), NOON)],
    [
      'a date of a proxy an hour ahead, in an answer to a request whose time AWS has accepted',
      dated(NOON + 3_600_000, NOON),
    ],
    ['a date of a proxy an hour behind', dated(NOON - 3_600_000, NOON)],
    ['received before it was sent', dated(NOON + 60_000, NOON, NOON - 1)],
  ])('%s', (_, info) => {
    const clock = new ServerClock(() => NOON)
    clock.observe(info)
    expect(clock.intervalMs).toEqual({lowMs: -Infinity, highMs: Infinity})
  })
})
