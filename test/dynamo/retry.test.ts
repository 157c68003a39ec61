import fc from 'fast-check'
import {describe, expect, test} from 'vitest'
import {
  Aborted,
  isRetryableWhenIdempotent,
  Throttled,
  TransactionConflict,
  Unavailable,
} from '../../src/lib/dynamo/errors.js'
import {retrying, sleepMs} from '../../src/lib/dynamo/retry.js'

/** A backoff that only records the requested waits. */
function recorded(random: () => number = () => 1) {
  const waits: number[] = []
  const sleep = async (ms: number) => void waits.push(ms)
  return {waits, random, sleep}
}

/** Fails with the given errors, in order, then succeeds. */
function failing(...errors: unknown[]) {
  const calls = {count: 0}
  const fn = async () => {
    calls.count++
    if (errors.length > 0) throw errors.shift()
    return 'done'
  }
  return {calls, fn}
}

describe('a retry', () => {
  test('happens after throttling, a conflict and an outage that applied nothing (D-42)', async () => {
    const {calls, fn} = failing(new Throttled('x'), new TransactionConflict('x'), new Unavailable('x', false))
    expect(await retrying(fn, recorded())).toBe('done')
    expect(calls.count).toBe(4)
  })

  test('D-28 does not happen after an outage that may have applied the write, unless the caller allows it', async () => {
    const lost = new Unavailable('x', true)
    const once = failing(lost)
    await expect(retrying(once.fn, recorded())).rejects.toBe(lost)
    expect(once.calls.count).toBe(1)
    const twice = failing(lost)
    expect(await retrying(twice.fn, {...recorded(), retryable: isRetryableWhenIdempotent})).toBe('done')
  })

  test('does not happen after a bug', async () => {
    const {calls, fn} = failing(new TypeError('bug'))
    await expect(retrying(fn, recorded())).rejects.toThrow('bug')
    expect(calls.count).toBe(1)
  })

  test('stops after the configured number of attempts and throws the last error without another wait', async () => {
    const last = new Throttled('third')
    const {calls, fn} = failing(new Throttled('first'), new Throttled('second'), last, new Throttled('fourth'))
    const backoff = recorded()
    await expect(retrying(fn, {...backoff, attempts: 3})).rejects.toBe(last)
    expect(calls.count).toBe(3)
    expect(backoff.waits).toHaveLength(2)
  })
})

describe('waiting', () => {
  test('doubles its bound up to the maximum', async () => {
    const {fn} = failing(...Array.from({length: 5}, () => new Throttled('x')))
    const backoff = recorded()
    await retrying(fn, {...backoff, attempts: 6, baseMs: 10, maxMs: 60})
    expect(backoff.waits).toEqual([10, 20, 40, 60, 60])
  })

  test('is spread over the whole range, in whole milliseconds', () => {
    return fc.assert(
      fc.asyncProperty(fc.double({min: 0, max: 1, maxExcluded: true, noNaN: true}), async random => {
        const {fn} = failing(new Throttled('x'), new Throttled('x'))
        const backoff = recorded(() => random)
        await retrying(fn, {...backoff, baseMs: 100, maxMs: 1_000})
        expect(backoff.waits).toEqual([Math.floor(random * 100), Math.floor(random * 200)])
      }),
    )
  })

  test('ends when the signal fires', async () => {
    const stop = new AbortController()
    const {calls, fn} = failing(new Throttled('x'))
    const sleep = async () => stop.abort()
    const trying = retrying(fn, {random: () => 1, sleep, signal: stop.signal})
    await expect(trying).rejects.toBeInstanceOf(Aborted)
    expect(calls.count).toBe(1)
  })

  test('wakes the real sleep when the signal fires', async () => {
    const stop = new AbortController()
    const sleeping = sleepMs(3_600_000, stop.signal)
    stop.abort()
    await sleeping
    await sleepMs(1)
  })
})
