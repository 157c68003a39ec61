import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {Throttled, Unavailable} from '../../../src/lib/dynamo/errors.js'
import {RefusalTally} from '../../../src/lib/limiter/refusal/tally.js'
import type {WriteOutcome} from '../../../src/lib/repository/buckets/marked-write.js'
import type {WriteMark} from '../../../src/lib/repository/buckets/writes.js'
import type {RefusalCounts} from '../../../src/lib/schema/refusal-counts.js'

const BUCKET = {entity: 'user-1', resource: 'gpt-4'}
const APPLIED: WriteOutcome = {applied: true, item: {}}
const refused = (isInDoubt: boolean): WriteOutcome => ({applied: false, item: {}, isInDoubt})
const asked = (name: string, requested: number, {exceeded = true, entity = 'user-1', resource = 'gpt-4'} = {}) => ({
  name,
  requested,
  exceeded,
  entity,
  resource,
})

describe('the tally of refusals', () => {
  const flushed: string[] = []
  let counted = 0
  let tally: RefusalTally

  beforeEach(() => {
    vi.useFakeTimers({toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date']})
    flushed.length = 0
    counted = 0
    tally = new RefusalTally({
      clock: Date.now,
      cacheSize: 100,
      flush: async bucket => {
        flushed.push(`${bucket.entity} ${bucket.resource}`)
        const taken = take(bucket)
        taken?.piggyback.settle(APPLIED)
        counted += (taken?.counts.requests ?? 0) + (taken?.counts.byParent ?? 0)
      },
    })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  /** Takes the pending refusals and returns them. */
  function take(bucket = BUCKET, text = 'SET a = b') {
    const marks: (RefusalCounts | undefined)[] = []
    const update = ({refusals}: WriteMark) => {
      marks.push(refusals)
      return {TableName: 't', Key: {}, UpdateExpression: refusals ? text : 'SET a = b'}
    }
    const piggyback = tally.piggyback(bucket, {update, basis: {kind: 'absence'}})
    if (!piggyback) return undefined
    const sent = piggyback.update({slot: 0, nonce: 'n'})
    return {piggyback, sent, counts: marks[0] as RefusalCounts}
  }

  it('counts a refusal by two parents once for each, and once for the entity', () => {
    tally.note([BUCKET], {statuses: [asked('rpm', 1, {entity: 'team'}), asked('rpm', 1, {entity: 'org'})]})
    expect(take()?.counts).toMatchObject({requests: 0, byParent: 1})
    for (const entity of ['team', 'org'])
      expect(take({entity, resource: 'gpt-4'})?.counts).toMatchObject({requests: 1, byParent: 0})
  })

  it('counts a refusal by a provider account once there, and once for the caller', () => {
    const org = {entity: 'org', resource: 'models'}
    const statuses = [asked('rpm', 1, org), asked('tpm', 500, org)]
    tally.note([org], {statuses}, BUCKET)
    tally.noteDisabled([org], org, BUCKET)
    expect(take(org)?.counts).toMatchObject({requests: 2, byParent: 0, blocked: 1, callers: new Map([['gpt-4', 2]])})
    const accounts = new Map([['org#models', 2]])
    expect(take()?.counts).toMatchObject({requests: 0, byParent: 2, accounts, limits: new Map()})
  })

  it('restores the accounts of an uncounted write', () => {
    const org = {entity: 'org', resource: 'models'}
    tally.note([org], {statuses: [asked('rpm', 1, org)]}, BUCKET)
    take()?.piggyback.settle(refused(false))
    tally.note([org], {statuses: [asked('rpm', 1, org)]}, BUCKET)
    expect(take()?.counts).toMatchObject({byParent: 2, accounts: new Map([['org#models', 2]])})
  })

  it('counts a request once, and each exceeded limit with its requested tokens', () => {
    tally.note([BUCKET], {statuses: [asked('rpm', 1), asked('tpm', 500), asked('tpd', 500, {exceeded: false})]})
    tally.note([BUCKET], {statuses: [asked('rpm', 1, {exceeded: false}), asked('tpm', 700)]})
    const limits = new Map([
      ['rpm', {requests: 1, tokens: 1n}],
      ['tpm', {requests: 2, tokens: 1200n}],
    ])
    expect(take()?.counts).toEqual({requests: 2, byParent: 0, lastAtMs: Date.now(), limits})
  })

  it('counts refusals after a piggybacked write with the next write', () => {
    const many = Array.from({length: 9}, (_, at) => asked(`limit${at}`, 3))
    tally.note([BUCKET], {statuses: many})
    const first = take()
    tally.note([BUCKET], {statuses: many})
    expect(first?.counts).toMatchObject({requests: 1, limits: {size: 8}})
    expect(
      [...(first?.counts.limits.values() ?? [])].every(({requests, tokens}) => requests === 1 && tokens === 3n),
    ).toBe(true)
    const [second, third] = [take(), take()]
    expect([second?.counts.requests, third?.counts.requests, tally.isWaiting(BUCKET)]).toEqual([1, 0, false])
    const limits = [second, third].flatMap(each => [...(each?.counts.limits ?? [])])
    expect(new Map(limits).get('limit8')).toEqual({requests: 2, tokens: 6n})
    expect(limits).toHaveLength(9)
  })

  it('L6 does not count a contended request, which no limit refused', () => {
    tally.note([BUCKET], {statuses: [asked('rpm', 1, {exceeded: false})]})
    expect(take()).toBeUndefined()
  })

  it("counts a parent's refusal at the parent, and notes it at the child unless the child refused too", () => {
    const team = {...BUCKET, entity: 'team'}
    tally.note([BUCKET], {statuses: [asked('tpm', 5, {exceeded: false}), asked('tpm', 5, {entity: 'team'})]})
    tally.note([BUCKET], {statuses: [asked('tpm', 5), asked('tpm', 5, {entity: 'team'})]})
    expect(take(team)?.counts).toMatchObject({requests: 2, byParent: 0})
    expect(take()?.counts).toMatchObject({requests: 1, byParent: 1})
  })

  it('flushes after a second, then at most every ten', async () => {
    const refuse = () => tally.note([BUCKET], {statuses: [asked('rpm', 1)]})
    refuse()
    await vi.advanceTimersByTimeAsync(999)
    expect(flushed).toHaveLength(0)
    await vi.advanceTimersByTimeAsync(1)
    expect(flushed).toHaveLength(1)
    for (let second = 1; second <= 30; second++) {
      refuse()
      await vi.advanceTimersByTimeAsync(1000)
    }
    expect(flushed).toHaveLength(4)
  })

  it('flushes sixteen buckets at a time, until all are written', async () => {
    const going: (() => void)[] = []
    tally = new RefusalTally({
      clock: Date.now,
      cacheSize: 100,
      flush: bucket =>
        new Promise<void>(resolve => {
          flushed.push(bucket.entity)
          going.push(resolve)
          take(bucket)?.piggyback.settle(APPLIED)
        }),
    })
    for (let at = 0; at < 50; at++)
      tally.note([{...BUCKET, entity: `user-${at}`}], {statuses: [asked('rpm', 1, {entity: `user-${at}`})]})
    await vi.advanceTimersByTimeAsync(1000)
    const inFlight: number[] = []
    while (going.length > 0) {
      inFlight.push(going.length)
      going.shift()?.()
      await vi.advanceTimersByTimeAsync(0)
    }
    expect(Math.max(...inFlight)).toBe(16)
    expect([flushed.length, new Set(flushed).size, tally.uncounted]).toEqual([50, 50, 0])
  })

  it('does not flush if another write comes first', async () => {
    tally.note([BUCKET], {statuses: [asked('rpm', 1)]})
    take()?.piggyback.settle(APPLIED)
    await vi.advanceTimersByTimeAsync(600_000)
    expect([flushed, tally.uncounted]).toEqual([[], 0])
  })

  it("flushes a child's refusals by its parent after a minute, or sooner if they are many", async () => {
    const refuse = () => tally.note([BUCKET], {statuses: [asked('tpm', 5, {entity: 'team'})]})
    for (let count = 0; count < 9; count++) refuse()
    await vi.advanceTimersByTimeAsync(59_000)
    expect(flushed).toEqual(['team gpt-4'])
    await vi.advanceTimersByTimeAsync(1000)
    expect([flushed, tally.uncounted]).toEqual([['team gpt-4', 'user-1 gpt-4'], 0])
    for (let count = 0; count < 10; count++) refuse()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(flushed.toSorted()).toEqual(['team gpt-4', 'team gpt-4', 'user-1 gpt-4', 'user-1 gpt-4'])
    refuse()
    await tally.flush()
    expect(flushed.toSorted().slice(3)).toEqual(['user-1 gpt-4', 'user-1 gpt-4', 'user-1 gpt-4'])
  })

  it.each([
    ['a write that was not applied', refused(false), 1],
    ['a write that may have been applied', refused(true), 0],
  ])('handles refusals of %s', (_, outcome, waiting) => {
    tally.note([BUCKET], {statuses: [asked('rpm', 1)]})
    take()?.piggyback.settle(outcome)
    expect(tally.uncounted).toBe(1)
    expect(take()?.counts.requests ?? 0).toBe(waiting)
  })

  it.each([
    ['certainly was not applied', new Throttled('UpdateItem', new Error('slow down')), 1],
    ['may have been applied', new Unavailable('UpdateItem', true, new Error('no answer')), 0],
  ])('handles refusals of a write that failed and %s', (_, error, waiting) => {
    tally.note([BUCKET], {statuses: [asked('rpm', 1)]})
    take()?.piggyback.fail(error)
    expect(tally.uncounted).toBe(1)
    expect(take()?.counts.requests ?? 0).toBe(waiting)
  })

  it('leaves refusals out of a write without room, and takes eight limits at a time', () => {
    const names = Array.from({length: 20}, (_, at) => `limit${at}`)
    tally.note([BUCKET], {statuses: names.map(name => asked(name, 3))})
    const taken = take(BUCKET, 'x'.repeat(3501))
    expect(taken?.sent.UpdateExpression).toBe('SET a = b')
    taken?.piggyback.settle(APPLIED)
    expect(tally.uncounted).toBe(1)
    const sizes = [take(), take(), take(), take()].map(each => [each?.counts.requests, each?.counts.limits.size])
    expect(sizes).toEqual([
      [1, 8],
      [0, 8],
      [0, 4],
      [undefined, undefined],
    ])
  })

  const refuse = (entity: string) => tally.note([{...BUCKET, entity}], {statuses: [asked('rpm', 1, {entity})]})

  it('drops refusals of a deleted bucket', () => {
    refuse('user-1')
    tally.drop(BUCKET)
    expect([tally.isWaiting(BUCKET), tally.uncounted]).toEqual([false, 1])
  })

  it('D-40 flushes the oldest early if more buckets are pending than the caches hold', async () => {
    for (let count = 0; count < 100; count++) refuse(`user-${count}`)
    expect(flushed).toEqual([])
    refuse('user-100')
    refuse('user-100')
    expect(flushed).toEqual(['user-0 gpt-4'])
    // Refusals by a parent alone wait longer, and are not lost either.
    for (let count = 101; count < 300; count++)
      tally.note([{...BUCKET, entity: `user-${count}`}], {statuses: [asked('rpm', 1, {entity: 'team'})]})
    await vi.advanceTimersByTimeAsync(0)
    expect([tally.waiting, counted + tally.uncounted]).toEqual([100, 102 + 2 * 199])
    await tally.flush()
    expect([tally.waiting, counted, tally.uncounted]).toEqual([0, 102 + 2 * 199, 0])
  })

  it('D-40 loses the oldest if the table is unavailable for long, stays bounded, and stops trying', async () => {
    let tries = 0
    const error = new Throttled('UpdateItem', new Error('slow down'))
    tally = new RefusalTally({
      clock: Date.now,
      cacheSize: 100,
      flush: async bucket => {
        tries++
        take(bucket)?.piggyback.fail(error)
        throw error
      },
    })
    for (let count = 0; count < 10_150; count++) {
      refuse(`user-${count}`)
      if (count % 10 === 0) await vi.advanceTimersByTimeAsync(0)
    }
    expect([tally.waiting, tally.uncounted]).toEqual([10_100, 10_150])
    expect(tries).toBeLessThanOrEqual(4 * 10_150)
  })
})
