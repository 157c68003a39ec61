import {describe, expect, it, vi} from 'vitest'
import {runHolding} from '../../../src/lib/cli/acquire/hold.js'
import {Unavailable} from '../../../src/lib/dynamo/errors.js'
import type {Lease} from '../../../src/lib/limiter/lease.js'

const node = (script: string) => [process.execPath, '-e', script]

describe('a command that holds slots', () => {
  const leaseWith = (change: object) =>
    ({commit: async () => {}, rollback: async () => {}, ...change}) as unknown as Lease

  it('is stopped when its slots may have been given to others', async () => {
    const lost = new AbortController()
    const warn = vi.fn()
    const ended = runHolding(leaseWith({signal: lost.signal}), node('setInterval(() => {}, 1000)'), warn)
    lost.abort()
    expect(await ended).toBe(143)
    expect(warn).toHaveBeenCalledWith(expect.stringContaining('others may have taken them'))
  })

  it('keeps its exit code if the slots cannot be returned now', async () => {
    const commit = async () => {
      throw new Unavailable('UpdateItem', true)
    }
    const warn = vi.fn()
    const {signal} = new AbortController()
    expect(await runHolding(leaseWith({signal, commit}), node('process.exit(4)'), warn)).toBe(4)
    expect(warn).toHaveBeenCalledOnce()
  })
})
