import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {refill} from '../../../src/lib/core/token-math.js'
import {mergeBucket} from '../../../src/lib/migrate/buckets/charge.js'
import {readOldBucket} from '../../../src/lib/migrate/buckets/old-bucket.js'
import {classifyItem} from '../../../src/lib/migrate/records/classify.js'
import type {OldItem} from '../../../src/lib/migrate/records/finding.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'

const NOW = 1_700_000_000_000
const target = {namespace: 'ns', entity: 'user-1', resource: 'gpt-4', cascade: false, parent: undefined}

interface Stored {
  readonly tokens: number
  readonly refilledAtMs: number
  readonly ttl?: number
  readonly consumed?: number
  readonly rate?: {readonly burst: number; readonly amount: number; readonly periodMs: number}
}

const RATE = {burst: 100_000, amount: 60_000, periodMs: 60_000}

/** A bucket item of 0.6: one limit, with a refill instant of its own. */
function perLimit(limit: string, {tokens, refilledAtMs, ttl, consumed = 0, rate = RATE}: Stored): Item {
  return {
    PK: s('ENTITY#user-1'),
    SK: s(`#BUCKET#gpt-4#${limit}`),
    tokens_milli: n(tokens),
    last_refill_ms: n(refilledAtMs),
    capacity_milli: n(rate.amount),
    burst_milli: n(rate.burst),
    refill_amount_milli: n(rate.amount),
    refill_period_ms: n(rate.periodMs),
    total_consumed_milli: n(consumed),
    ...(ttl === undefined ? {} : {ttl: n(ttl)}),
  }
}

/** A bucket item of 0.7: all limits, one instant. */
function composite(limits: Record<string, number>, refilledAtMs: number, PK = 'ENTITY#user-1'): Item {
  const item: Item = {
    PK: s(PK),
    SK: s('#BUCKET#gpt-4'),
    entity_id: s('user-1'),
    resource: s('gpt-4'),
    rf: n(refilledAtMs),
  }
  for (const [name, tokens] of Object.entries(limits)) {
    Object.assign(item, {[`b_${name}_tk`]: n(tokens), [`b_${name}_cp`]: n(60_000), [`b_${name}_bx`]: n(100_000)})
    Object.assign(item, {[`b_${name}_ra`]: n(60_000), [`b_${name}_rp`]: n(60_000), [`b_${name}_tc`]: n(5000)})
  }
  return item
}

const toRead = (...items: Item[]) =>
  readOldBucket(
    items.map(item => ({item, record: classifyItem(item)}) as OldItem<'bucket'>),
    NOW,
  )

function read(...items: Item[]) {
  const old = toRead(...items)
  if (typeof old === 'string') throw new Error(`the bucket is ${old}`)
  return old
}

describe('old buckets become one', () => {
  it('at the latest refill instant, with the tokens that each limit has earned until then (S3, S7)', () => {
    const old = read(
      perLimit('rpm', {tokens: 10_000, refilledAtMs: NOW - 5000}),
      perLimit('slow', {
        tokens: -7,
        refilledAtMs: NOW - 9000,
        rate: {burst: 10_000, amount: 10_000, periodMs: 86_400_000},
      }),
    )
    const {record, marks} = mergeBucket(old, target)
    expect(record.state.refilledAtMs).toBe(NOW - 5000)
    expect(record.state.limits.get('rpm')).toMatchObject({
      tokensMilli: 10_000n,
      capacityMilli: 100_000n,
      consumedMilli: 0n,
    })
    // 4,000 ms at 10 a day are 40,000,000 / 86,400,000 of a millitoken: not one yet, but not lost either.
    expect(record.state.limits.get('slow')).toMatchObject({tokensMilli: -7n, remainder: 40_000_000n})
    expect(marks.get('rpm')?.get('/limits')).toEqual({
      oldConsumed: 0n,
      oldTokens: 10_000n,
      oldRefilledAtMs: NOW - 5000,
      charged: {consumedMilli: 0n, tokensMilli: 10_000n, shards: 1},
    })
  })

  it('never go back in time and never mint, whatever the instants and balances', () => {
    const limit = fc.record({
      tokens: fc.integer({min: -200_000, max: 100_000}),
      refilledAtMs: fc.integer({min: NOW - 100_000, max: NOW}),
    })
    fc.assert(
      fc.property(fc.array(limit, {minLength: 1, maxLength: 5}), limits => {
        const old = read(...limits.map((each, at) => perLimit(`l${at}`, each)))
        const {state} = mergeBucket(old, target).record
        limits.forEach(({tokens, refilledAtMs}, at) => {
          const merged = state.limits.get(`l${at}`)
          if (!merged) throw new Error('a limit is lost')
          expect(state.refilledAtMs).toBeGreaterThanOrEqual(refilledAtMs)
          const direct = refill(merged, {tokensMilli: BigInt(tokens), remainder: 0n}, NOW - refilledAtMs)
          expect(refill(merged, merged, NOW - state.refilledAtMs)).toMatchObject(direct)
        })
      }),
    )
  })

  it('use the location used last of a limit that is stored in several, and mark all of them', () => {
    const old = read(
      perLimit('rpm', {tokens: 1, refilledAtMs: NOW}),
      perLimit('tpm', {tokens: 2, refilledAtMs: NOW - 20}),
      composite({rpm: 3, tpm: 4}, NOW - 10),
    )
    expect(old.limits.get('rpm')?.state.tokensMilli).toBe(1n)
    expect(old.limits.get('tpm')?.state.tokensMilli).toBe(4n)
    expect(old.others.get('rpm')?.map(({state}) => state.tokensMilli)).toEqual([3n])
    const {marks} = mergeBucket(old, target)
    expect([...marks].map(([name, locations]) => [name, [...locations.keys()]])).toEqual([
      ['rpm', ['/limits', '/bucket']],
      ['tpm', ['/bucket', '/limits']],
    ])
  })

  it('use the newer layout of two that were used at the same instant', () => {
    const one = composite({rpm: 3}, NOW)
    const newer = composite({rpm: 4}, NOW, 'aB3x_9QwErT/ENTITY#user-1')
    expect(read(one, newer).limits.get('rpm')?.state.tokensMilli).toBe(4n)
    expect(read(newer, one).limits.get('rpm')?.state.tokensMilli).toBe(4n)
  })

  it('include the remains of an adjusted bucket in another location', () => {
    const ghost = {PK: s('aB3x_9QwErT/ENTITY#user-1'), SK: s('#BUCKET#gpt-4'), b_rpm_tk: n(-4000), b_rpm_tc: n(4000)}
    const old = read(composite({rpm: 30_000}, NOW), ghost)
    const {record, marks} = mergeBucket(old, target)
    expect(record.state.limits.get('rpm')).toMatchObject({tokensMilli: 26_000n, consumedMilli: 0n})
    expect(marks.get('rpm')?.get('aB3x_9QwErT/bucket/rest')).toMatchObject({oldTokens: -4000n})
  })

  it('leave out expired items, and keep the latest expiry of the others', () => {
    const [past, soon, later] = [NOW / 1000 - 1, NOW / 1000 + 10, NOW / 1000 + 99]
    expect(toRead(perLimit('rpm', {tokens: 1, refilledAtMs: NOW, ttl: past}))).toBe('expired')
    const old = read(
      perLimit('rpm', {tokens: 1, refilledAtMs: NOW, ttl: past}),
      perLimit('tpm', {tokens: 1, refilledAtMs: NOW, ttl: soon}),
      perLimit('cpm', {tokens: 1, refilledAtMs: NOW, ttl: later}),
    )
    expect([...old.limits.keys()].sort()).toEqual(['cpm', 'tpm'])
    expect(old.ttlSeconds).toBe(later)
    expect(
      read(perLimit('a', {tokens: 1, refilledAtMs: NOW, ttl: soon}), perLimit('b', {tokens: 1, refilledAtMs: NOW}))
        .ttlSeconds,
    ).toBeUndefined()
  })

  it('add up the shards of a bucket', () => {
    const shard = (number: number, tokens: number): OldItem<'bucket'> => {
      const PK = `default/BUCKET#user-1#gpt-4#${number}`
      const item = {...composite({rpm: tokens}, NOW, PK), PK: s(PK), SK: s('#STATE'), shard_count: n(2), b_rpm_bx: n(0)}
      const {b_rpm_bx: _, ...rest} = item
      return {item: rest, record: classifyItem(rest, {literalDefaultMoves: true}) as OldItem<'bucket'>['record']}
    }
    const old = readOldBucket([shard(1, 500), shard(0, 700)], NOW)
    if (typeof old === 'string') throw new Error(`the bucket is ${old}`)
    expect(old.limits.get('rpm')?.state).toMatchObject({
      tokensMilli: 1200n,
      consumedMilli: 10_000n,
      capacityMilli: 60_000n,
      refillAmountMilli: 60_000n,
    })
  })
})
