import {expect, it} from 'vitest'
import {type Limit, makeLimit} from '../../src/lib/core/limits/limit.js'
import type {RateLimitExceeded} from '../../src/lib/limiter/refusal/errors.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {Verdicts} from './oracles/verdicts.js'
import {QuotaRefusals} from './quotas/refusals.js'

const NOW_MS = Date.parse('2024-02-28T12:00:00Z')

/** A daily quota of 25 tokens. */
const bucket = (tokens: number, consumed: number): Item => ({
  PK: s('ns/BUCKET#u0#gpt-4#0'),
  SK: s('#STATE'),
  entity_id: s('u0'),
  resource: s('gpt-4'),
  rf: n(NOW_MS - 3_600_000),
  shard_count: n(1),
  sched_tz: s('UTC'),
  rsched: s('1m0h0'),
  b_q_cp: n(25_000),
  b_q_ra: n(0),
  b_q_rp: n(1000),
  b_q_tk: n(tokens),
  b_q_tc: n(consumed),
})

/** A refusal reports 0 left of 3; a charge of these 3 follows, or none. */
function found(chargedAfterMs: number | undefined, configured?: Limit): string[] {
  const verdicts = new Verdicts(() => 0)
  const [before, after] = [bucket(3000, 22_000), bucket(0, 25_000)]
  const refusals = new QuotaRefusals(
    verdicts,
    () => [before],
    () => configured,
  )
  const limit = {entity: 'u0', resource: 'gpt-4', name: 'q', requested: 7, available: 0, exceeded: true}
  const statuses = [{...limit, retryAfterMs: 12 * 3_600_000 + 1}]
  const error = {statuses} as unknown as RateLimitExceeded
  refusals.judge({namespace: 'ns', error, startedMs: NOW_MS, endedMs: NOW_MS})
  if (chargedAfterMs !== undefined) {
    const atMs = NOW_MS + chargedAfterMs
    const changes = [{table: 'sim', sequence: 0, atMs, before, after}]
    refusals.observe({atMs, writer: {kind: 'limiter', process: 0}, changes, shards: []})
  }
  refusals.check()
  return verdicts.violations.map(({oracle}) => oracle)
}

it('finds a refusal that reports less than is left', () => {
  expect(found(undefined)).toEqual(['L6-left'])
  expect(found(1000)).toEqual(['L6-left'])
})

it('allows it to omit tokens taken by a write in flight', () => {
  expect(found(1)).toEqual([])
})

it('judges only a bucket with the configured limits', () => {
  const daily = {name: 'q', capacity: 25, refillAmount: 0, refillPeriodSeconds: 1, timeZone: 'UTC'}
  expect(found(undefined, makeLimit({...daily, reset: {crons: ['0 0 * * *']}}))).toEqual(['L6-left'])
  expect(found(undefined, makeLimit({...daily, capacity: 28, reset: {crons: ['0 0 * * *']}}))).toEqual([])
  expect(found(undefined, makeLimit({...daily, reset: {crons: ['0 * * * *']}}))).toEqual([])
})
