import {afterEach, describe, expect, it} from 'vitest'
import {type Interruption, interruptible, listenForEnd} from '../../../src/lib/cli/output/interrupt.js'
import {ZaelError} from '../../../src/lib/core/errors.js'
import {Aborted} from '../../../src/lib/dynamo/errors.js'

const interrupted = () => new ZaelError('interrupted', 'x.interrupted', 'half done')
const listeners = process.listenerCount('SIGINT')
const terminators = process.listenerCount('SIGTERM')

afterEach(() => {
  expect(process.listenerCount('SIGINT')).toBe(listeners)
  expect(process.listenerCount('SIGTERM')).toBe(terminators)
})

/** Work that Ctrl-C stops, as a request to the table is stopped. */
async function untilStopped(signal: AbortSignal): Promise<never> {
  process.emit('SIGINT')
  expect(signal.aborted).toBe(true)
  throw new Aborted('Query', false, new Error('stopped'))
}

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('ends with the exit code of %s, and catches no second signal of either kind', async (signal, exitCode) => {
  const end = listenForEnd()
  process.emit(signal)
  expect([process.listenerCount('SIGINT'), process.listenerCount('SIGTERM')]).toEqual([listeners, terminators])
  expect([end.signal.aborted, await end.reached]).toEqual([true, exitCode])
  end.stop()
})

describe('work that can be interrupted', () => {
  it('ends with exit code 130 and its own error', async () => {
    await expect(interruptible(untilStopped, interrupted)).rejects.toMatchObject({
      code: 'x.interrupted',
      kind: 'interrupted',
    })
  })

  it('ends with exit code 143 after SIGTERM, and with its current message', async () => {
    const work = async (signal: AbortSignal, {failWith}: Interruption) => {
      failWith(() => new ZaelError('interrupted', 'x.later', 'nearly done'))
      process.emit('SIGTERM')
      expect(signal.aborted).toBe(true)
      throw new Aborted('Query', false, new Error('stopped'))
    }
    await expect(interruptible(work, interrupted)).rejects.toMatchObject({code: 'x.later', kind: 'terminated'})
    const own = async () => {
      process.emit('SIGTERM')
      throw interrupted()
    }
    await expect(interruptible(own, interrupted)).rejects.toMatchObject({code: 'x.interrupted', kind: 'terminated'})
  })

  it('does not catch a second Ctrl-C', async () => {
    await interruptible(async () => {
      process.emit('SIGINT')
      expect(process.listenerCount('SIGINT')).toBe(listeners)
    }, interrupted)
  })

  it('returns its result when Ctrl-C comes too late', async () => {
    expect(await interruptible(async () => 7, interrupted)).toBe(7)
    const late = async () => {
      process.emit('SIGINT')
      return 7
    }
    expect(await interruptible(late, interrupted)).toBe(7)
  })

  it('keeps its own error', async () => {
    const failure = new Error('no luck')
    const fail = async () => {
      process.emit('SIGINT')
      throw failure
    }
    await expect(interruptible(fail, interrupted)).rejects.toBe(failure)
    const aborted = new Aborted('Query', false, new Error('by somebody else'))
    await expect(interruptible(() => Promise.reject(aborted), interrupted)).rejects.toBe(aborted)
  })
})
