import {randomUUID} from 'node:crypto'
import {afterAll, beforeAll} from 'vitest'
import {CapacityMeter} from '../../src/lib/dynamo/capacity.js'
import {scanPages} from '../../src/lib/dynamo/paging.js'
import type {ClosableTransport, Transport} from '../../src/lib/dynamo/transport.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {type CleanUpResult, cleanUp} from '../../src/lib/migrate/cleanup.js'
import {classifyItem, type Generation, type OldRecordType} from '../../src/lib/migrate/records/classify.js'
import {type MigrateOptions, type MigrationResult, migrateTable} from '../../src/lib/migrate/run.js'
import {type Verification, verifyMigration} from '../../src/lib/migrate/verify-migration.js'
import type {Table} from '../../src/lib/repository/table/table.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {connectToEither} from '../helpers/memory-table/use-memory-table.js'
import {PATIENT_MS} from '../helpers/table.js'
import {makePopulation} from './fixtures/make-population.js'
import {makeOldTable, writeItems} from './fixtures/old-table.js'
import type {Population} from './fixtures/population.js'

export const VERSION = '0.3.0'

/** A table of an older layout with data, and a clock that the test moves. */
export class OldTableScene {
  readonly name = `old-${randomUUID()}`
  readonly capacity = new CapacityMeter()
  readonly own: ClosableTransport
  nowMs: number
  /** Transport of all requests; replace it to inject failures. */
  transport: Transport
  /** Pauses return at once by default, and the clock does not move. */
  sleep: (ms: number, signal?: AbortSignal) => Promise<void> = async () => {}

  constructor(
    readonly population: Population,
    connect = connectToEither,
  ) {
    this.nowMs = population.nowMs
    this.own = connect(this.capacity)
    this.transport = this.own
  }

  get table(): Table {
    return {
      name: this.name,
      transport: {send: (...args) => this.transport.send(...args)},
      clock: () => this.nowMs,
      randomBytes: count => crypto.getRandomValues(new Uint8Array(count)),
      backoff: {random: Math.random, sleep: (...pause) => this.sleep(...pause)},
    }
  }

  migrate(options: Partial<MigrateOptions> = {}): Promise<MigrationResult> {
    return migrateTable(this.table, {owner: 'test', ourVersion: VERSION, stream: false, ...options})
  }

  verify(): Promise<Verification> {
    return verifyMigration(this.table, {ourVersion: VERSION})
  }

  cleanUp(): Promise<CleanUpResult> {
    return cleanUp(this.table, {owner: 'test', ourVersion: VERSION, confirm: async () => {}})
  }

  limiter(
    transport: Transport = {send: (...args) => this.transport.send(...args)},
    namespace = 'default',
  ): RateLimiter {
    return new RateLimiter({
      stack: this.name,
      namespace,
      transport,
      clock: () => this.nowMs,
      onUnavailable: 'block',
      timeoutMs: PATIENT_MS,
    })
  }

  /** Everything in the table, by key. */
  async items(): Promise<Item[]> {
    const found: Item[] = []
    const input = {TableName: this.name, ConsistentRead: true}
    for await (const {items} of scanPages(this.own, input, {backoff: this.table.backoff})) found.push(...items)
    return found.sort((a, b) => (keyText(a) < keyText(b) ? -1 : 1))
  }

  /** Number of old and current items of each kind, and of unknown ones. */
  async census(): Promise<{old: Counts; current: Counts; unknown: number}> {
    const census = {old: {} as Counts, current: {} as Counts, unknown: 0}
    for (const item of await this.items()) {
      const record = classifyItem(item, {literalDefaultMoves: true})
      if (record.kind === 'unknown') census.unknown++
      else census[record.kind][record.type] = (census[record.kind][record.type] ?? 0) + 1
    }
    return census
  }
}

type Counts = Partial<Record<OldRecordType | 'namespace' | 'migration' | 'operation', number>>

export const keyText = ({PK, SK}: Item): string => JSON.stringify([PK, SK])

/** A scene for the tests of one `describe`; commands need `connectToEngine`. */
export function useOldTable(
  generation: Generation,
  itemsOf: (population: Population) => readonly Item[],
  population: Population = makePopulation({entities: 4}),
  connect = connectToEither,
): OldTableScene {
  const scene = new OldTableScene(population, connect)
  beforeAll(async () => {
    await makeOldTable({name: scene.name, transport: scene.own}, generation)
    await writeItems({name: scene.name, transport: scene.own}, itemsOf(population))
  })
  afterAll(async () => {
    await scene.own.send('DeleteTable', {TableName: scene.name})
    await scene.own.close()
  })
  return scene
}
