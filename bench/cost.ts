import {randomBytes} from 'node:crypto'
import {createAggregator} from '../src/lib/aggregator/aggregator.js'
import {DEFAULT_SETTINGS} from '../src/lib/aggregator/environment.js'
import {rollUpFromStart} from '../src/lib/aggregator/rollup/plan.js'
import type {StreamRecord} from '../src/lib/aggregator/stream-event.js'
import {resolveConnection} from '../src/lib/dynamo/connection.js'
import {ConditionFailed} from '../src/lib/dynamo/errors.js'
import type {Transport} from '../src/lib/dynamo/transport.js'
import {createTransport} from '../src/lib/dynamo/transports/create.js'
import {RECORDS_PER_CALL} from '../src/lib/insight/cost/parts.js'
import type {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import {TestClock} from '../src/lib/local/testing/index.js'
import type {NamespaceTable} from '../src/lib/repository/table/table.js'
import type {Item} from '../src/lib/schema/attribute-value.js'
import {DetailedMeter, type DetailedTotals} from './detailed-meter.js'
import {openEnvironment} from './environment.js'
import {machineLine, numberOption, option, say, short, textTable} from './report.js'

/**
 * Measures the cost of decisions in DynamoDB units, as the engine counts them, and in dollars, for limiter and aggregator. See
 * bench/README.md. `--quick` makes a fifth of the decisions, `--batch 500` sets the records per batch, `--spread 100000` the
 * number of spread buckets.
 */
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
const isQuick = process.argv.includes('--quick')
/** Default: as in a new stack at 100 records a second, where the batch is full before its 30 s are over. */
const BATCH = numberOption('batch', RECORDS_PER_CALL)
const DECISIONS = isQuick ? 600 : 3000
const BUCKETS = isQuick ? 200 : 1000
const SPREAD = numberOption('spread', DECISIONS)
/** Leases that hold quota tokens at the same time. */
const HELD = 100
const HOUR_MS = 3_600_000
const FOUR_LEVELS = [
  ['child', 'user'],
  ['user', 'team'],
  ['team', 'org'],
] as const
const DAY_MS = 24 * HOUR_MS

/** Dollars per million units on demand in us-east-1: https://aws.amazon.com/dynamodb/pricing/on-demand/ */
const PRICE = {read: 0.125, write: 0.625}

const environment = await openEnvironment(option('engine') === 'dynamodb-local' ? {engine: 'dynamodb-local'} : {})
const meter = new DetailedMeter()
const metered = createTransport({
  connection: resolveConnection({endpointUrl: environment.endpoint}, {}),
  clock: Date.now,
  meterCapacity: true,
  onResponse: meter.observe,
})

/** Collects stream records of bucket writes. Works only for sequential requests. */
class Stream implements Transport {
  readonly records: StreamRecord[] = []
  /** Refused writes: engines do not report their units, but DynamoDB charges one each. */
  refusedWrites = 0
  readonly #images = new Map<string, Item>()
  readonly #clock: () => number

  constructor(clock: () => number = Date.now) {
    this.#clock = clock
  }

  readonly send: Transport['send'] = async (operation, input, options) => {
    try {
      return await metered.send(operation, input, options)
    } catch (error) {
      if (error instanceof ConditionFailed) this.refusedWrites++
      throw error
    } finally {
      const {TableName, Key} = input as {TableName: string; Key?: Item}
      if (operation === 'UpdateItem' && JSON.stringify(Key?.PK).includes('/BUCKET#'))
        await this.#capture(TableName, Key as Item)
    }
  }

  async #capture(TableName: string, Key: Item): Promise<void> {
    const id = JSON.stringify(Key)
    const OldImage = this.#images.get(id)
    const {Item: NewImage} = await environment.transport.send('GetItem', {TableName, Key, ConsistentRead: true})
    if (!NewImage || JSON.stringify(OldImage) === JSON.stringify(NewImage)) return
    this.#images.set(id, NewImage)
    this.records.push({
      eventName: OldImage ? 'MODIFY' : 'INSERT',
      eventSourceARN: 'arn:aws:dynamodb:::table/bench/stream/2026-01-01T00:00:00.000',
      dynamodb: {
        ...{ApproximateCreationDateTime: this.#clock() / 1000, Keys: Key, NewImage, OldImage},
        SequenceNumber: String(++sequence),
      },
    })
  }
}
let sequence = 1000

interface Scenario {
  readonly name: string
  /** Decisions before the measurement. */
  readonly warmUp: number
  /** Default: the same number for all scenarios. */
  readonly decisions?: number
  /** An hour passes before the measurement, and another limiter without known buckets takes over. */
  readonly isTakenOver?: boolean
  /** Time between two decisions, in ms. */
  readonly apartMs?: number
  /** In addition to the usual limits. */
  readonly inFlight?: readonly string[]
  readonly options?: Parameters<typeof environment.limiter>[1]
  readonly decide: (limiter: RateLimiter, number: number) => Promise<unknown>
  readonly prepare?: (tenant: NamespaceTable) => Promise<void>
}

const consume = {rpm: 1, tpm: 500}
const ask = (entity: string) => ({entity, resource: 'gpt-4', consume})
const SCENARIOS: readonly Scenario[] = [
  {name: 'hot: one bucket', warmUp: 5, decide: limiter => limiter.acquire(ask('user'))},
  {
    name: 'one bucket, every 31 s',
    warmUp: 5,
    // Stays within an hour; every decision compares the limits with the configuration.
    ...{decisions: 100, apartMs: 31_000},
    decide: limiter => limiter.acquire(ask('user')),
  },
  {
    name: `even: ${BUCKETS} buckets in turn`,
    warmUp: BUCKETS,
    decide: (limiter, number) => limiter.acquire(ask(`user-${number % BUCKETS}`)),
  },
  {
    name: 'spread: a new bucket each',
    warmUp: 0,
    decisions: SPREAD,
    decide: (limiter, number) => limiter.acquire(ask(`user-${number}`)),
  },
  {
    name: 'spread: first of the hour',
    warmUp: SPREAD,
    decisions: SPREAD,
    isTakenOver: true,
    decide: (limiter, number) => limiter.acquire(ask(`user-${number % SPREAD}`)),
  },
  {
    name: 'cascade, settled',
    warmUp: 5,
    prepare: tenant => environment.addEntity(tenant, 'child', 'team'),
    decide: async limiter => {
      const lease = await limiter.acquire(ask('child'))
      await lease.adjust({tpm: -100})
    },
  },
  {
    name: 'four levels, settled',
    warmUp: 5,
    prepare: async tenant => {
      await environment.chargeAllLevels(tenant)
      for (const [entity, parent] of FOUR_LEVELS) await environment.addEntity(tenant, entity, parent)
    },
    decide: async limiter => {
      const lease = await limiter.acquire(ask('child'))
      await lease.adjust({tpm: -100})
    },
  },
  {
    name: 'cascade, settled soon',
    warmUp: 5,
    prepare: tenant => environment.addEntity(tenant, 'child', 'team'),
    decide: async limiter => {
      const lease = await limiter.acquire({...ask('child'), settle: 'soon'})
      await lease.adjust({tpm: -100})
    },
  },
  {
    name: 'with a slot, returned soon',
    warmUp: 5,
    inFlight: ['parallel=20/inflight'],
    decide: async limiter => (await limiter.acquire({...ask('user'), settle: 'soon'})).commit(),
  },
  {
    name: 'with a slot, returned alone',
    warmUp: 5,
    inFlight: ['parallel=20/inflight'],
    decide: async limiter => (await limiter.acquire(ask('user'))).commit(),
  },
  {
    name: 'half refused, each by a call',
    warmUp: 5,
    options: {denyCacheMs: 0},
    decide: (limiter, number) =>
      number % 2 === 0
        ? limiter.acquire(ask('user'))
        : limiter.acquire({...ask('user'), consume: {tpm: 99_999_999}}).catch(() => {}),
  },
]

async function play(scenario: Scenario): Promise<string[][]> {
  const {name, warmUp, decisions = DECISIONS, isTakenOver = false, apartMs = 0, options, decide, prepare} = scenario
  const {inFlight = []} = scenario
  // Starts at noon, so that no day ends and is rolled up within the hour.
  let aheadMs = isTakenOver || apartMs > 0 ? Math.floor(Date.now() / DAY_MS) * DAY_MS + DAY_MS / 2 - Date.now() : 0
  const clock = () => Date.now() + aheadMs
  const stream = new Stream(clock)
  const tenant = {...environment.newTenant(), transport: stream}
  await environment.configure(tenant, {level: 'system'}, 'rpm=1M', 'tpm=100M', ...inFlight)
  await prepare?.(tenant)
  const newLimiter = () => environment.limiter(tenant, {transport: stream, clock, ...options})
  let limiter = newLimiter()
  const table = {name: tenant.name, transport: metered, clock, randomBytes, backoff: tenant.backoff}
  const aggregator = createAggregator({table, log: () => {}})
  const deliver = async () => {
    for (const records = stream.records.splice(0); records.length > 0; )
      await aggregator.handle({Records: records.splice(0, BATCH)})
  }
  for (let number = 0; number < warmUp; number++) await decide(limiter, number)
  await deliver()
  if (isTakenOver) {
    await limiter.close()
    aheadMs += HOUR_MS
    limiter = newLimiter()
  }
  const before = meter.snapshot()
  stream.refusedWrites = 0
  for (let number = warmUp; number < warmUp + decisions; number++) {
    aheadMs += apartMs
    await decide(limiter, number)
  }
  await limiter.close()
  const decided = meter.snapshot()
  const ofLimiter = meter.since(before)
  await deliver()
  return [row(name, decisions, ofLimiter, stream.refusedWrites), row('  its usage', decisions, meter.since(decided))]
}

function row(
  name: string,
  decisions: number,
  {read, write: reported, of}: DetailedTotals,
  refusedWrites = 0,
): string[] {
  const write = reported + refusedWrites
  const indexes = ['GSI1', 'GSI2', 'GSI3', 'GSI4'].map(index => of(index).write)
  const own = write - indexes.reduce((a, b) => a + b, 0)
  const dollars = (read * PRICE.read + write * PRICE.write) / decisions
  return [name, ...[read, own, ...indexes].map(units => short(units / decisions)), `$${dollars.toFixed(2)}`]
}

/** Cost of a bucket per day and month beyond its hours, independent of traffic. */
async function rollUps(): Promise<string[] | undefined> {
  const stream = new Stream()
  const tenant = {...environment.newTenant(), transport: stream}
  await environment.configure(tenant, {level: 'system'}, 'rpm=1M', 'tpm=100M')
  const limiter = environment.limiter(tenant, {transport: stream})
  const count = 100
  for (let number = 0; number < count; number++) await limiter.acquire(ask(`user-${number}`))
  await limiter.close()
  let aheadMs = 0
  const clock = () => Date.now() + aheadMs
  const table = {name: tenant.name, transport: metered, clock, randomBytes, backoff: tenant.backoff}
  const aggregator = createAggregator({table, log: () => {}})
  await aggregator.handle({Records: stream.records.splice(0)})
  if (!('tick' in aggregator)) return undefined
  const before = meter.snapshot()
  aheadMs = 45 * DAY_MS
  for (let turn = 0; turn < 40; turn++) {
    aheadMs += 61_000
    await aggregator.tick()
  }
  const {read, write} = meter.since(before)
  const dollars = (read * PRICE.read + write * PRICE.write) / count
  return [short(read / count), short(write / count), `$${dollars.toFixed(2)}`]
}

/** Of a process that holds a slot for an hour. */
async function beats(): Promise<string[]> {
  const time = new TestClock()
  const tenant = environment.newTenant()
  await environment.configure(tenant, {level: 'system'}, 'parallel=20/inflight')
  const {clock, sleep, timers} = time
  const limiter = environment.limiter(tenant, {transport: time.counting(metered), clock, sleep, timers})
  const lease = await limiter.acquire({...ask('user'), consume: {}})
  const before = meter.snapshot()
  await time.pass(HOUR_MS)
  const {read, write} = meter.since(before)
  await lease.commit()
  await limiter.close()
  return [...[read, write].map(short), `$${((write * 24 * 30 * PRICE.write) / 1e6).toFixed(2)}`]
}

/** Per lease that reserves tokens of a quota for five seconds: it ends, or its process dies and another returns them. */
async function reservations(): Promise<string[][]> {
  const time = new TestClock()
  const tenant = environment.newTenant()
  await environment.configure(tenant, {level: 'system'}, 'tpd=1M/day@UTC')
  let isKilled = false
  const counting = time.counting(metered)
  const mortal: Transport = {send: (...call) => (isKilled ? new Promise(() => {}) : counting.send(...call))}
  const {clock, sleep, timers} = time
  const limiter = environment.limiter(tenant, {transport: mortal, clock, sleep, timers})
  const other = environment.limiter(tenant, {transport: counting, clock, sleep, timers})
  const reserving = {...ask('user'), consume: {tpd: 500}, reserve: true}
  for (const each of [limiter, other]) await (await each.acquire(reserving)).rollback()
  const hold = async () => {
    const leases = []
    for (let number = 0; number < HELD; number++) leases.push(await limiter.acquire(reserving))
    await time.pass(5000)
    return leases
  }
  const start = meter.snapshot()
  for (const lease of await hold()) await lease.commit()
  const ended = meter.since(start)
  await hold()
  isKilled = true
  const dead = meter.snapshot()
  const looking = await other.acquire(reserving)
  await time.pass(45_000)
  const returned = meter.since(dead)
  await looking.rollback()
  await other.close()
  const rows = [['taken, stored and committed', ended] as const, ['returned by another process', returned] as const]
  return rows.map(([name, {read, write}]) => [name, short(read / HELD), short(write / HELD)])
}

/** Of runs of an entity without a parent, after its first one. */
async function runs(): Promise<string[][]> {
  const tenant = environment.newTenant()
  await environment.configure(tenant, {level: 'system'}, 'tpd=1M/day@UTC')
  const limiter = environment.limiter(tenant, {transport: metered})
  const asked = {entity: 'user', resource: 'llm', amounts: {tpd: 100}, for: '1h'}
  await limiter.delegate(asked).then(run => run.end())
  const rows: string[][] = []
  const measured = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const before = meter.snapshot()
    const result = await work()
    const {read, write} = meter.since(before)
    rows.push([name, short(read), short(write)])
    return result
  }
  const run = await measured('delegate', () => limiter.delegate(asked))
  await measured('first acquire', () => run.acquire({consume: {tpd: 1}}))
  await run.acquire({consume: {tpd: 1}})
  await measured('further acquire', () => run.acquire({consume: {tpd: 1}}))
  const sub = await measured('delegate to a sub-run', () => run.delegate({amounts: {tpd: 1}}))
  await measured('end of the sub-run', () => sub.end())
  await measured('end', () => run.end())
  await limiter.close()
  return rows
}

try {
  say(machineLine(environment.engineName))
  say(`units per decision, dollars per million decisions; ${DECISIONS} decisions, ${BATCH} records per batch\n`)
  // As in a new table of `deploy` or `local up`.
  await rollUpFromStart(environment.newTenant(), DEFAULT_SETTINGS)
  // Must run first: later the agenda has the windows of all scenarios.
  const rolled = await rollUps()
  const rows: string[][] = []
  for (const scenario of SCENARIOS) rows.push(...(await play(scenario)))
  say(textTable(['', 'reads', 'writes', 'GSI1', 'GSI2', 'GSI3', 'GSI4', 'per million'], rows))
  say('\na process that holds slots, beside its requests')
  say(textTable(['', 'reads', 'writes', '30 days'], [['an hour of beats', ...(await beats())]]))
  say('\nper lease that reserves tokens of a quota for five seconds')
  say(textTable(['', 'reads', 'writes'], await reservations()))
  say('\na run, with all indexes')
  say(textTable(['', 'reads', 'writes'], await runs()))
  if (rolled) {
    say('\nper bucket with one hour of use: its day and its month, rolled up')
    say(textTable(['', 'reads', 'writes', 'per million'], [['day and month', ...rolled]]))
  }
} finally {
  await metered.close()
  await environment.close()
}
