import {afterEach, describe, expect, it, vi} from 'vitest'
import {RateLimiter, Repository} from '../../../src/lib/index.js'
import {openTable} from '../../../src/lib/repository/table/open-table.js'

afterEach(() => vi.unstubAllEnvs())

describe('the stack to work on', () => {
  const transport = {send: () => Promise.reject(new Error('nothing is sent'))}

  it('is the named one, otherwise that of ZAEL_STACK', () => {
    vi.stubEnv('ZAEL_STACK', 'local')
    expect(openTable({transport}).table.name).toBe('local')
    expect(openTable({stack: 'prod', transport}).table.name).toBe('prod')
  })

  it.each([
    ['a limiter', () => new RateLimiter()],
    ['a repository', () => new Repository()],
  ])('%s fails when none is named, and explains how to name it', (_, open) => {
    vi.stubEnv('ZAEL_STACK', '')
    expect(open).toThrow(
      expect.objectContaining({
        code: 'stack.missing',
        message: 'No stack is given.',
        hint: "Pass its name, such as {stack: 'prod'}, or set ZAEL_STACK.",
      }),
    )
  })
})
