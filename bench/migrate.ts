import {randomBytes} from 'node:crypto'
import {batchWrite} from '../src/lib/dynamo/batch.js'
import {resolveConnection} from '../src/lib/dynamo/connection.js'
import {ConditionFailed} from '../src/lib/dynamo/errors.js'
import {scanPages} from '../src/lib/dynamo/paging.js'
import {sleepMs} from '../src/lib/dynamo/retry.js'
import {createTable, loadTableDefinition} from '../src/lib/dynamo/table-definition.js'
import type {Transport} from '../src/lib/dynamo/transport.js'
import {createTransport} from '../src/lib/dynamo/transports/create.js'
import {startEngine} from '../src/lib/local/engines/engine.js'
import {migrateTable} from '../src/lib/migrate/run.js'
import {verifyMigration} from '../src/lib/migrate/verify-migration.js'
import type {Table} from '../src/lib/repository/table/table.js'
import {type Item, n, s} from '../src/lib/schema/attribute-value.js'
import {DetailedMeter, type DetailedTotals} from './detailed-meter.js'
import {cpuSecondsOf} from './measure.js'
import {machineLine, numberOption, say, short, textTable} from './report.js'

/**
 * Measures speed and memory of migrating a table of 0.8, against bare puts of the same items and against the migration's own
 * writes. See bench/README.md. `--items 200000` for more items.
 */
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
const ITEMS = numberOption('items', 20_000)
const ITEMS_PER_ENTITY = 10

/** Per entity: itself, two buckets, four hours of usage, three audit events. */
function* oldItems(nowMs: number): Generator<Item, void> {
  const ttl = n(Math.floor(nowMs / 1000) + 86_400)
  for (let index = 0; index < ITEMS / ITEMS_PER_ENTITY; index++) {
    const entity = `user-${index}`
    const PK = s(`ENTITY#${entity}`)
    const common = {PK, entity_id: s(entity)}
    yield {
      ...common,
      SK: s('#META'),
      name: s(entity),
      parent_id: {NULL: true},
      metadata: {M: {}},
      created_at: s('2026-01-01T00:00:00Z'),
    }
    for (const resource of ['gpt-4', 'gpt-5']) {
      const item: Item = {...common, SK: s(`#BUCKET#${resource}`), resource: s(resource), rf: n(nowMs), ttl}
      for (const limit of ['rpm', 'tpm']) {
        Object.assign(item, {
          [`b_${limit}_tk`]: n(70_000),
          [`b_${limit}_cp`]: n(100_000),
          [`b_${limit}_bx`]: n(150_000),
        })
        Object.assign(item, {[`b_${limit}_ra`]: n(100_000), [`b_${limit}_rp`]: n(60_000), [`b_${limit}_tc`]: n(30_000)})
      }
      yield {...item, GSI2PK: s(`RESOURCE#${resource}`), GSI2SK: s(`BUCKET#${entity}`)}
    }
    for (const hour of ['03', '07', '11', '15']) {
      const start = `2026-01-02T${hour}:00:00Z`
      const counters = {rpm: n(5), tpm: n(500), total_events: n(10)}
      const window = {window: s('hourly'), window_start: s(start), resource: s('gpt-4')}
      yield {
        ...common,
        SK: s(`#USAGE#gpt-4#${start}`),
        ...window,
        ...counters,
        ttl,
        GSI2PK: s('RESOURCE#gpt-4'),
        GSI2SK: s(`USAGE#${start}#${entity}`),
      }
    }
    for (const event of ['A', 'B', 'C']) {
      const id = `01JZ${event}${String(index).padStart(21, '0')}`
      const fields = {
        action: s('limits_set'),
        timestamp: s('2026-01-01T00:00:00Z'),
        details: {M: {}},
        principal: {NULL: true} as const,
      }
      yield {
        PK: s(`AUDIT#${entity}`),
        SK: s(`#AUDIT#${id}`),
        entity_id: s(entity),
        event_id: s(id),
        ...fields,
        resource: s('gpt-4'),
        ttl,
      }
    }
  }
}

interface Timed {
  readonly seconds: number
  readonly cpuSeconds: number
  readonly engineCpuSeconds: number
  readonly peakMb: number
  readonly used: DetailedTotals
}

async function timed(work: () => Promise<unknown>): Promise<Timed> {
  let peak = process.memoryUsage.rss()
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss())
  }, 50)
  const startedMs = performance.now()
  const startedCpu = process.cpuUsage()
  const startedEngineCpu = cpuSecondsOf(engine.pid)
  const before = meter.snapshot()
  await work()
  const {user, system} = process.cpuUsage(startedCpu)
  clearInterval(watch)
  const seconds = (performance.now() - startedMs) / 1000
  const ofEngine = cpuSecondsOf(engine.pid) - startedEngineCpu
  const cpuSeconds = (user + system) / 1_000_000
  return {seconds, cpuSeconds, engineCpuSeconds: ofEngine, peakMb: peak / 2 ** 20, used: meter.since(before)}
}

const engine = await startEngine()
const meter = new DetailedMeter()
const connection = resolveConnection({endpointUrl: engine.endpoint}, {})
const transport = createTransport({connection, clock: Date.now, meterCapacity: true, onResponse: meter.observe})
const backoff = {random: Math.random, sleep: sleepMs}
const tableOf = (name: string): Table => ({name, transport, clock: Date.now, randomBytes, backoff})
const makeTable = async (tableName: string) => {
  await createTable(transport, await loadTableDefinition({tableName, stream: false}))
  return tableOf(tableName)
}
const fill = async ({name}: Table, items: Iterable<Item>) => {
  const requests = (function* () {
    for (const put of items) yield {put}
  })()
  await batchWrite(transport, name, requests, {backoff})
}
/** One conditional request per item, as for records that other clients may write too. */
const putEach = ({name: TableName}: Table, items: readonly Item[]) =>
  sendAll(items.map((Item): Call => ['PutItem', {TableName, Item, ConditionExpression: 'attribute_not_exists(PK)'}]))

type Call = Parameters<Transport['send']>

/** Records the writes of a migration of an equal table, in order. The few transactions are left out. */
async function writesOfMigration(items: Iterable<Item>): Promise<Call[]> {
  const {name} = await makeTable('bench-recorded')
  await fill(tableOf(name), items)
  const calls: Call[] = []
  const recording: Transport = {
    send: (operation, input, options) => {
      if (['PutItem', 'UpdateItem', 'BatchWriteItem'].includes(operation)) calls.push([operation, input])
      return transport.send(operation, input, options)
    },
  }
  await migrate({...tableOf(name), transport: recording})
  return calls
}

function elsewhere(calls: readonly Call[], from: string, {name}: Table): Call[] {
  return calls.map(([operation, input]) => [
    operation,
    JSON.parse(JSON.stringify(input).replaceAll(JSON.stringify(from), JSON.stringify(name))),
  ])
}

/** At the concurrency of a migration. */
async function sendAll(calls: readonly Call[]): Promise<void> {
  const waiting = calls.values()
  const lane = async () => {
    // Writes of the migration's progress may overtake each other; a failed condition takes as long.
    for (const call of waiting) await transport.send(...call).catch(ignoreCondition)
  }
  await Promise.all(Array.from({length: 16}, lane))
}

function ignoreCondition(error: unknown): void {
  if (!(error instanceof ConditionFailed)) throw error
}

const migrate = (table: Table) => migrateTable(table, {owner: 'bench', ourVersion: '0.0.0', stream: false})

/** Awaits `work` before it reads the next page. */
async function scanAll({name: TableName}: Table, work: (items: Item[]) => Promise<void>): Promise<void> {
  for await (const {items} of scanPages(transport, {TableName, Limit: 500}, {backoff})) await work(items)
}

try {
  const [old, bare] = [await makeTable('bench-old'), await makeTable('bench-bare')]
  const nowMs = Date.now()
  await fill(old, oldItems(nowMs))

  const own = await timed(() => scanAll(old, items => fill(bare, items)))
  const single = await makeTable('bench-single')
  const conditional = await timed(() => scanAll(old, items => putEach(single, items)))
  const run = await timed(() => migrate(old))
  let isClean = false
  const check = await timed(async () => {
    isClean = (await verifyMigration(old, {ourVersion: '0.0.0'})).clean
  })

  const recorded = await writesOfMigration(oldItems(nowMs))
  const again = await makeTable('bench-same')
  const waiting = elsewhere(recorded, 'bench-recorded', again)
  const perPage = Math.ceil((500 * waiting.length) / ITEMS)
  const same = await timed(() => scanAll(single, () => sendAll(waiting.splice(0, perPage))))

  say(machineLine(engine.name))
  say(`${ITEMS.toLocaleString('en-US')} old items; compared clean: ${isClean ? 'yes' : 'NO'}\n`)
  const cpu = (timing: Timed) => timing.cpuSeconds + timing.engineCpuSeconds
  const percent = (part: number, whole: number) => `${short((100 * part) / whole)} %`
  const rounds: [string, Timed][] = [
    ['bare: scan and batch put', own],
    ['bare: conditional puts', conditional],
    ['bare: the same writes', same],
    ['migrate run', run],
    ['migrate verify', check],
  ]
  say(
    textTable(
      ['what', 'seconds', 'items/s', 'of bare', 'of same writes', 'own cpu µs/item', 'engine cpu µs/item', 'peak MB'],
      rounds.map(([what, timing]) => [
        what,
        short(timing.seconds),
        short(ITEMS / timing.seconds),
        percent(own.seconds, timing.seconds),
        percent(same.seconds, timing.seconds),
        short((timing.cpuSeconds * 1_000_000) / ITEMS),
        short((timing.engineCpuSeconds * 1_000_000) / ITEMS),
        short(timing.peakMb),
      ]),
    ),
  )
  say(
    `\nby processor time, own and the engine's: ${percent(cpu(own), cpu(run))} of bare, ${percent(cpu(same), cpu(run))} of the same writes`,
  )
  say('\nper 1,000 old items')
  const share = (count: number) => short((1000 * count) / ITEMS)
  const operations = ['Scan', 'Query', 'BatchGetItem', 'BatchWriteItem', 'PutItem', 'UpdateItem', 'TransactWriteItems']
  say(
    textTable(
      ['what', ...operations, 'read units', 'write units'],
      rounds.map(([what, {used}]) => [
        what,
        ...operations.map(operation => share(used.of(operation).calls)),
        share(used.read),
        share(used.write),
      ]),
    ),
  )
} finally {
  await transport.close()
  await engine.stop()
}
