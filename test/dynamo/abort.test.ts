import {getEventListeners} from 'node:events'
import {expect, it, vi} from 'vitest'
import {onAbort, unlessStopped} from '../../src/lib/dynamo/abort.js'
import {sleepMs} from '../../src/lib/dynamo/retry.js'
import {SharedFlight} from '../../src/lib/dynamo/shared-flight.js'

it('adds one listener for a thousand waits on a signal, and none when they are over', async () => {
  const warn = vi.fn()
  process.on('warning', warn)
  const source = new AbortController()
  const waits = Array.from({length: 1000}, () => sleepMs(100_000, source.signal))
  expect(getEventListeners(source.signal, 'abort')).toHaveLength(1)
  source.abort()
  await Promise.all(waits)
  expect(getEventListeners(source.signal, 'abort')).toHaveLength(0)
  await new Promise(setImmediate)
  expect(warn).not.toHaveBeenCalled()
  process.off('warning', warn)
})

it('does not call a subscriber that unsubscribed, and calls the others', () => {
  const source = new AbortController()
  const calls: string[] = []
  const first = onAbort(source.signal, () => calls.push('first'))
  onAbort(source.signal, () => calls.push('second'))
  first()
  source.abort()
  expect(calls).toEqual(['second'])
})

it('ends a wait for shared work at the deadline of the waiting caller', async () => {
  const never = new Promise<never>(() => {})
  await expect(unlessStopped(never, {deadlineMs: performance.now()})).rejects.toMatchObject({name: 'TimeoutError'})
  const reason = new Error('no longer needed')
  await expect(unlessStopped(never, {signal: AbortSignal.abort(reason)})).rejects.toBe(reason)
  expect(await unlessStopped(Promise.resolve(7), {deadlineMs: performance.now() + 60_000})).toBe(7)
})

it('abandons shared work that takes too long, and the next caller starts again', async () => {
  vi.useFakeTimers()
  try {
    const flight = new SharedFlight<string>(5_000)
    const abandoned: AbortSignal[] = []
    const hang = (signal: AbortSignal) => {
      abandoned.push(signal)
      return new Promise<string>(() => {})
    }
    const waiting = [flight.join(hang), flight.join(hang)].map(wait => wait.catch((error: Error) => error.name))
    await vi.advanceTimersByTimeAsync(5_000)
    expect(await Promise.all(waiting)).toEqual(['TimeoutError', 'TimeoutError'])
    expect(abandoned.map(({aborted}) => aborted)).toEqual([true])
    let again: AbortSignal | undefined
    const quick = async (signal: AbortSignal) => {
      again = signal
      return 'again'
    }
    expect(await flight.join(quick)).toBe('again')
    // Nothing remains that would abandon it.
    await vi.advanceTimersByTimeAsync(5_000)
    expect(again?.aborted).toBe(false)
  } finally {
    vi.useRealTimers()
  }
})
