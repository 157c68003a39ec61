import {setTimeout as sleep} from 'node:timers/promises'
import {afterAll, beforeAll, beforeEach, expect, inject, it} from 'vitest'
import {parseLimit, parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {RateLimitExceeded} from '../../src/lib/limiter/refusal/errors.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {Configs} from '../../src/lib/repository/limits/configs.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {Audit} from '../../src/lib/repository/table/audit.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {
  consumedMilli,
  earnedMilli,
  endowmentMilli,
  expectConserved,
  expectConservedInContention,
  largestExcess,
} from './fixtures/ledger.js'
import {type Assignment, PROGRESS_EVERY, type Tally} from './fixtures/worker-protocol.js'
import {type Done, Worker} from './fixtures/workers.js'

/** `ZAEL_TEST_SIZE=full` runs the full sizes; otherwise enough to notice a broken guard. */
const SIZE =
  process.env.ZAEL_TEST_SIZE === 'full'
    ? {processes: 8, requests: 2000, lanes: 32, unit: 10, timeoutMs: 600_000}
    : {processes: 4, requests: 150, lanes: 8, unit: 1, timeoutMs: 300_000}

/** Less than the demand, even on a slow machine. No rate divides evenly: every refill leaves a fraction to carry. */
const TPM = `tpm=${50 * SIZE.unit}/7sec:${500 * SIZE.unit}`
/** For one of 50: some run dry, and together they may take more than their parent has. */
const TPM_OF_CHILD = `tpm=${10 * SIZE.unit}/7sec:${15 * SIZE.unit}`
const RPD = 'rpd=1M/day'

const RESOURCE = 'gpt-4'
const LARGEST = 5
const MILLI = 1000n

describeOnEngine('several processes', {timeout: SIZE.timeoutMs}, () => {
  const table = useTable()
  let workers: Worker[]
  let scene: Scene

  beforeAll(() => {
    workers = Array.from({length: SIZE.processes}, () => new Worker())
  })
  afterAll(async () => {
    await Promise.all(workers.map(worker => worker.kill()))
  })
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: RESOURCE}, TPM, RPD)
  })

  /** Creates a half-empty bucket: a full one loses refill, and no sum would be exact. */
  async function create(entity: string): Promise<void> {
    const limiter = scene.limiter({clock: Date.now})
    await limiter.acquire({entity, resource: RESOURCE, consume: {tpm: 250 * SIZE.unit, rpd: 500_000}})
    await limiter.settled()
  }

  /** The same work for all, except overrides for the first. */
  async function prepare(options: Partial<Assignment> = {}, ofFirst: Partial<Assignment> = {}): Promise<void> {
    const assignment = {
      endpoint: inject('engineEndpoint'),
      stack: table.name,
      namespaceId: scene.namespace,
      resource: RESOURCE,
      entities: ['user-1'],
      requests: SIZE.requests,
      lanes: SIZE.lanes,
      largest: LARGEST,
      maxShards: 1,
      configCacheMs: 60_000,
      corrects: 'some' as const,
      ...options,
    }
    await Promise.all(
      workers.map((worker, seed) => worker.prepare({...assignment, ...(seed === 0 ? ofFirst : {}), seed})),
    )
  }

  const go = (): Promise<Done[]> => Promise.all(workers.map(worker => worker.go()))

  /** L6: every request has exactly one outcome, and none of them is an error. */
  function expectAllDecided(outcomes: readonly {tally: Tally}[]): void {
    expect(outcomes.flatMap(({tally}) => tally.errors)).toEqual([])
    for (const {tally} of outcomes) expect(tally.allowed + tally.denied).toBe(SIZE.requests)
    // Both must happen, or the scenario shows nothing.
    expect(sum(outcomes.map(({tally}) => tally.allowed))).toBeGreaterThan(0)
    expect(sum(outcomes.map(({tally}) => tally.denied))).toBeGreaterThan(0)
  }

  /** Holdings of all workers' leases, in millitokens. */
  function heldMilli(outcomes: readonly {tally: Tally}[], entity?: string): {tpm: bigint; rpd: bigint} {
    const held = outcomes.flatMap(({tally}) =>
      Object.entries(tally.held).flatMap(([name, amounts]) =>
        entity === undefined || name === entity ? [amounts] : [],
      ),
    )
    return {tpm: BigInt(sum(held.map(([tpm]) => tpm))) * MILLI, rpd: BigInt(sum(held.map(([, rpd]) => rpd))) * MILLI}
  }

  const consumedSince = (before: readonly BucketRecord[], after: readonly BucketRecord[]) => ({
    tpm: consumedMilli(after, 'tpm') - consumedMilli(before, 'tpm'),
    rpd: consumedMilli(after, 'rpd') - consumedMilli(before, 'rpd'),
  })

  it('S1 S2 S3 share one bucket', async () => {
    await prepare()
    await create('user-1')
    const before = await scene.shards('user-1', RESOURCE)
    const outcomes = await go()
    const after = await scene.shards('user-1', RESOURCE)

    expectAllDecided(outcomes)
    expect(consumedSince(before, after)).toEqual(heldMilli(outcomes))
    expectConserved(before[0] as BucketRecord, after[0] as BucketRecord, 'tpm', 'rpd')
    expect(
      largestExcess(
        outcomes.flatMap(({admissions}) => admissions),
        parseLimit(TPM),
      ),
    ).toBeLessThanOrEqual(0)
  })

  it('S1 S2 S3 S8 share one bucket with 8 shards', async () => {
    await prepare({maxShards: 8})
    await create('user-1')
    for (const count of [1, 2, 4]) await splitBucket(scene.tenant, 'user-1', RESOURCE, count)
    const before = await scene.shards('user-1', RESOURCE, 8)
    expect(before.length).toBe(8)
    const outcomes = await go()
    const after = await scene.shards('user-1', RESOURCE, 8)

    expectAllDecided(outcomes)
    expect(consumedSince(before, after)).toEqual(heldMilli(outcomes))
    for (const [shard, record] of before.entries()) {
      expectConserved(record, after[shard] as BucketRecord, 'tpm', 'rpd')
    }
    expect(
      largestExcess(
        outcomes.flatMap(({admissions}) => admissions),
        parseLimit(TPM),
      ),
    ).toBeLessThanOrEqual(0)
  })

  it('S2 S8 refund everything to the shard it came from', async () => {
    await prepare({maxShards: 8, corrects: 'all', requests: SIZE.requests / 2})
    await create('user-1')
    for (const count of [1, 2, 4]) await splitBucket(scene.tenant, 'user-1', RESOURCE, count)
    const before = await scene.shards('user-1', RESOURCE, 8)
    const outcomes = await go()
    const after = await scene.shards('user-1', RESOURCE, 8)

    expect(outcomes.flatMap(({tally}) => tally.errors)).toEqual([])
    expect(sum(outcomes.map(({tally}) => tally.allowed))).toBeGreaterThan(0)
    for (const [shard, record] of before.entries()) {
      expect({shard, ...consumedSince([record], [after[shard] as BucketRecord])}).toEqual({shard, tpm: 0n, rpd: 0n})
    }
  })

  it('S2 S8 share one bucket that is split from 1 to 8 shards meanwhile', async () => {
    await prepare({maxShards: 8})
    await create('user-1')
    const before = await scene.shards('user-1', RESOURCE)
    const working = go()
    for (let count = 1; count < 8; ) {
      await sleep(100)
      // Tokens may move too quickly for a split; the next try comes soon.
      count = await splitBucket(scene.tenant, 'user-1', RESOURCE, count).catch(() => count)
    }
    const outcomes = await working
    const after = await scene.shards('user-1', RESOURCE, 8)

    expectAllDecided(outcomes)
    expect(after.length).toBe(8)
    expect(consumedSince(before, after)).toEqual(heldMilli(outcomes))
    // Shards are refilled at different instants: at most until the latest, at least until the earliest. Every shard may
    // hold back a fraction of a millitoken from each split it took part in.
    const gained = endowmentMilli(after, 'tpm') - endowmentMilli(before, 'tpm')
    const byRefill = after.toSorted((a, b) => a.state.refilledAtMs - b.state.refilledAtMs)
    const [first] = before as [BucketRecord]
    expect(gained).toBeLessThanOrEqual(earnedMilli(first, byRefill.at(-1) as BucketRecord, 'tpm'))
    expect(gained).toBeGreaterThanOrEqual(earnedMilli(first, byRefill[0] as BucketRecord, 'tpm') - 32n)
  })

  it('S5 S10 share one parent of 50 children', async () => {
    const children = Array.from({length: 50}, (_, index) => `child-${index}`)
    await Promise.all(children.map(child => scene.entity(child, 'team')))
    // Children are refused by their own limits and by the parent's.
    await scene.configure({level: 'resource', resource: RESOURCE}, TPM_OF_CHILD, RPD)
    await scene.configure({level: 'entity', entity: 'team', resource: RESOURCE}, TPM, RPD)
    await prepare({entities: children})
    await create('team')
    const before = await scene.shards('team', RESOURCE)
    const outcomes = await go()
    const after = await scene.shards('team', RESOURCE)

    expectAllDecided(outcomes)
    const ofChildren = {tpm: 0n, rpd: 0n}
    for (const child of children) {
      const consumed = consumedSince([], await scene.shards(child, RESOURCE))
      expect({child, ...consumed}).toEqual({child, ...heldMilli(outcomes, child)})
      ofChildren.tpm += consumed.tpm
      ofChildren.rpd += consumed.rpd
    }
    expect(consumedSince(before, after)).toEqual(ofChildren)
    expect(ofChildren).toEqual(heldMilli(outcomes))
    expectConservedInContention(before[0] as BucketRecord, after[0] as BucketRecord, 'tpm', 'rpd')
  })

  it('S5 S10 share the ancestors of four levels', async () => {
    const keys = Array.from({length: 24}, (_, index) => `key-${index}`)
    const parents = new Map(keys.map((key, index) => [key, `user-${index % 6}`]))
    for (let index = 0; index < 6; index++) parents.set(`user-${index}`, `team-${index % 2}`)
    for (let index = 0; index < 2; index++) parents.set(`team-${index}`, 'org')
    await Promise.all([...parents].map(([entity, parent]) => scene.entity(entity, parent)))
    await scene.levels('all')
    // Requests are refused by every level.
    await scene.configure({level: 'resource', resource: RESOURCE}, TPM_OF_CHILD, RPD)
    for (const shared of new Set(parents.values()))
      await scene.configure({level: 'entity', entity: shared, resource: RESOURCE}, TPM, RPD)
    await prepare({entities: keys})
    await create('org')
    const before = await scene.shards('org', RESOURCE)
    const outcomes = await go()
    const after = await scene.shards('org', RESOURCE)

    expectAllDecided(outcomes)
    const consumed = new Map<string, {tpm: bigint; rpd: bigint}>()
    // Keys first: every other level was charged the sum of the level below.
    for (const [entity, parent] of parents) {
      const own = consumedSince([], await scene.shards(entity, RESOURCE))
      const isKey = keys.includes(entity)
      const none = {tpm: 0n, rpd: 0n}
      expect({entity, ...own}).toEqual({
        entity,
        ...(isKey ? heldMilli(outcomes, entity) : (consumed.get(entity) ?? none)),
      })
      const {tpm, rpd} = consumed.get(parent) ?? none
      consumed.set(parent, {tpm: tpm + own.tpm, rpd: rpd + own.rpd})
    }
    expect(consumedSince(before, after)).toEqual(consumed.get('org'))
    expect(consumed.get('org')).toEqual(heldMilli(outcomes))
    expectConservedInContention(before[0] as BucketRecord, after[0] as BucketRecord, 'tpm', 'rpd')
  })

  it('S10 charge three levels alike while users change teams and keys are deleted', async () => {
    const [users, teams] = [[0, 1, 2, 3].map(index => `user-${index}`), ['team-0', 'team-1']]
    const keys = Array.from({length: 16}, (_, index) => `key-${index}`)
    await scene.entity('org')
    for (const team of teams) await scene.entity(team, 'org')
    for (const [index, user] of users.entries()) await scene.entity(user, `team-${index % 2}`)
    for (const [index, key] of keys.entries()) await scene.entity(key, `user-${index % 4}`)
    await scene.levels('all')
    const {entities} = new NamespaceRepository({...scene.tenant, clock: Date.now}, undefined)
    await prepare({entities: keys})
    let isWorking = true
    const working = go().finally(() => {
      isWorking = false
    })
    // Each once at least, even if the workers are quicker.
    let changes = 0
    for (; isWorking || changes < 8; changes++) {
      await entities.update(users[changes % 4] as string, {parent: `team-${(Math.floor(changes / 4) + changes) % 2}`})
      if (changes < 4) await entities.delete(`key-${4 * changes}`)
      await sleep(50)
    }
    const outcomes = await working

    expectAllDecided(outcomes)
    const consumed = async (level: readonly string[]) =>
      consumedSince([], (await Promise.all(level.map(entity => scene.shards(entity, RESOURCE)))).flat())
    const ofOrg = await consumed(['org'])
    expect(ofOrg.tpm).toBeGreaterThan(0n)
    expect([await consumed(users), await consumed(teams)]).toEqual([ofOrg, ofOrg])
  })

  it('S2 S9 share one bucket whose limits are changed meanwhile', async () => {
    const tenant = {...scene.tenant, clock: Date.now}
    const configs = new Configs(tenant, {audit: new Audit(tenant)})
    const scope = {level: 'resource', resource: RESOURCE} as const
    await prepare({configCacheMs: 30})
    await create('user-1')
    const before = await scene.shards('user-1', RESOURCE)
    let isWorking = true
    const working = go().finally(() => {
      isWorking = false
    })
    const raised = `tpm=${300 * SIZE.unit}/7sec:${900 * SIZE.unit}`
    const changes: (() => Promise<unknown>)[] = [
      () => configs.set(scope, parseLimits([raised])),
      () => configs.set(scope, parseLimits(['extra=7/min', 'other=10k/hour'])),
      () => configs.set(scope, parseLimits([`tpm=${100 * SIZE.unit}/7sec:${20 * SIZE.unit}`])),
      () => configs.unset(scope, 'extra'),
      () => configs.set(scope, parseLimits([TPM])),
      () => configs.set(scope, parseLimits([TPM, RPD]), {replace: true}),
    ]
    let made = 0
    // Every change at least once, even if the workers are quicker; the first ones come while they work.
    while (isWorking || made < changes.length) {
      await changes[made++ % changes.length]?.()
      await sleep(20)
    }
    const outcomes = await working
    const after = await scene.shards('user-1', RESOURCE)

    expectAllDecided(outcomes)
    expect(consumedSince(before, after)).toEqual(heldMilli(outcomes))
    // An unchanged limit neither gains nor loses by changes around it.
    expectConserved(before[0] as BucketRecord, after[0] as BucketRecord, 'rpd')
    // Raising creates no tokens: the start and the highest rate bound everything.
    const elapsedMs = BigInt(
      (after[0] as BucketRecord).state.refilledAtMs - (before[0] as BucketRecord).state.refilledAtMs,
    )
    const gained = endowmentMilli(after, 'tpm') - endowmentMilli(before, 'tpm')
    const {refillAmount, refillPeriodSeconds} = parseLimit(raised)
    expect(gained).toBeLessThanOrEqual((elapsedMs * BigInt(refillAmount)) / BigInt(refillPeriodSeconds))

    // The last change updates the bucket with the next configuration check.
    await configs.set(scope, parseLimits(['tpm=300/7sec:30', 'last=5/min']), {replace: true})
    // Only a refusal may end these: on a busy machine the usual deadline could pass before the limits are written.
    const limiter = scene.limiter({clock: Date.now, configCacheMs: 1, timeoutMs: SIZE.timeoutMs})
    const ask = () =>
      limiter.acquire({entity: 'user-1', resource: RESOURCE, consume: {tpm: 1}}).catch((error: unknown) => {
        if (!(error instanceof RateLimitExceeded)) throw error
      })
    await limiter.check({entity: 'user-1', resource: RESOURCE, consume: {tpm: 1}})
    await sleep(5)
    await ask()
    await sleep(5)
    await ask()
    const [last] = (await scene.shards('user-1', RESOURCE)) as [BucketRecord]
    expect([...last.state.limits.keys()].sort()).toEqual(['last', 'tpm', 'wcu'])
    expect(last.state.limits.get('tpm')).toMatchObject({capacityMilli: 30_000n, refillAmountMilli: 300_000n})
    expect(last.state.limits.get('tpm')?.tokensMilli).toBeLessThanOrEqual(30_000n)
  })

  // Last, because it kills a worker.
  it('L1 continue when one of them is killed', async () => {
    await scene.entity('user-1', 'team')
    const {lanes} = SIZE
    // The killed worker has more to do than it can finish.
    await prepare({}, {requests: 1000 * SIZE.requests})
    await create('team')
    const before = await scene.shards('team', RESOURCE)
    const [victim, ...others] = workers as [Worker, ...Worker[]]
    const died = victim.go().catch(() => undefined)
    const working = Promise.all(others.map(worker => worker.go()))
    await victim.decided(Math.floor(SIZE.requests * 0.4))
    await victim.kill()
    expect(await died).toBeUndefined()
    const outcomes = await working
    const child = await scene.shards('user-1', RESOURCE)
    const parent = await scene.shards('team', RESOURCE)

    expectAllDecided(outcomes)
    expectConserved(before[0] as BucketRecord, parent[0] as BucketRecord, 'tpm', 'rpd')
    const lost = {
      tpm: consumedMilli(child, 'tpm') - heldMilli(outcomes).tpm,
      rpd: consumedMilli(child, 'rpd') - heldMilli(outcomes).rpd,
    }
    const reported = heldMilli([{tally: victim.tally as Tally}])
    // It has reported less than it was granted, and cannot have been granted more than it asked for since. A lane may
    // have one request not yet counted at its last report, one at the next, and one in flight.
    const askedSince = BigInt(PROGRESS_EVERY + 3 * lanes)
    expect(lost.rpd).toBeGreaterThanOrEqual(reported.rpd - BigInt(lanes) * MILLI)
    expect(lost.rpd).toBeLessThanOrEqual(reported.rpd + askedSince * MILLI)
    expect(lost.tpm).toBeGreaterThanOrEqual(reported.tpm - BigInt(lanes * LARGEST) * MILLI)
    expect(lost.tpm).toBeLessThanOrEqual(reported.tpm + askedSince * BigInt(LARGEST + 1) * MILLI)
    // Each of its lanes may have had one request in flight and one being refunded; nothing else explains a difference.
    const apart = consumedSince(before, parent).rpd - consumedMilli(child, 'rpd')
    expect(apart).toBeLessThanOrEqual(BigInt(2 * lanes) * MILLI)
    expect(apart).toBeGreaterThanOrEqual(BigInt(-2 * lanes) * MILLI)
  })
})

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
