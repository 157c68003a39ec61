import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {withinTime} from '../../../src/lib/cli/output/interrupt.js'

describe('work with a time limit', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it('returns its result, and leaves no timer', async () => {
    const before = vi.getTimerCount()
    expect(await withinTime(5000, async () => 'done')).toBe('done')
    expect(await withinTime(undefined, async () => 'done')).toBe('done')
    await expect(withinTime(5000, async () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(vi.getTimerCount()).toBe(before)
  })

  it('is abandoned at the limit, whether it listens to the signal or not', async () => {
    let signal: AbortSignal | undefined
    const deaf = withinTime(5000, given => {
      signal = given
      return new Promise(() => {})
    })
    const refused = expect(deaf).rejects.toMatchObject({code: 'time.over', kind: 'failed', details: {forMs: 5000}})
    vi.advanceTimersByTime(4999)
    expect(signal?.aborted).toBe(false)
    vi.advanceTimersByTime(1)
    expect(signal?.aborted).toBe(true)
    await refused
  })

  it('reports the timeout, not the error that the abort caused', async () => {
    const obedient = withinTime(
      5000,
      signal =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(new Error('stopped')))
        }),
    )
    const refused = expect(obedient).rejects.toMatchObject({code: 'time.over'})
    vi.advanceTimersByTime(5000)
    await refused
  })
})
