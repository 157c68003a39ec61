import {afterAll, beforeAll} from 'vitest'
import type {BatchResult} from '../../src/lib/aggregator/batch.js'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {ZaelError} from '../../src/lib/core/errors.js'
import type {RateLimiterOptions} from '../../src/lib/limiter/request/options.js'
import {type NamespaceRepository, Repository} from '../../src/lib/repository/repository.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {loggingAggregator, streamRecord, tableOver} from '../aggregator/fixtures/stream.js'
import {Scene} from '../helpers/limiter.js'
import {type TestTable, useTable} from '../helpers/table.js'
import {type PythonClient, PythonProcess, type Release} from './python-client.js'

/** A table and a Python client for the tests of one `describe`; Python's by-resource reads need whole items. */
export function usePeers(release: Release): Peers {
  return new Peers(release, useTable({resourceIndex: 'ALL'}))
}

let names = 0

/** A table with one process of the Python client beside it, for the tests of one `describe`. */
class Peers {
  #python: PythonProcess | undefined

  constructor(
    readonly release: Release,
    readonly table: TestTable,
  ) {
    beforeAll(() => {
      this.#python = new PythonProcess(release)
    })
    afterAll(() => this.#python?.[Symbol.asyncDispose]())
  }

  get python(): PythonProcess {
    if (!this.#python) throw new Error('the Python client runs inside tests only')
    return this.#python
  }

  /** A namespace that the Python client has registered, at a fixed instant. */
  async scene(): Promise<PeerScene> {
    const name = `peer-${++names}`
    return this.#sceneOf(await this.python.open(this.table.name, name))
  }

  /** A stack whose Python parts are all of 0.17: then the client allows all of its features. */
  async currentScene(): Promise<PeerScene> {
    const scene = await this.scene()
    const record = {schema_version: '0.10.0', lambda_version: '0.17.0', updated_by: 'deploy:0.17.0'}
    await scene.client.repository('set_version_record', record)
    return scene
  }

  async #sceneOf(client: PythonClient): Promise<PeerScene> {
    const scene = new PeerScene(this.table, client)
    await scene.at(scene.nowMs)
    return scene
  }
}

/** zael's responses to a number of requests, with error codes. */
interface Asked {
  readonly admitted: number
  readonly refused: number
  readonly errors: readonly string[]
}

/** One namespace with the Python client and zael, with one clock for both. */
export class PeerScene extends Scene {
  override readonly namespace: string
  #sequence = 0

  constructor(
    table: TestTable,
    readonly client: PythonClient,
  ) {
    super(table)
    this.namespace = client.namespaceId
  }

  /** Sets the clock of both clients. */
  async at(ms: number): Promise<void> {
    this.nowMs = ms
    await this.client.process.setClock(ms)
  }

  /** Advances the clock of both. */
  async pass(ms: number): Promise<void> {
    await this.at(this.nowMs + ms)
  }

  /** zael's repository of the namespace. */
  get repository(): NamespaceRepository {
    const {transport, name: stack} = this.table
    return new Repository({stack, transport, clock: () => this.nowMs}).namespaceById(this.namespace)
  }

  /** Successive requests to zael from a new process. */
  async ask(
    entity: string,
    resource: string,
    consume: Readonly<Record<string, number>>,
    times = 1,
    options: RateLimiterOptions = {},
  ): Promise<Asked> {
    await using limiter = this.limiter(options)
    const asked = {admitted: 0, refused: 0, errors: new Set<string>()}
    for (let i = 0; i < times; i++) {
      try {
        const {admitted} = await limiter.tryAcquire({entity, resource, consume})
        asked[admitted ? 'admitted' : 'refused']++
      } catch (error) {
        if (!(error instanceof ZaelError)) throw error
        asked.errors.add(error.code)
      }
    }
    return {...asked, errors: [...asked.errors]}
  }

  /** All items of the namespace, by key. */
  async items(): Promise<Map<string, Item>> {
    const items = new Map<string, Item>()
    let ExclusiveStartKey: Item | undefined
    do {
      const page = await this.table.transport.send('Scan', {
        TableName: this.table.name,
        ConsistentRead: true,
        ...(ExclusiveStartKey && {ExclusiveStartKey}),
      })
      for (const item of page.Items ?? []) {
        const {PK, SK} = item as {PK: {S: string}; SK: {S: string}}
        if (PK.S.startsWith(`${this.namespace}/`)) items.set(`${PK.S} ${SK.S}`, item)
      }
      ExclusiveStartKey = page.LastEvaluatedKey
    } while (ExclusiveStartKey)
    return items
  }

  /** One shard of a bucket as stored. */
  async bucketItem(entity: string, resource: string, shard = 0): Promise<Item> {
    const Key = wireKey(keys.bucket(this.namespace, entity, resource, shard))
    const {Item} = await this.table.transport.send('GetItem', {TableName: this.table.name, Key, ConsistentRead: true})
    return Item ?? {}
  }

  /** The stream records of some work: one per item, with the images before and after it. */
  async changes(work: () => Promise<unknown>): Promise<StreamRecord[]> {
    const before = await this.items()
    await work()
    const records: StreamRecord[] = []
    for (const [key, after] of await this.items()) {
      const earlier = before.get(key)
      if (JSON.stringify(sorted(earlier)) === JSON.stringify(sorted(after))) continue
      records.push(streamRecord(earlier, after, {atMs: this.nowMs, sequence: ++this.#sequence}))
    }
    return records
  }

  /** zael's aggregator on stream records; a new one by default. */
  aggregate(records: readonly StreamRecord[], aggregator = this.aggregator()): Promise<BatchResult> {
    return aggregator.handle({Records: [...records]})
  }

  aggregator(): ReturnType<typeof loggingAggregator> {
    return loggingAggregator({table: tableOver(this.table.transport, this.table.name, () => this.nowMs)})
  }
}

function sorted(item: Item | undefined): unknown {
  return item && Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1))
}
