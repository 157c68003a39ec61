import {describe, expect, it} from 'vitest'
import type {BucketState} from '../../../src/lib/core/buckets/bucket.js'
import {boundsOfFullness, boundsOfRoom, boundsOfUnseenRoom} from '../../../src/lib/core/buckets/fullness.js'
import {adjustUpdate} from '../../../src/lib/repository/buckets/adjust-write.js'
import {admissionUpdate, takeFromFull, takeStored} from '../../../src/lib/repository/buckets/consume-write.js'
import {planBucket} from '../../../src/lib/repository/buckets/plan.js'
import {type BucketUpdate, createUpdate, plannedUpdate} from '../../../src/lib/repository/buckets/writes.js'
import type {NamespaceTable} from '../../../src/lib/repository/table/table.js'
import type {BucketRecord} from '../../../src/lib/schema/bucket-record.js'

const NOW = 1_700_000_000_000
const tenant = {name: 'table', namespace: 'ns'} as NamespaceTable
const mark = {slot: 3, nonce: 'AbCdEfGh11', upTo: 'AbCdEfGh~'}

function bucketOf(count: number, sinceMs = 90_000): BucketRecord {
  const limits = Array.from({length: count}, (_, at) => {
    const capacityMilli = 100_000n + BigInt(at)
    const rate = {capacityMilli, refillAmountMilli: capacityMilli, refillPeriodMs: 60_000 + at}
    return [`limit-${at}`, {...rate, tokensMilli: 90_000n + BigInt(at), remainder: 7n, consumedMilli: 5n}] as const
  })
  const state: BucketState = {refilledAtMs: NOW - sinceMs, limits: new Map(limits)}
  const whose = {namespace: 'ns', entity: 'user-1', resource: 'gpt-4', shard: 0, shardCount: 1, cascade: false}
  return {...whose, parent: undefined, ttlSeconds: 1_700_000_420, state}
}

const amountsOf = ({state}: BucketRecord) =>
  new Map([...state.limits.keys()].map((name, at) => [name, 1000n + BigInt(at)]))

/** DynamoDB takes expressions of up to 4 KB with up to 300 operators and functions. */
function expectAccepted({UpdateExpression = '', ConditionExpression = ''}: BucketUpdate): void {
  for (const text of [UpdateExpression, ConditionExpression]) {
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4096)
    expect(text.match(/[<>]=?|=|\bAND\b|\bOR\b|\w+\(/g)?.length ?? 0).toBeLessThanOrEqual(300)
  }
}

describe("expressions of bucket writes stay within DynamoDB's limit", () => {
  it('for 12 limits of a bucket that has filled up', () => {
    const record = bucketOf(12)
    const amounts = amountsOf(record)
    const bounds = boundsOfFullness(record.state, amounts, NOW)
    expect(bounds.length).toBe(4)
    const write = takeFromFull(amounts, record, bounds, {requests: 1, nowMs: NOW, ttlSeconds: 1})
    expectAccepted(admissionUpdate(tenant, record, write, mark))
  })

  it('for 8 limits of a bucket with little known state', () => {
    const record = bucketOf(8)
    const amounts = amountsOf(record)
    const bounds = boundsOfUnseenRoom(record.state.limits, [...amounts.keys()], NOW)
    expect(bounds.length).toBe(5)
    const room = {bounds, shardCount: 1, supposed: record.state.limits}
    const write = takeStored(amounts, room, {nowMs: NOW, requests: 1, repairsPressure: false})
    expectAccepted(admissionUpdate(tenant, record, write, mark))
  })

  it('for 48 limits that are all consumed', () => {
    const record = bucketOf(48)
    const amounts = amountsOf(record)
    const plan = planBucket({record, incomplete: new Map()}, NOW)
    const bounds = boundsOfRoom(bucketOf(48, 1000).state, [...amounts.keys()], NOW)
    expect(bounds).toHaveLength(1)
    const room = {bounds, shardCount: 1}
    const write = takeStored(amounts, room, {nowMs: NOW, requests: 1, repairsPressure: false})
    expectAccepted(admissionUpdate(tenant, record, write, mark))
    expectAccepted(adjustUpdate(tenant, record, amounts, mark, {limitsRevision: undefined, requests: 1}))
    expectAccepted(createUpdate(tenant, record, {amounts, requests: 1}, mark))
    expectAccepted(plannedUpdate(tenant, plan, {amounts, requests: 1, ttlSeconds: 1, isExact: true}, mark))
  })
})
