import {describe, expect, it} from 'vitest'
import {type Limit, rateOf} from '../../../src/lib/core/limits/limit.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {WRITE_PRESSURE_LIMIT} from '../../../src/lib/core/names.js'
import {type LimitStepInput, planWithLimits} from '../../../src/lib/limiter/queue/apply-limits.js'
import type {KnownState} from '../../../src/lib/limiter/queue/known-bucket.js'
import {nextStep, type StepInput} from '../../../src/lib/limiter/queue/next-step.js'
import {settingsOf} from '../../../src/lib/limiter/request/options.js'
import {PendingRequest} from '../../../src/lib/limiter/request/pending-request.js'
import {type BucketRecord, freshWritePressure} from '../../../src/lib/schema/bucket-record.js'
import {milli} from '../../helpers/limiter.js'

const NOW = 1_700_000_000_000
const NOW_SECONDS = NOW / 1000

const address = {entity: 'user-1', resource: 'gpt-4', shard: 0}
const table: StepInput['table'] = {
  name: 'table',
  namespace: 'ns',
  transport: {send: () => Promise.reject(new Error('a decision makes no call'))},
  clock: () => NOW,
  randomBytes: count => new Uint8Array(count),
  backoff: {random: Math.random, sleep: async () => {}},
}
const settings = settingsOf({})
const mark = {slot: 0, nonce: 'mark'}

const request = (amounts: Record<string, number>, level: 'entity' | 'parent' = 'entity') =>
  new PendingRequest(milli(amounts), level)

/** A bucket of 100 per minute, refilled a second ago by default. */
function record(tokens: number, change: Partial<BucketRecord> = {}, refilledAtMs = NOW - 1000): BucketRecord {
  const limits = parseLimits(['rpm=100/min']).map(limit => {
    const state = {...rateOf(limit), tokensMilli: BigInt(tokens) * 1000n, remainder: 0n, consumedMilli: 0n}
    return [limit.name, state] as const
  })
  const state = {refilledAtMs, limits: new Map([...limits, [WRITE_PRESSURE_LIMIT, freshWritePressure()]])}
  const rest = {namespace: 'ns', shardCount: 1, cascade: false, parent: undefined, ttlSeconds: NOW_SECONDS + 600}
  return {...address, ...rest, state, ...change}
}

const seen = (bucket: BucketRecord): KnownState => ({
  exists: true,
  atMs: NOW,
  seen: {record: bucket, incomplete: new Map()},
})

function stepFor(state: KnownState | undefined, requests: PendingRequest[], change: Partial<StepInput> = {}) {
  const bucket = {state, isCheckDue: () => false, needsPressureRepair: false}
  const supposed = () => ({rates: new Map(), shardCount: 1})
  const rules = {isCertain: true, isContended: false, roundTripMs: 4, supposed}
  return nextStep({table, settings, address, bucket, requests, nowMs: NOW, clockMs: NOW, ...rules, ...change})
}

describe('the next step', () => {
  const conditionOf = (step: ReturnType<typeof stepFor>) => spelledOut(step, 'ConditionExpression')

  function spelledOut(step: ReturnType<typeof stepFor>, which: 'ConditionExpression' | 'UpdateExpression'): string {
    const update = 'update' in step ? step.update(mark) : undefined
    const {ExpressionAttributeNames = {}, ExpressionAttributeValues = {}} = update ?? {}
    const named = (update?.[which] ?? '').replace(/#\d+/g, name => ExpressionAttributeNames[name] as string)
    return named.replace(/:\d+/g, value => Object.values(ExpressionAttributeValues[value] ?? {})[0])
  }

  it('S1 consumes only a just-refilled balance of an unseen bucket', () => {
    const requests = [request({rpm: 1})]
    const step = stepFor(undefined, requests)
    expect(step).toMatchObject({kind: 'consume', admits: requests})
    const shards = '(attribute_not_exists(shard_count) OR shard_count = 1)'
    expect(conditionOf(step)).toContain(`b_rpm_tk >= 1000 AND rf>=${NOW} AND ${shards} AND rf <= ${NOW} AND `)
    expect(conditionOf(step)).toContain(`(attribute_not_exists(rfb) OR rfb <= ${NOW})`)
  })

  it('S1 consumes from an unseen bucket of a known resource if its limits are the same and have room', () => {
    const supposed = () => ({rates: record(0).state.limits, shardCount: 1})
    const condition = conditionOf(stepFor(undefined, [request({rpm: 1})], {supposed}))
    expect(condition).toContain('b_rpm_cp=100000 AND b_rpm_ra=100000 AND b_rpm_rp=60000')
    expect(condition).toContain(`rf>=${NOW - 15_000} AND b_rpm_tk<=74998`)
  })

  it('S1 consumes a sufficient balance on condition that no refund made it overflow', () => {
    const condition = conditionOf(stepFor(seen(record(50)), [request({rpm: 1})]))
    expect(condition).toContain('b_rpm_tk BETWEEN 1000 AND 98332')
    expect(condition).toContain(`rf>=${NOW - 1000}`)
  })

  it('creates a missing bucket, and fills a missing shard', () => {
    const missing: KnownState = {exists: false, atMs: NOW, residue: new Map()}
    expect(stepFor(missing, [request({rpm: 1})])).toEqual({kind: 'apply-limits', state: missing})
    expect(stepFor(missing, [request({rpm: 1})], {address: {...address, shard: 1}})).toEqual({kind: 'fill-shard'})
  })

  it('consumes in one write if all requests fit the stored balance', () => {
    const requests = [request({rpm: 20}), request({rpm: 30})]
    const step = stepFor(seen(record(50)), requests)
    expect(step).toMatchObject({kind: 'consume', admits: requests})
  })

  it('rewrites the bucket if only a refill makes room', () => {
    const state = seen(record(50))
    expect(stepFor(state, [request({rpm: 51})])).toEqual({kind: 'apply-limits', state})
  })

  it('refuses by a certain state if a refill makes no room, and otherwise tries', () => {
    const requests = [request({rpm: 60})]
    const bucket = record(50)
    const refusal = {kind: 'refuse', requests, record: bucket, nowMs: NOW}
    expect(stepFor(seen(bucket), requests)).toEqual(refusal)
    expect(stepFor(seen(bucket), requests, {isCertain: false})).toMatchObject({
      kind: 'consume',
      admits: requests,
    })
  })

  it('takes requests that fit into a third of the tokens under contention', () => {
    const [large, small] = [request({rpm: 51}), request({rpm: 5})]
    expect(stepFor(seen(record(50)), [large, small], {isContended: true})).toMatchObject({
      kind: 'consume',
      admits: [small],
    })
  })

  it('consumes from full if the bucket has filled up', () => {
    const requests = [request({rpm: 1})]
    expect(stepFor(seen(record(99)), requests)).toMatchObject({kind: 'consume-from-full', admits: requests})
  })

  it('S1 S3 sets a full bucket to its minimum under contention', () => {
    // The refill instant stays 4 ms behind, in steps of 6 ms for whole millitokens. Four tokens are left for others.
    const contended = stepFor(seen(record(99)), [request({rpm: 1})], {isContended: true})
    expect(spelledOut(contended, 'UpdateExpression')).toMatch(/b_rpm_tk=94992.*rf 996/)
    expect(conditionOf(contended)).toContain('b_rpm_tk >= 94332')
    expect(conditionOf(contended)).toContain(`rf<=${NOW - 996}`)
  })

  it('S3 credits just the time that the requests need under contention, whatever others wrote', () => {
    // A token takes 600 ms. The remaining time stays for others.
    const contended = stepFor(seen(record(0)), [request({rpm: 1})], {isContended: true})
    expect(contended).toMatchObject({kind: 'consume'})
    expect(spelledOut(contended, 'UpdateExpression')).toMatch(/b_rpm_tc 1000.*rf 600/)
    expect(conditionOf(contended)).toContain(`rf>=${NOW - 1000}`)
    expect(conditionOf(contended)).toContain(`rf<=${NOW - 600}`)
    expect(conditionOf(contended)).toContain('b_rpm_tk BETWEEN 0 AND ')
  })

  it('rewrites a bucket that is full only with a carried fraction', () => {
    const limit = {...rateOf(parseLimits(['rpm=100/min'])[0] as Limit), consumedMilli: 0n}
    // A second earns 1,666⅔ milli; with the carried third it is full.
    const rpm = {...limit, tokensMilli: 98_333n, remainder: 20_000n}
    const full = record(0, {state: {refilledAtMs: NOW - 1000, limits: new Map([['rpm', rpm]])}})
    expect(stepFor(seen(full), [request({rpm: 1})])).toMatchObject({kind: 'apply-limits'})
  })

  it.each<[string, BucketRecord, Record<string, number>]>([
    ['has expired', record(50, {ttlSeconds: NOW_SECONDS}), {rpm: 1}],
    ['is overfull', record(101), {rpm: 1}],
    ['lacks a limit asked for', record(50), {tpm: 1}],
    ['could never hold the amount', record(50), {rpm: 101}],
  ])('applies the limits in force to a bucket that %s', (_, bucket, consume) => {
    expect(stepFor(seen(bucket), [request(consume)])).toMatchObject({kind: 'apply-limits'})
  })

  it('applies the limits when their check is due', () => {
    const bucket = {state: seen(record(50)), isCheckDue: () => true, needsPressureRepair: false}
    expect(stepFor(bucket.state, [request({rpm: 1})], {bucket})).toMatchObject({kind: 'apply-limits'})
  })

  it('D-1 repairs a shard count above the maximum', () => {
    expect(stepFor(seen(record(50, {shardCount: 2048})), [request({rpm: 1})])).toEqual({kind: 'repair-shard-count'})
  })

  it('repairs a drained pressure limit with the next consumption', () => {
    const bucket = {state: seen(record(50)), isCheckDue: () => false, needsPressureRepair: true}
    const step = stepFor(bucket.state, [request({rpm: 1})], {bucket})
    const update = 'update' in step ? step.update(mark) : undefined
    expect(Object.values(update?.ExpressionAttributeNames ?? {})).toContain('b_wcu_cp')
  })
})

describe('the step under the limits in force', () => {
  function planFor(state: KnownState, requests: PendingRequest[], change: Partial<LimitStepInput> = {}) {
    const inForce = {
      applied: {source: 'resource', limits: parseLimits(['rpm=100/min']), inFlight: new Map()},
      family: {cascade: false, parent: undefined},
    } as const
    const rules = {isCertain: true, isExact: true, clockMs: NOW}
    return planWithLimits({state, table, address, requests, inForce, settings, nowMs: NOW, ...rules, ...change})
  }
  const missing: KnownState = {exists: false, atMs: NOW, residue: new Map()}

  it('creates the bucket full, minus the fitting requests; the others wait for the answer', () => {
    const [first, second, third] = [request({rpm: 70}), request({rpm: 40}), request({rpm: 30})]
    const {step, impossible} = planFor(missing, [first, second, third])
    expect(step).toMatchObject({kind: 'create', admits: [first, third], leftOver: [second]})
    expect(impossible.size).toBe(0)
  })

  it('fails requests that these limits can never admit, and creates nothing for them alone', () => {
    const [unknown, tooLarge] = [request({tpm: 1}), request({rpm: 101})]
    const {step, impossible} = planFor(missing, [unknown, tooLarge])
    expect(step).toBeUndefined()
    expect([impossible.get(unknown), impossible.get(tooLarge)]).toMatchObject([
      {code: 'limit.unknown'},
      {code: 'request.too-large'},
    ])
  })

  it('skips requests abandoned while the limits were read', () => {
    const abandoned = request({rpm: 1})
    abandoned.answer.catch(() => {})
    abandoned.abandon(new Error('too late'))
    expect(planFor(missing, [abandoned])).toEqual({step: undefined, impossible: new Map()})
  })

  it('rewrites for fitting requests, and refuses the others at once by a certain state', () => {
    const [first, second] = [request({rpm: 51}), request({rpm: 60})]
    expect(planFor(seen(record(50)), [first, second]).step).toMatchObject({
      kind: 'rewrite',
      admits: [first],
      refused: {kind: 'refuse', requests: [second]},
    })
    const uncertain = planFor(seen(record(50)), [first, second], {isCertain: false}).step
    expect(uncertain).toMatchObject({kind: 'rewrite', admits: [first], leftOver: [second]})
    expect(uncertain).not.toHaveProperty('refused')
  })

  it('S4 writes nothing when nothing fits and nothing has changed', () => {
    const requests = [request({rpm: 60})]
    const bucket = record(50)
    expect(planFor(seen(bucket), requests).step).toEqual({kind: 'refuse', requests, record: bucket, nowMs: NOW})
    expect(planFor(seen(bucket), requests, {isCertain: false}).step).toEqual({kind: 'forget'})
  })

  it('S9 writes changed limits and a renewed expiry even when nothing fits', () => {
    const applied = {source: 'resource', limits: parseLimits(['rpm=70/min']), inFlight: new Map()} as const
    const inForce = {applied, family: {cascade: false, parent: undefined}}
    const requests = [request({rpm: 60})]
    expect(planFor(seen(record(50)), requests, {inForce}).step).toMatchObject({kind: 'rewrite', admits: []})
    const expired = record(50, {ttlSeconds: NOW_SECONDS})
    expect(planFor(seen(expired), requests).step).toMatchObject({kind: 'rewrite', admits: []})
  })
})
