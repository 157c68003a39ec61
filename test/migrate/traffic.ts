import type {Limit} from '../../src/lib/core/limits/limit.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {RateLimitExceeded} from '../../src/lib/limiter/refusal/errors.js'
import {bucketMarksOf} from '../../src/lib/migrate/records/marks.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {type BucketRecord, decodeBucket} from '../../src/lib/schema/bucket-record.js'
import {seededRandom} from '../limiter/fixtures/seeded-random.js'
import {AddingClient, type OldClient, oldBucketItem, PuttingClient} from './old-clients.js'
import type {OldTableScene} from './old-table-scene.js'

export const LIMIT: Limit = {name: 'rpm', capacity: 100, refillAmount: 100, refillPeriodSeconds: 60}
export const ENTITIES = ['user-1', 'user-2', 'user-3']

/** One configured limit for all entities, and three buckets. */
export const itemsFor =
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

/** Tokens that were admitted at an instant; negative ones were given back. */
export type Admission = [atMs: number, tokens: number]

/** Clients of both layouts that use the same buckets between any two requests of the migration. */
export class Traffic {
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
    this.admissions.get(entity)?.push([this.scene.nowMs, tokens])
  }

  #noteCopy(operation: string, input: unknown): void {
    const item = operation === 'PutItem' ? (input as {Item: Item}).Item : {}
    const stored = 'PK' in item ? decodeBucket(item) : undefined
    if (stored?.kind !== 'bucket' || this.copies.has(stored.record.entity)) return
    const oldConsumed = [...(bucketMarksOf(item).get('rpm')?.values() ?? [])][0]?.oldConsumed ?? 0n
    this.copies.set(stored.record.entity, {...stored.record, oldConsumed})
  }
}

/**
 * S1, exactly: the largest excess of admissions over capacity + rate · time between any two instants. Admissions are in
 * the order of time.
 */
export function excessOf(admissions: readonly Admission[]): number {
  const ratePerMs = LIMIT.refillAmount / (LIMIT.refillPeriodSeconds * 1000)
  let largest = Number.NEGATIVE_INFINITY
  let sum = 0
  let lowest = Number.POSITIVE_INFINITY
  for (const [atMs, tokens] of admissions) {
    lowest = Math.min(lowest, sum - ratePerMs * atMs)
    sum += tokens
    largest = Math.max(largest, sum - ratePerMs * atMs - lowest)
  }
  return largest - LIMIT.capacity
}

/** The most that one side can admit before it sees the other: its balance and its refill. */
export function mostAdmitted(gapMs: number): number {
  return LIMIT.capacity + (gapMs * LIMIT.refillAmount) / (LIMIT.refillPeriodSeconds * 1000)
}
