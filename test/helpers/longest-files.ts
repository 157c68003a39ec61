/**
 * The slowest files, slowest first. A fresh clone has no durations, and vitest would sort by file size: a short but slow
 * file would run last and alone, while the other cores idle.
 */
export const LONGEST = [
  'test/e2e/local.slow.test.ts',
  'test/migrate/kills.slow.test.ts',
  'test/simulation/more-seeds.slow.test.ts',
  'test/packaging/install.slow.test.ts',
  'test/peer/allowances.slow.test.ts',
  'test/core/calendar/differential.slow.test.ts',
  'test/repository/usage/usage.test.ts',
  'test/aws/refusals.slow.test.ts',
  'test/migrate/generations.slow.test.ts',
  'test/repository/limits/limit-sync.test.ts',
  'test/insight/verify/verify.test.ts',
  'test/migrate/generations.test.ts',
  'test/limiter/token-accounting.test.ts',
  'test/peer/allowance-races.slow.test.ts',
  'test/simulation/quotas.slow.test.ts',
  'test/limiter/faults/shards.slow.test.ts',
  'test/limiter/kinds.test.ts',
  'test/aggregator/buckets.test.ts',
  'test/simulation/simulation.test.ts',
  'test/e2e/read-only.slow.test.ts',
  'test/dynamo/transports/lean.test.ts',
  'test/limiter/faults/leases.test.ts',
]
