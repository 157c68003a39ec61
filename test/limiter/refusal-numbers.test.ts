import {expect, it} from 'vitest'
import {acquireJson, acquireLines} from '../../src/lib/cli/acquire/presenter.js'
import {acquireResult} from '../../src/lib/cli/acquire/results.js'
import {finiteWait, type LimitState, longestOf} from '../../src/lib/core/limits/limit-state.js'
import {explainRefusal} from '../../src/lib/limiter/queue/refuse.js'
import {RateLimitExceeded} from '../../src/lib/limiter/refusal/errors.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {milli} from '../helpers/limiter.js'

const status = (retryAfterMs: number | null): LimitState => ({
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

it('L2 says in headers, JSON and messages of a refusal that waiting does not help', () => {
  const error = new RateLimitExceeded([status(60_000), status(null)], null)
  expect(error.message).toMatch(/; waiting does not help$/)
  expect(error.hint).toBe('Ask for less.')
  expect(error.toProblem().detail).toBe('Rate limit exceeded. Waiting does not help.')
  expect(error.headers()).toEqual({RateLimit: '"rpm";r=0', 'RateLimit-Policy': '"rpm";q=100;w=60'})
  expect(error.toReferenceJSON()).toMatchObject({
    retry_after_ms: null,
    retry_after_seconds: null,
    limits: [{retry_after_seconds: 60}, {retry_after_seconds: null}],
  })
})

it.each([Infinity, NaN])('L2 states no wait of %d', waitMs => {
  expect([finiteWait(waitMs), longestOf([5, finiteWait(waitMs)]), longestOf([5, 0])]).toEqual([null, null, 5])
})

it('prints a wait without end as null in the result of a command, as its schema states', async () => {
  const attempt = {
    admitted: false,
    isMetered: true,
    isBypassed: false,
    parents: [],
    waitedMs: 0,
    retryAfterMs: null,
    statuses: [status(null)],
  }
  const tried = {entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}, dryRun: true, attempt}
  const json = acquireJson(tried)
  expect(json).toMatchObject({retryAfterMs: null, limits: [{retryAfterMs: null}]})
  expect(acquireResult.parse(JSON.parse(JSON.stringify(json)))).toEqual(json)
  const text = (await acquireLines(tried, 100)).join('\n')
  expect(text).toMatch(/^Refused: user-1 cannot consume 1 rpm of gpt-4 now\. Waiting does not help\.\n/)
  expect(text).toMatch(/never/)
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
