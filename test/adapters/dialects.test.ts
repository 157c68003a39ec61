import {expect, it} from 'vitest'
import {dialectHeaders, durationText} from '../../src/lib/adapters/guard.js'

const balance = {
  ...{
    name: 'rpm',
    entity: 'user-1',
    resource: 'r',
    level: 'entity' as const,
    refillAmount: 60,
    refillPeriodSeconds: 60,
  },
  ...{requested: 0, exceeded: false, retryAfterMs: 0},
}

it.each([
  [0, '0ms'],
  [119.2, '120ms'],
  [998.5, '999ms'],
  [999.5, '1s'],
  [1000, '1s'],
  [1001, '2s'],
  [360_000, '6m0s'],
  [3_600_000, '1h0m0s'],
  [90_061_000, '25h1m1s'],
])('writes %d ms as %s', (ms, text) => {
  expect(durationText(ms)).toBe(text)
})

it('reports when a limit is full again as an instant, and a debt as nothing left', () => {
  const limits = {
    rpm: {...balance, capacity: 60, available: -3, fullAfterMs: 1500},
    quota: {...balance, capacity: 10, available: 4, fullAfterMs: null},
  }
  expect(dialectHeaders('anthropic', limits, {tokens: 'quota'}, Date.UTC(2026, 0, 1))).toEqual({
    'anthropic-ratelimit-requests-limit': '60',
    'anthropic-ratelimit-requests-remaining': '0',
    'anthropic-ratelimit-requests-reset': '2026-01-01T00:00:02Z',
    'anthropic-ratelimit-tokens-limit': '10',
    'anthropic-ratelimit-tokens-remaining': '4',
  })
  expect(dialectHeaders('openai', limits, {tokens: 'quota'}, 0)).toEqual({
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-remaining-requests': '0',
    'x-ratelimit-reset-requests': '2s',
    'x-ratelimit-limit-tokens': '10',
    'x-ratelimit-remaining-tokens': '4',
  })
})
