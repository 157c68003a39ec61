import {ConditionFailed} from '../../src/lib/dynamo/errors.js'
import {ExpressionBuilder} from '../../src/lib/dynamo/expression.js'
import {type AttributeValue, type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import type {Scene} from './limiter.js'

type Tokens = Readonly<Record<string, number>>

/** Writes to one bucket as the Python client and its aggregator do, faults included. */
export class PythonPeer {
  constructor(
    readonly scene: Scene,
    readonly entity = 'user-1',
    readonly resource = 'gpt-4',
  ) {}

  /** The whole item as stored. */
  async item(shard = 0): Promise<Item | undefined> {
    const {transport, name} = this.scene.table
    return (await transport.send('GetItem', {TableName: name, Key: this.#key(shard), ConsistentRead: true})).Item
  }

  /** A number of the item; NaN where there is none. */
  async number(attribute: string, shard = 0): Promise<number> {
    const value = (await this.item(shard))?.[attribute]
    return value && 'N' in value ? Number(value.N) : Number.NaN
  }

  /** The fast path: one unit of wcu with every write, never given back. False when refused. */
  async speculative(amounts: Tokens, shard = 0): Promise<boolean> {
    const e = new ExpressionBuilder()
    for (const [limit, tokens] of Object.entries({...amounts, wcu: 1})) {
      e.add(`b_${limit}_tk`, n(-tokens * 1000)).add(`b_${limit}_tc`, n(tokens * 1000))
      e.condition(`${e.name(`b_${limit}_tk`)} >= ${e.value(n(tokens * 1000))}`)
    }
    const ttl = e.name('ttl')
    e.condition(`attribute_not_exists(${ttl}) OR ${ttl} > ${e.value(n(Math.floor(this.scene.nowMs / 1000)))}`)
    return this.#update(e, shard).then(
      () => true,
      error => {
        if (error instanceof ConditionFailed) return false
        throw error
      },
    )
  }

  /** An acquire of 0.10 by a clock of its own: what is stored if it is enough, otherwise a refill up to that clock. */
  async acquire(limit: string, tokens: number, clockMs: number): Promise<boolean> {
    if (await this.speculative({[limit]: tokens})) return true
    const item = (await this.item()) ?? {}
    const number = (name: string) => Number((item[name] as {N: string} | undefined)?.N)
    const [stored, rf] = [number(`b_${limit}_tk`), number('rf')]
    const earned = (Math.max(0, clockMs - rf) * number(`b_${limit}_ra`)) / number(`b_${limit}_rp`)
    const credit = Math.min(Math.floor(earned), number(`b_${limit}_cp`) - stored)
    if (stored + credit < tokens * 1000) return false
    const e = new ExpressionBuilder().set('rf', n(clockMs)).add(`b_${limit}_tk`, n(credit - tokens * 1000))
    e.add(`b_${limit}_tc`, n(tokens * 1000)).condition(`${e.name('rf')} = ${e.value(n(rf))}`)
    return this.#update(e, 0).then(
      () => true,
      error => {
        if (error instanceof ConditionFailed) return false
        throw error
      },
    )
  }

  /** Refund and adjustment: no condition at all, so on a missing item they leave a stub. */
  async adjust(deltas: Tokens, shard = 0): Promise<void> {
    const e = new ExpressionBuilder()
    for (const [limit, tokens] of Object.entries(deltas)) {
      e.add(`b_${limit}_tk`, n(-tokens * 1000)).add(`b_${limit}_tc`, n(tokens * 1000))
    }
    await this.#update(e, shard)
  }

  /** Doubles the count on shard 0 and creates nothing. */
  async bump(from: number): Promise<void> {
    await this.set({shard_count: n(2 * from)})
  }

  /** The aggregator's answer to a bump: full clones of shard 0, minted. */
  async clone(from: number, to: number, tokens: Tokens): Promise<void> {
    const donor = (await this.item()) as Item
    for (let shard = 1; shard < from; shard++) await this.set({shard_count: n(to)}, shard)
    for (let shard = from; shard < to; shard++) {
      const item: Item = {
        ...donor,
        PK: s(this.#key(shard).PK.S),
        GSI2SK: s(`BUCKET#${this.entity}#${shard}`),
        GSI3SK: s(`BUCKET#${this.resource}#${shard}`),
        GSI4SK: s(`BUCKET#${this.entity}#${this.resource}#${shard}`),
        shard_count: n(to),
        b_wcu_tk: n(1_000_000),
        b_wcu_tc: n(0),
      }
      for (const [limit, share] of Object.entries(tokens)) {
        item[`b_${limit}_tk`] = n(share * 1000)
        item[`b_${limit}_tc`] = n(0)
      }
      await this.scene.table.transport.send('PutItem', {TableName: this.scene.table.name, Item: item})
    }
  }

  /** What param sync stores for one limit: parameters only, on shard 0 only; a new limit gets no balance. */
  async paramSync(limit: string, capacity: number, periodSeconds: number): Promise<void> {
    const e = new ExpressionBuilder()
    e.set(`b_${limit}_cp`, n(capacity * 1000)).set(`b_${limit}_ra`, n(capacity * 1000))
    e.set(`b_${limit}_rp`, n(periodSeconds * 1000))
    e.remove('ttl').condition(`attribute_exists(${e.name('PK')})`)
    await this.#update(e, 0)
  }

  /** Other clients' writes as the item counts them. */
  async countWrites(writes: number, shard = 0): Promise<void> {
    await this.#update(new ExpressionBuilder().add('b_wcu_tc', n(writes * 1000)), shard)
  }

  async set(attributes: Readonly<Record<string, AttributeValue>>, shard = 0): Promise<void> {
    const e = new ExpressionBuilder()
    for (const [name, value] of Object.entries(attributes)) e.set(name, value)
    await this.#update(e, shard)
  }

  async remove(attributes: readonly string[], shard = 0): Promise<void> {
    const e = new ExpressionBuilder()
    for (const name of attributes) e.remove(name)
    await this.#update(e, shard)
  }

  /** TTL deletion, or delete_entity. */
  async vanish(...shards: number[]): Promise<void> {
    const {transport, name} = this.scene.table
    for (const shard of shards) await transport.send('DeleteItem', {TableName: name, Key: this.#key(shard)})
  }

  async #update(e: ExpressionBuilder, shard: number): Promise<void> {
    const {transport, name} = this.scene.table
    await transport.send('UpdateItem', {TableName: name, Key: this.#key(shard), ...e.update()})
  }

  #key(shard: number) {
    return wireKey(keys.bucket(this.scene.namespace, this.entity, this.resource, shard))
  }
}
