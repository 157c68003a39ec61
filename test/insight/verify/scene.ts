import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {type Window, windowStart} from '../../../src/lib/core/window.js'
import {repairFindings} from '../../../src/lib/insight/verify/finding.js'
import {type VerifyTableOptions, verifyTable} from '../../../src/lib/insight/verify/verify.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {openTable} from '../../../src/lib/repository/table/open-table.js'
import type {NamespaceTable} from '../../../src/lib/repository/table/table.js'
import type {Item, Key} from '../../../src/lib/schema/attribute-value.js'
import {keyOf, wireKey} from '../../../src/lib/schema/keys.js'
import {encodeUsage, usageMark} from '../../../src/lib/schema/usage-record.js'
import type {TestTable} from '../../helpers/table.js'

const HOUR_MS = 3_600_000
const NAMESPACE = 'default'

/** A namespace with limits at every level, a family, a bucket with shards, and usage; nothing is wrong with it. */
export class VerifyScene {
  readonly repository: Repository
  readonly table: NamespaceTable
  readonly startMs: number

  private constructor(repository: Repository, table: NamespaceTable) {
    this.repository = repository
    this.table = table
    this.startMs = Date.parse(windowStart('daily', Date.now())) - 24 * HOUR_MS
  }

  static async open(testTable: TestTable): Promise<VerifyScene> {
    const options = {stack: testTable.name, transport: testTable.transport}
    const repository = new Repository(options)
    const {namespace} = await repository.namespaces.register(NAMESPACE)
    const {table} = openTable(options)
    // Looks follow each other at once: nothing else writes.
    const still = {...table, namespace: namespace.id, backoff: {...table.backoff, sleep: async () => {}}}
    const scene = new VerifyScene(repository, still)
    await scene.#fill()
    return scene
  }

  async #fill(): Promise<void> {
    const {table} = this
    const namespace = this.repository.namespaceById(table.namespace)
    await namespace.configs.set({level: 'system'}, [parseLimit('rpm=100/min')])
    await namespace.configs.set({level: 'resource', resource: 'gpt-4'}, ['rpm=60/min', 'tpm=10k/min'].map(parseLimit))
    await namespace.configs.set({level: 'entity', entity: 'user-1', resource: 'gpt-4'}, [parseLimit('tpm=20k/min')])
    await namespace.entities.create({id: 'team-1'})
    await namespace.entities.create({id: 'user-1', parent: 'team-1', cascade: true})
    await namespace.entities.create({id: 'user-2'})
    const limiter = new RateLimiter({stack: table.name, transport: table.transport, namespace: NAMESPACE})
    await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {tpm: 400}})
    await limiter.acquire({entity: 'user-2', resource: 'gpt-4', consume: {rpm: 1, tpm: 7}})
    await limiter.close()
    await splitBucket(table, 'user-1', 'gpt-4', 1)
    // 100 in each of two hours yesterday, counted up to the same position of the stream.
    for (const hour of [3, 4]) await this.putUsage('hourly', this.startMs + hour * HOUR_MS, 100, `s#${hour}`)
    await this.putUsage('daily', this.startMs, 200, 's#4')
    await this.putUsage('monthly', this.startMs, 200, 's#4')
  }

  async putUsage(window: Window, atMs: number, tokens: number, mark: string, entity = 'user-1'): Promise<void> {
    const item = encodeUsage({
      namespace: this.table.namespace,
      entity,
      resource: 'gpt-4',
      window,
      start: windowStart(window, atMs),
      tokens: new Map([['tpm', tokens]]),
      totalEvents: Math.ceil(tokens / 100),
      ttlSeconds: undefined,
    })
    await this.put({...item, [usageMark(0)]: {S: mark}})
  }

  async put(Item: Item): Promise<void> {
    await this.table.transport.send('PutItem', {TableName: this.table.name, Item})
  }

  async get(key: Key): Promise<Item> {
    const {Item} = await this.table.transport.send('GetItem', {TableName: this.table.name, Key: wireKey(key)})
    if (!Item) throw new Error(`no item ${key.PK} ${key.SK}`)
    return Item
  }

  /** Changes attributes as a faulty client would; `undefined` removes one. */
  async change(key: Key, changes: {[name: string]: Item[string] | undefined}): Promise<void> {
    const item = {...(await this.get(key)), ...changes}
    await this.put(Object.fromEntries(Object.entries(item).filter(([, value]) => value !== undefined)) as Item)
  }

  async delete(key: Key): Promise<void> {
    await this.table.transport.send('DeleteItem', {TableName: this.table.name, Key: wireKey(key)})
  }

  async findings(options: VerifyTableOptions = {}) {
    return (await verifyTable(this.table, options)).findings
  }

  async repair() {
    const findings = await this.findings()
    return repairFindings(this.table, findings, {principal: 'tester'})
  }

  /** Empties the table. */
  async clear(): Promise<void> {
    const {Items = []} = await this.table.transport.send('Scan', {TableName: this.table.name})
    for (const item of Items) await this.delete(keyOf(item))
  }
}
