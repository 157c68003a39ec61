import {expect, it} from 'vitest'
import {acquireJson} from '../../src/lib/cli/acquire/presenter.js'
import {acquireResult} from '../../src/lib/cli/acquire/results.js'
import type {LimitState} from '../../src/lib/core/limits/limit-state.js'
import {explainRefusal} from '../../src/lib/limiter/queue/refuse.js'
import {RateLimitExceeded} from '../../src/lib/limiter/refusal/errors.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {milli} from '../helpers/limiter.js'

const status = (retryAfterMs: number): LimitState => ({
  name: 'rpm',
  entity: 'user-1',
  resource: 'gpt-4',
  level: 'entity',
  source: undefined,
  capacity: 100,
  available: 0,
  requested: 1,
  fullAfterMs: 60_000,
  exceeded: true,
  retryAfterMs,
  refillAmount: 100,
  refillPeriodSeconds: 60,
})

it.each([Infinity, NaN])('L2 omits a wait of %d from headers, JSON and messages of a refusal', waitMs => {
  const error = new RateLimitExceeded([status(waitMs)], waitMs)
  const seen = [
    JSON.stringify([error, error.toReferenceJSON()]),
    JSON.stringify(error.headers()),
    JSON.stringify(error.details),
    error.message,
  ]
  for (const text of seen) expect(text).not.toMatch(/Infinity|NaN|null[,}]?"retry/)
  expect(error.toReferenceJSON()).toMatchObject({
    retry_after_ms: 86_400_000,
    limits: [{retry_after_seconds: 86_400}],
  })
  expect(error.headers()['Retry-After']).toBe('86400')
})

it.each([Infinity, NaN])('prints a wait of %d as null in the result of a command, as its schema states', waitMs => {
  const attempt = {
    admitted: false,
    isMetered: true,
    isBypassed: false,
    parents: [],
    waitedMs: 0,
    retryAfterMs: waitMs,
    statuses: [status(waitMs)],
  }
  const json = acquireJson({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}, dryRun: true, attempt})
  expect(json).toMatchObject({retryAfterMs: null, limits: [{retryAfterMs: null}]})
  expect(acquireResult.parse(JSON.parse(JSON.stringify(json)))).toEqual(json)
})

it('L2 counts on the gain of a shard by the highest shard count that any shard knows', () => {
  const record = (shard: number, shardCount: number): BucketRecord => ({
    namespace: 'ns',
    entity: 'user-1',
    resource: 'gpt-4',
    shard,
    shardCount,
    cascade: false,
    parent: undefined,
    ttlSeconds: undefined,
    state: {
      refilledAtMs: 0,
      limits: new Map([
        [
          'rpm',
          {
            capacityMilli: 80_000n,
            refillAmountMilli: 80_000n,
            refillPeriodMs: 60_000,
            tokensMilli: 0n,
            consumedMilli: 0n,
            remainder: 0n,
          },
        ],
      ]),
    },
  })
  const records = [record(0, 4), record(1, 2), record(2, 4), record(3, 4)]
  const refusal = explainRefusal({records, amounts: milli({rpm: 40}), nowMs: 0, source: undefined}, 'entity')
  expect(refusal.retryAfterMs).toBe(30_001)
})
