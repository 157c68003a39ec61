import {expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {windowBudget} from '../../../src/lib/insight/usage/usage-report.js'

it.each([
  ['rpm=100', 'hourly', '2026-11-01T10:00:00Z', 6000],
  ['rpm=10/sec:50', 'hourly', '2026-11-01T10:00:00Z', 36_000],
  ['rpm=100', 'daily', '2026-11-01T00:00:00Z', 144_000],
  ['tpd=1M/day', 'hourly', '2026-11-01T10:00:00Z', 1_000_000],
  ['tpd=1M/day', 'monthly', '2026-02-01T00:00:00Z', 28_000_000],
  ['tpd=1M/day', 'monthly', '2028-02-01T00:00:00Z', 29_000_000],
  ['x=1/7day:2', 'daily', '2026-11-01T00:00:00Z', 2],
  ['usd=$20/month@UTC', 'monthly', '2026-11-01T00:00:00Z', 20_000_000],
  ['usd=$20/month@UTC', 'daily', '2026-11-07T00:00:00Z', 20_000_000],
  // The reset of November is in the last hour of October.
  ['usd=$20/month@Europe/Berlin', 'monthly', '2026-10-01T00:00:00Z', 20_000_000],
  ['rpd=100/day@UTC', 'monthly', '2026-02-01T00:00:00Z', 2800],
  ['rpd=100/day@UTC', 'hourly', '2026-02-01T10:00:00Z', 100],
  ['s=50/5h!', 'daily', '2026-02-01T00:00:00Z', 200],
  ['s=50/5h!', 'hourly', '2026-02-01T00:00:00Z', 50],
] as const)('%s gives in a %s window from %s: %i', (limit, window, start, budget) => {
  expect(windowBudget(parseLimit(limit), window, start)).toBe(budget)
})
