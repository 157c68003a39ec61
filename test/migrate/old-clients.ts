import {ConditionFailed} from '../../src/lib/dynamo/errors.js'
import {ExpressionBuilder} from '../../src/lib/dynamo/expression.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {type Item, n, readBigInt, readNumber, s} from '../../src/lib/schema/attribute-value.js'

/** One limit of one bucket, as clients of older releases use it; keeps a ledger. */
export interface OldClient {
  /** Net millitokens admitted. */
  readonly consumedMilli: bigint
  /** Millitokens that its refills have added to the stored balance. */
  readonly refilledMilli: bigint
  /** Takes tokens if there are enough; reads, computes and writes with all the weaknesses of its release. */
  acquire(tokens: number): Promise<boolean>
}

interface Where {
  readonly transport: Transport
  readonly TableName: string
  readonly clock: () => number
}

/** Of all buckets here, in millitokens: 100 tokens, 100 a minute. */
const RATE = {capacity: 100_000n, amount: 100_000n, periodMs: 60_000n}

function refilled(tokens: bigint, elapsedMs: bigint): bigint {
  const earned = elapsedMs > 0n ? (elapsedMs * RATE.amount) / RATE.periodMs : 0n
  return tokens + earned < RATE.capacity ? tokens + earned : tokens > RATE.capacity ? tokens : RATE.capacity
}

/** 0.7 to 0.10.0: reads, then ADDs refill and consumption under the refill instant it saw. */
export class AddingClient implements OldClient {
  consumedMilli = 0n
  refilledMilli = 0n

  constructor(
    readonly where: Where,
    readonly PK: string,
    readonly limit = 'rpm',
  ) {}

  get key(): Item {
    return {PK: s(this.PK), SK: s('#BUCKET#gpt-4')}
  }

  async acquire(tokens: number): Promise<boolean> {
    const {transport, TableName, clock} = this.where
    const item = (await transport.send('GetItem', {TableName, Key: this.key, ConsistentRead: true})).Item ?? {}
    const stored = readBigInt(item, `b_${this.limit}_tk`) ?? 0n
    const nowMs = clock()
    const seen = readNumber(item, 'rf') ?? 0
    const level = refilled(stored, BigInt(nowMs - seen))
    const need = BigInt(tokens) * 1000n
    if (level < need) return false
    const e = new ExpressionBuilder().set('rf', n(nowMs)).add(`b_${this.limit}_tk`, n(level - stored - need))
    e.add(`b_${this.limit}_tc`, n(need)).condition(`${e.name('rf')} = ${e.value(n(seen))}`)
    if (!(await this.#update(e))) return false
    this.refilledMilli += level - stored
    this.consumedMilli += need
    return true
  }

  /** Refunds an overestimate, or charges more, without a read. */
  async adjust(tokens: number): Promise<void> {
    const milli = BigInt(tokens) * 1000n
    await this.#update(new ExpressionBuilder().add(`b_${this.limit}_tk`, n(-milli)).add(`b_${this.limit}_tc`, n(milli)))
    this.consumedMilli += milli
  }

  async #update(e: ExpressionBuilder): Promise<boolean> {
    const {transport, TableName} = this.where
    try {
      await transport.send('UpdateItem', {TableName, Key: this.key, ...e.update()})
      return true
    } catch (error) {
      if (error instanceof ConditionFailed) return false
      throw error
    }
  }
}

/** 0.1 to 0.6: reads, reckons and puts the whole item back, whatever happened in between. */
export class PuttingClient implements OldClient {
  consumedMilli = 0n
  refilledMilli = 0n

  constructor(
    readonly where: Where,
    readonly PK: string,
    readonly limit = 'rpm',
  ) {}

  async acquire(tokens: number): Promise<boolean> {
    const {transport, TableName, clock} = this.where
    const Key = {PK: s(this.PK), SK: s(`#BUCKET#gpt-4#${this.limit}`)}
    const item = (await transport.send('GetItem', {TableName, Key, ConsistentRead: true})).Item ?? {}
    const stored = readBigInt(item, 'tokens_milli') ?? 0n
    const nowMs = clock()
    const level = refilled(stored, BigInt(nowMs - (readNumber(item, 'last_refill_ms') ?? 0)))
    const need = BigInt(tokens) * 1000n
    if (level < need) return false
    const total = readBigInt(item, 'total_consumed_milli') ?? 0n
    const after = {tokens_milli: n(level - need), last_refill_ms: n(nowMs), total_consumed_milli: n(total + need)}
    await transport.send('PutItem', {TableName, Item: {...item, ...after}})
    this.refilledMilli += level - stored
    this.consumedMilli += need
    return true
  }
}

/** A bucket that holds so many tokens, one item for all limits or one for each. */
export function oldBucketItem(PK: string, tokens: number, atMs: number, layout: 'composite' | 'per limit'): Item {
  const tail = layout === 'composite' ? '' : '#rpm'
  const common = {
    PK: s(PK),
    SK: s(`#BUCKET#gpt-4${tail}`),
    entity_id: s(PK.slice(PK.indexOf('#') + 1)),
    resource: s('gpt-4'),
  }
  if (layout === 'per limit') {
    return {
      ...common,
      limit_name: s('rpm'),
      tokens_milli: n(tokens * 1000),
      last_refill_ms: n(atMs),
      capacity_milli: n(RATE.amount),
      burst_milli: n(RATE.capacity),
      refill_amount_milli: n(RATE.amount),
      refill_period_ms: n(RATE.periodMs),
      total_consumed_milli: n(0),
    }
  }
  return {
    ...common,
    rf: n(atMs),
    b_rpm_tk: n(tokens * 1000),
    b_rpm_cp: n(RATE.amount),
    b_rpm_bx: n(RATE.capacity),
    b_rpm_ra: n(RATE.amount),
    b_rpm_rp: n(RATE.periodMs),
    b_rpm_tc: n(0),
  }
}
