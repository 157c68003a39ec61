import {describe, expect, it} from 'vitest'
import type {Amounts} from '../../../src/lib/core/buckets/bucket.js'
import {rateOf} from '../../../src/lib/core/limits/limit.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import type {Operation, Transport} from '../../../src/lib/dynamo/transport.js'
import {BucketQueues} from '../../../src/lib/limiter/levels/bucket-queues.js'
import {KnownBucket} from '../../../src/lib/limiter/queue/known-bucket.js'
import {EntityCache} from '../../../src/lib/limiter/queue/queue-services.js'
import type {LimitSource} from '../../../src/lib/limiter/request/limit-source.js'
import {settingsOf} from '../../../src/lib/limiter/request/options.js'
import {type BucketRecord, encodeBucket} from '../../../src/lib/schema/bucket-record.js'
import {milli} from '../../helpers/limiter.js'

const NOW = 1_700_000_000_000
const settings = settingsOf({denyCacheMs: 1000, configCacheMs: 20_000, cacheSize: 100})
const mark = {slot: 3, nonce: 'mine'}

function record(tokens: number): BucketRecord {
  const rate = rateOf(parseLimit('rpm=100/min'))
  const limit = {...rate, tokensMilli: BigInt(tokens) * 1000n, remainder: 0n, consumedMilli: 0n}
  const address = {namespace: 'ns', entity: 'user-1', resource: 'gpt-4', shard: 0, shardCount: 1}
  const state = {refilledAtMs: NOW, limits: new Map([['rpm', limit]])}
  return {...address, cascade: false, parent: undefined, ttlSeconds: undefined, state}
}

const tokensOf = ({state}: KnownBucket) =>
  state?.exists ? Number(state.seen.record.state.limits.get('rpm')?.tokensMilli) / 1000 : undefined

const NO_SLOTS = {takesSlots: false, without: undefined, slots: new Map()}

describe('a known bucket', () => {
  it('keeps the last response; a state read before it does not replace it', () => {
    const bucket = new KnownBucket(settings)
    bucket.learn(encodeBucket(record(10)), mark, NOW)
    bucket.learnRecord(record(20), NOW - 1, NOW + 5)
    expect(tokensOf(bucket)).toBe(10)
    bucket.learnRecord(record(30), NOW, NOW + 5)
    expect(tokensOf(bucket)).toBe(30)
  })

  it('refuses without a call during the deny cache time', () => {
    const bucket = new KnownBucket(settings)
    bucket.learn(encodeBucket(record(10)), mark, NOW)
    bucket.noteLimitsChecked({source: 'resource', limits: [], inFlight: new Map()}, NOW)
    expect([0, 1000, 1001, -1].map(ms => bucket.isFresh(NOW + ms))).toEqual([true, true, false, false])
    const demand = (asked: Amounts) => ({
      ...NO_SLOTS,
      asked,
      amounts: asked,
      booking: undefined,
      level: 'entity' as const,
      isStrict: true,
    })
    const ask = (rpm: number) => bucket.refusal(demand(milli({rpm})), NOW)
    expect([ask(10), ask(11)]).toMatchObject([undefined, {source: 'resource'}])
    expect([ask(101), bucket.refusal(demand(milli({tpm: 1})), NOW)]).toEqual([undefined, undefined])
    bucket.forget()
    expect([bucket.isFresh(NOW), ask(11)]).toEqual([false, undefined])
  })

  it('keeps the mark in the slot of this process after its state is forgotten', () => {
    const bucket = new KnownBucket(settings)
    bucket.learn({...encodeBucket(record(10)), wn_3: {S: 'theirs'}}, mark, NOW)
    expect(bucket.slotMark).toBe('theirs')
    bucket.forgetState(record(20))
    expect([bucket.slotMark, bucket.isSlotKnown, bucket.state, bucket.lastRecord]).toEqual([
      'theirs',
      true,
      undefined,
      record(20),
    ])
    bucket.forget()
    expect([bucket.slotMark, bucket.isSlotKnown]).toEqual(['theirs', false])
  })

  it('S9 uses stored limits at the first decision, then checks them every half cache period', () => {
    const bucket = new KnownBucket(settings)
    expect(bucket.isCheckDue(NOW)).toBe(false)
    bucket.noteDecided()
    expect(bucket.isCheckDue(NOW)).toBe(true)
    bucket.noteLimitsChecked({source: 'resource', limits: [], inFlight: new Map()}, NOW)
    expect([0, 9999, 10_000, -1].map(ms => bucket.isCheckDue(NOW + ms))).toEqual([false, false, true, true])
  })

  it('D-10 reports the largest request since the rate was last measured', () => {
    const bucket = new KnownBucket(settings)
    bucket.noteRequest(milli({rpm: 5, tpm: 70}))
    bucket.noteRequest(milli({rpm: 7}))
    bucket.noteRequest(milli({rpm: 6}))
    const load = bucket.learn(encodeBucket(record(10)), mark, NOW)
    expect(load).toMatchObject({unitsPerSecond: undefined, largestRequestMilli: milli({rpm: 7, tpm: 70})})
  })
})

describe('queues', () => {
  const queues = (send: (operation: Operation) => Promise<unknown>) => {
    const table = {
      name: 'table',
      namespace: 'ns',
      transport: {send} as Transport,
      clock: () => NOW,
      randomBytes: (count: number) => new Uint8Array(count),
      backoff: {random: Math.random, sleep: async () => {}},
    }
    const entities = new EntityCache({clock: () => NOW, ttlMs: 1000, maxEntries: 100})
    return new BucketQueues({table, settings, limits: {} as LimitSource, entities})
  }
  const CHARGED = {isBypassed: false, incarnation: undefined, periods: new Map()}
  const unanswered = () => new Promise<never>(() => {})
  const address = (index: number) => ({entity: `user-${index}`, resource: 'gpt-4', shard: 0})

  it('D-40 are bounded: the least recently used idle ones are dropped, busy ones stay', () => {
    const all = queues(unanswered)
    void all.at(address(0)).settle(milli({rpm: 1}), 0, CHARGED)
    for (let index = 1; index <= 100; index++) all.at(address(index))
    expect([0, 1, 2, 100].map(index => all.find(address(index)) !== undefined)).toEqual([true, false, true, true])
    all.at(address(2))
    all.at(address(101))
    expect([2, 3].map(index => all.find(address(index)) !== undefined)).toEqual([true, false])
  })

  it('D-40 exist for all work, however few may be cached: one item never has two', async () => {
    const answers: (() => void)[] = []
    const all = queues(
      () => new Promise(resolve => answers.push(() => resolve({Attributes: encodeBucket(record(10))}))),
    )
    const started = Array.from({length: 150}, (_, index) => {
      const queue = all.at(address(index))
      return {queue, done: queue.settle(milli({rpm: 1}), 0, CHARGED)}
    })
    expect(started.every(({queue}, index) => all.at(address(index)) === queue)).toBe(true)
    expect(all.size).toBe(150)
    await new Promise(setImmediate)
    for (const answer of answers.splice(0)) answer()
    await Promise.all(started.map(({done}) => done))
    await all.settled()
    expect(all.size).toBe(100)
  })

  it('D-1 repair the shard count one at a time, however many responses show it', async () => {
    const reads: Operation[] = []
    const all = queues(async operation => {
      if (operation === 'UpdateItem') return {Attributes: encodeBucket({...record(10), shardCount: 2048})}
      reads.push(operation)
      return unanswered()
    })
    for (let answers = 0; answers < 3; answers++) await all.at(address(1)).settle(milli({rpm: 1}), 0, CHARGED)
    await new Promise(setImmediate)
    expect(reads).toEqual(['BatchGetItem'])
  })
})
