import {describe, expect, it} from 'vitest'
import type {Limit} from '../../src/lib/core/limit.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {RateLimitExceeded} from '../../src/lib/limiter/errors.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {type BucketRecord, decodeBucket} from '../../src/lib/schema/bucket-record.js'
import {decodeBucketMarks, readMigrationMark} from '../../src/lib/schema/migration-marks.js'
import {readBigInt} from '../../src/lib/schema/read.js'
import {describeOnEngine} from '../helpers/table.js'
import {earnedMilli, largestExcess} from '../limiter/fixtures/ledger.js'
import {seededRandom} from '../limiter/fixtures/seeded-random.js'
import {AddingClient, type OldClient, oldBucketItem, PuttingClient} from './old-clients.js'
import {type OldTableScene, useOldTable} from './old-table-scene.js'

const LIMIT: Limit = {name: 'rpm', capacity: 100, refillAmount: 100, refillPeriodSeconds: 60}
const ENTITIES = ['user-1', 'user-2', 'user-3']

/** One configured limit for everybody, and three buckets. */
const itemsFor =
  (layout: 'composite' | 'per limit') =>
  (population: {nowMs: number}): Item[] => [
    {
      PK: s('SYSTEM#'),
      SK: s('#CONFIG'),
      config_version: n(1),
      l_rpm_cp: n(100),
      l_rpm_bx: n(100),
      l_rpm_ra: n(100),
      l_rpm_rp: n(60),
    },
    {PK: s('SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.8.0')},
    ...ENTITIES.map(entity => oldBucketItem(`ENTITY#${entity}`, 60, population.nowMs, layout)),
  ]

type Admission = [sentMs: number, answeredMs: number, tokens: number]

/** Clients of both layouts that use the same buckets between any two requests of the migration. */
class Traffic {
  readonly old = new Map<string, OldClient>()
  readonly newConsumedMilli = new Map<string, bigint>()
  readonly admissions = new Map<string, Admission[]>()
  /** The first item that the migration wrote for each bucket. */
  readonly copies = new Map<string, BucketRecord & {oldConsumed: bigint}>()
  isOn = true
  #line: Promise<void> = Promise.resolve()
  readonly #random
  readonly #limiter

  constructor(
    readonly scene: OldTableScene,
    layout: 'composite' | 'per limit',
    seed: number,
  ) {
    this.#random = seededRandom(seed)
    this.#limiter = scene.limiter(scene.own)
    const where = {transport: scene.own, TableName: scene.name, clock: () => scene.nowMs}
    const Client = layout === 'composite' ? AddingClient : PuttingClient
    for (const entity of ENTITIES) {
      this.old.set(entity, new Client(where, `ENTITY#${entity}`))
      this.newConsumedMilli.set(entity, 0n)
      this.admissions.set(entity, [])
    }
  }

  /** Between the migration and the table; the requests of the clients themselves go past it. */
  readonly transport: Transport = {
    send: async (operation, input, options) => {
      await this.someTraffic()
      this.#noteCopy(operation, input)
      return this.scene.own.send(operation, input, options)
    },
  }

  /** One request after the other: clients that put whole items would lose each other's, which is not our subject. */
  someTraffic(): Promise<void> {
    this.#line = this.#line.then(() => this.#oneRequest())
    return this.#line
  }

  async #oneRequest(): Promise<void> {
    if (!this.isOn) return
    this.scene.nowMs += Math.floor(this.#random() * 40)
    const entity = ENTITIES[Math.floor(this.#random() * ENTITIES.length)] as string
    const tokens = 1 + Math.floor(this.#random() * 4)
    const isNew = this.copies.has(entity) && this.#random() < 0.5
    await (isNew ? this.acquireNew(entity, tokens) : this.acquireOld(entity, tokens))
  }

  async acquireOld(entity: string, tokens: number): Promise<boolean> {
    const client = this.old.get(entity) as OldClient
    if (!(await client.acquire(tokens))) return false
    this.#admitted(entity, tokens)
    if (client instanceof AddingClient && tokens === 3) {
      await client.adjust(-1)
      this.#admitted(entity, -1)
    }
    return true
  }

  async acquireNew(entity: string, tokens: number): Promise<boolean> {
    try {
      await this.#limiter.acquire({entity, resource: 'gpt-4', consume: {rpm: tokens}})
    } catch (error) {
      if (error instanceof RateLimitExceeded) return false
      throw error
    }
    this.newConsumedMilli.set(entity, (this.newConsumedMilli.get(entity) ?? 0n) + BigInt(tokens) * 1000n)
    this.#admitted(entity, tokens)
    return true
  }

  #admitted(entity: string, tokens: number): void {
    this.admissions.get(entity)?.push([this.scene.nowMs, this.scene.nowMs, tokens])
  }

  #noteCopy(operation: string, input: unknown): void {
    const item = operation === 'PutItem' ? (input as {Item: Item}).Item : {}
    const stored = 'PK' in item ? decodeBucket(item) : undefined
    if (stored?.kind !== 'bucket' || this.copies.has(stored.record.entity)) return
    const oldConsumed =
      [...(decodeBucketMarks(readMigrationMark(item)).get('rpm')?.values() ?? [])][0]?.oldConsumed ?? 0n
    this.copies.set(stored.record.entity, {...stored.record, oldConsumed})
  }
}

async function bucketsOf(scene: OldTableScene): Promise<Map<string, {record: BucketRecord; old: Item}>> {
  const items = await scene.items()
  const found = new Map<string, {record: BucketRecord; old: Item}>()
  for (const item of items) {
    const stored = decodeBucket(item)
    if (stored?.kind !== 'bucket') continue
    const {record} = stored
    const old = items.find(
      each =>
        (each.PK as {S: string}).S === `ENTITY#${record.entity}` && (each.SK as {S: string}).S.startsWith('#BUCKET'),
    )
    if (old) found.set(record.entity, {record, old})
  }
  return found
}

describeOnEngine('traffic of both layouts during a migration', () => {
  describe.each(['composite', 'per limit'] as const)('on buckets with %s items', layout => {
    const scene = useOldTable(4, population => itemsFor(layout)(population))

    it('loses and mints no token (S2), and the union stays within the stated bound (S1)', {
      timeout: 180_000,
    }, async () => {
      const traffic = new Traffic(scene, layout, 7)
      scene.transport = traffic.transport
      await scene.migrate({leaseMs: 3_600_000})
      // Greedy clients on both sides, and a pass now and then.
      for (let round = 0; round < 8; round++) {
        for (const entity of ENTITIES) {
          while (await traffic.acquireOld(entity, 3));
          while (await traffic.acquireNew(entity, 3));
        }
        scene.nowMs += 20_000
        await scene.migrate({leaseMs: 3_600_000})
      }
      traffic.isOn = false
      expect(await scene.migrate()).toMatchObject({settled: true, conflicts: {count: 0}})
      expect((await scene.verify()).clean).toBe(true)

      for (const [entity, {record, old}] of await bucketsOf(scene)) {
        const copy = traffic.copies.get(entity)
        const client = traffic.old.get(entity)
        const limit = record.state.limits.get('rpm')
        if (!copy || !client || !limit) throw new Error(`${entity} was not copied`)
        // S2: what was copied, and refill since, less what both sides consumed since.
        const oldTotal = readBigInt(old, layout === 'composite' ? 'b_rpm_tc' : 'total_consumed_milli') ?? 0n
        const newTotal = traffic.newConsumedMilli.get(entity) ?? 0n
        expect(oldTotal).toBe(client.consumedMilli)
        expect(limit.consumedMilli).toBe(newTotal)
        const initial = copy.state.limits.get('rpm')?.tokensMilli ?? 0n
        const balance = initial + earnedMilli(copy, record, 'rpm') - (oldTotal - copy.oldConsumed) - newTotal
        expect({entity, balance: limit.tokensMilli}).toEqual({entity, balance})
        // The old item is true as well, for clients that go back to it.
        const oldBalance = 60_000n + client.refilledMilli - oldTotal - newTotal
        if (layout === 'composite') expect(readBigInt(old, 'b_rpm_tk')).toBe(oldBalance)
        // S7: time never went back.
        expect(record.state.refilledAtMs).toBeGreaterThanOrEqual(copy.state.refilledAtMs)

        const admissions = traffic.admissions.get(entity) ?? []
        const consumed = admissions.reduce((sum, [, , tokens]) => sum + tokens, 0)
        expect(consumed).toBeGreaterThan(3 * LIMIT.capacity)
        // S1: at most what one side can admit before it hears of the other, which is no more than one capacity.
        expect(largestExcess(admissions, LIMIT)).toBeLessThanOrEqual(LIMIT.capacity)
        expect(scene.nowMs - scene.population.nowMs).toBeGreaterThan(160_000)
      }
    })
  })
})
