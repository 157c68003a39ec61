import {describe, expect, it} from 'vitest'
import type {LimitState} from '../../src/lib/core/limits/limit-state.js'
import {encodeOperation} from '../../src/lib/repository/operations/record.js'
import {Families} from './oracles/families.js'
import {Feedback} from './oracles/feedback.js'
import {RateTopUps} from './oracles/rate-top-ups.js'
import {SoftLimits} from './oracles/soft-limits.js'
import {Verdicts} from './oracles/verdicts.js'
import {plain} from './rare.js'
import {RESOURCE, type Scenario} from './scenario.js'
import {bucketId, type StoredLimit, type StoredShard, shardChange, type TableWrite} from './world/table-writes.js'

const BUCKET = bucketId('ns', 'c0', RESOURCE)
const RATE = {name: 'rpm', capacity: 10, refillAmount: 1, refillPeriodSeconds: 1}

function shard(tokens: bigint, requests = 0): StoredShard {
  const limit: StoredLimit = {tokens, consumed: 0n, capacity: 10_000n, amount: 1000n, period: 1000n, remainder: 0n}
  const counts = {shardCount: 1, requests, bypass: undefined, refused: new Map(), marks: new Map(), feedback: new Map()}
  return {...counts, refilledAt: 0n, limits: new Map([['rpm', limit]])}
}

function write(atMs: number, before: StoredShard | undefined, after: StoredShard, changes: TableWrite['changes'] = []) {
  const change = {namespace: 'ns', entity: 'c0', resource: RESOURCE, shard: 0, bucket: BUCKET, before, after}
  return {atMs, writer: {kind: 'limiter', process: 0}, shards: [change], changes} as const
}

const oraclesIn = (verdicts: Verdicts) => verdicts.violations.map(({oracle}) => oracle)

describe('the family oracle', () => {
  const move = {kind: 'move', entity: 'c0', parent: 'org'} as const
  const off = {kind: 'set-cascade', scope: {level: 'resource', resource: RESOURCE}, cascade: false} as const
  const scenario = {
    ...plain(1, [RATE]),
    ...{seed: 1, profile: 'family', children: {c0: 'team'}},
    steps: [move, off].map(event => ({atMs: 0, by: -2, event})),
  } satisfies Scenario
  const asked = (startedMs: number) => ({entity: 'c0', startedMs})
  const byTeam = [{level: 'parent', entity: 'team'}] as unknown as LimitState[]

  it('requires the new parent in an existing bucket once the move has returned', () => {
    const verdicts = new Verdicts(() => 0)
    const families = new Families(scenario, verdicts)
    families.observe(write(1000, undefined, shard(0n)))
    const end = families.begin(move, 10_000)
    families.admitted(asked(10_500), ['team'])
    end(true, 11_000)
    families.admitted(asked(10_900), ['team'])
    families.admitted(asked(11_001), ['org'])
    families.refused(asked(11_900), byTeam)
    expect(oraclesIn(verdicts)).toEqual([])
    families.admitted(asked(11_001), ['team'])
    families.refused(asked(12_001), byTeam)
    expect(oraclesIn(verdicts)).toEqual(['S10-parent', 'S10-refused'])
  })

  it('allows the cache period for a bucket created around the change, and judges nothing after a failure', () => {
    const verdicts = new Verdicts(() => 0)
    const families = new Families(scenario, verdicts)
    families.observe(write(10_500, undefined, shard(0n)))
    families.begin(off, 10_000)(true, 11_000)
    families.admitted(asked(70_000), ['team'])
    expect(oraclesIn(verdicts)).toEqual([])
    families.admitted(asked(75_000), ['team'])
    expect(oraclesIn(verdicts)).toEqual(['S10-parent'])
    families.begin(move, 80_000)(false, 81_000)
    families.refused(asked(900_000), byTeam)
    expect(oraclesIn(verdicts)).toEqual(['S10-parent'])
  })
})

describe('the family oracle, after other changes', () => {
  it('allows the cache period for a bucket created around a change, whatever else changes', () => {
    const move = (entity: string) => ({kind: 'move', entity, parent: 'org'}) as const
    const scenario = {
      ...plain(1, [RATE]),
      ...{seed: 1, profile: 'family', children: {c0: 'team', c1: 'team'}},
      steps: [move('c0'), move('c1')].map(event => ({atMs: 0, by: -2, event})),
    } satisfies Scenario
    const verdicts = new Verdicts(() => 0)
    const families = new Families(scenario, verdicts)
    families.begin(move('c0'), 10_000)(true, 10_100)
    families.observe(write(10_050, undefined, shard(0n)))
    families.begin(move('c1'), 20_000)(true, 20_100)
    families.admitted({entity: 'c0', startedMs: 30_000}, ['team'])
    expect(oraclesIn(verdicts)).toEqual([])
    families.admitted({entity: 'c0', startedMs: 80_000}, ['team'])
    expect(oraclesIn(verdicts)).toEqual(['S10-parent'])
  })
})

describe('the soft-limit oracle', () => {
  const scenario = {...plain(1, [{...RATE, soft: true}]), seed: 1, profile: 'burst'} satisfies Scenario
  const asked = {process: 0, buckets: [BUCKET], startedMs: 500}

  it('accepts no refusal of a request for only soft limits', () => {
    const verdicts = new Verdicts(() => 0)
    const soft = new SoftLimits(scenario, verdicts)
    soft.refused('c0', {rpm: 1, tpm: 1})
    expect(oraclesIn(verdicts)).toEqual([])
    soft.refused('c0', {rpm: 1})
    expect(oraclesIn(verdicts)).toEqual(['S1-soft'])
  })

  it.each([
    [-1n, ['rpm'], []],
    [-1n, [], ['L6-overdrawn']],
    [0n, ['rpm'], ['L6-overdrawn']],
    [0n, [], []],
  ])('compares a balance of %d with the overdrawn limits of the lease: %j', (tokens, overdrawn, found) => {
    const verdicts = new Verdicts(() => 0)
    const soft = new SoftLimits(scenario, verdicts)
    soft.observe(write(1000, shard(5000n), shard(tokens, 1)))
    soft.admitted(asked, overdrawn)
    expect(oraclesIn(verdicts)).toEqual(found)
  })

  it.each([
    [1, ['L6-overdrawn']],
    [2, []],
  ])('lets a lease charged by a write over %i shards report a debt that was repaid since', (count, found) => {
    const verdicts = new Verdicts(() => 0)
    const soft = new SoftLimits(scenario, verdicts)
    soft.observe(write(900, shard(-1n), shard(5000n)))
    const {shards, ...rest} = write(1000, shard(5000n), shard(4000n, 1))
    soft.observe({...rest, shards: Array.from({length: count}, () => shards).flat()})
    soft.admitted({...asked, startedMs: 900}, ['rpm'])
    expect(oraclesIn(verdicts)).toEqual(found)
  })
})

describe('the top-up oracle', () => {
  const record = (tokens: number) => ({
    ...({namespace: 'ns', entity: 'c0', resource: RESOURCE, id: 'order-1', operation: 'top_up', shards: 1} as const),
    ...{writer: undefined, incarnation: '-', amounts: new Map([['rpm', tokens]]), ttlSeconds: undefined},
  })
  function made(tokens: number, credited: bigint) {
    const after = encodeOperation(record(tokens))
    const change = {table: 'sim', sequence: 1, atMs: 0, before: undefined, after}
    const made = write(1000, shard(0n), shard(credited), [change])
    // As in a run: the operation's record is beside the bucket.
    return {...made, shards: [...made.shards, ...made.changes.flatMap(each => shardChange(each) ?? [])]}
  }

  it.each([
    [3, 3000n, []],
    [2, 2000n, []],
    [4, 4000n, ['S6-topped-up']],
    [3, 5000n, ['S6-topped-up']],
    [3, 2000n, ['S6-topped-up']],
  ])('judges a top-up of 3 by %d recorded and %d credited millitokens', (tokens, credited, found) => {
    const verdicts = new Verdicts(() => 0)
    const topUps = new RateTopUps(verdicts)
    topUps.noteAsked(BUCKET, 'order-1', 'rpm', 3)
    expect(topUps.observe(made(tokens, credited))).toEqual([
      {bucket: BUCKET, name: 'rpm', milli: BigInt(tokens) * 1000n},
    ])
    topUps.check()
    expect(oraclesIn(verdicts)).toEqual(found)
  })

  it('requires that a reported top-up is applied, and once', () => {
    const verdicts = new Verdicts(() => 0)
    const topUps = new RateTopUps(verdicts)
    for (const key of ['order-1', 'order-2']) topUps.noteAsked(BUCKET, key, 'rpm', 3)
    for (let twice = 0; twice < 2; twice++) topUps.observe(made(3, 3000n))
    topUps.noteDone(BUCKET, 'order-2', 'rpm')
    topUps.check()
    expect(oraclesIn(verdicts)).toEqual(['S6-topped-up-twice', 'S6-topped-up'])
  })
})

describe('the feedback oracle', () => {
  const learnt = (tokens: bigint, leftMilli: bigint) => {
    const verdicts = new Verdicts(() => 0)
    new Feedback(verdicts).checkApplied({bucket: BUCKET, name: 'rpm', leftMilli}, shard(tokens), 0)
    return oraclesIn(verdicts)
  }

  it('finds a bucket that holds more than reported, and ignores tokens that the next refill cuts', () => {
    expect([learnt(4000n, 3000n), learnt(4001n, 3000n)]).toEqual([[], ['L6-feedback-lost']])
    expect([learnt(12_000n, 9000n), learnt(12_000n, 8999n)]).toEqual([[], ['L6-feedback-lost']])
  })
})
