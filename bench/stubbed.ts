import {parseLimits} from '../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../src/lib/limiter/refusal/errors.js'
import type {DecisionEvent} from '../src/lib/limiter/request/decision-event.js'
import type {RateLimiterOptions} from '../src/lib/limiter/request/options.js'
import type {TableSeams} from '../src/lib/repository/table/open-table.js'
import {decodeBucket} from '../src/lib/schema/bucket-record.js'
import {encodeEntity} from '../src/lib/schema/entity-record.js'
import {type Measured, measure, median} from './measure.js'
import {short, textTable} from './report.js'
import {idOf, type StubWire, stubWire} from './stub-wire.js'

const BUCKETS = 64
const RESOURCE = 'gpt-4'
const NAMESPACE = 'stubbed'

/** Latency of the wire under one hot bucket, in ms; other rows have none. */
const ROUND_TRIP_MS = 4

interface Row {
  readonly name: string
  readonly atOnce: number
  readonly wire: StubWire
  readonly operation: () => Promise<unknown>
  readonly goal: string
  /** Tokens granted that the table has not charged, or did not have. */
  readonly over?: () => number
}

/** Measures the limiter alone: every call is answered in this process. Every round measures all rows, every other one backwards. */
export async function measureStubbed(rounds: number, durationMs: number): Promise<string> {
  const rows = [
    ...(await usualRows()),
    ...(await usualRows({onDecision: noteDecision}, ', observed', '≤ 1.05 × unobserved')),
    ...(await scarceRows()),
    await hotRow(),
  ]
  const tallies = rows.map(row => ({...row, calls: 0, decisions: 0, measured: [] as Measured[]}))
  for (const {operation, atOnce} of rows) await measure(operation, atOnce, durationMs)
  for (let round = 0; round < rounds; round++) {
    for (const tally of round % 2 === 0 ? tallies : tallies.toReversed()) {
      const callsBefore = tally.wire.calls
      const counted = () => {
        tally.decisions++
        return tally.operation()
      }
      tally.measured.push(await measure(counted, tally.atOnce, durationMs))
      tally.calls += tally.wire.calls - callsBefore
    }
  }
  return textTable(
    ['wire stubbed', 'at once', 'dec./s', 'calls/dec.', 'CPU µs', 'over', 'goal'],
    tallies.map(({name, atOnce, measured, calls, decisions, goal, over}) => {
      const {perSecond, cpuMicros} = median(measured)
      return [
        name,
        String(atOnce),
        short(perSecond),
        short(calls / decisions),
        short(cpuMicros),
        over ? short(over()) : '-',
        goal,
      ]
    }),
  )
}

const told = {calls: 0}

function noteDecision({calls}: DecisionEvent): void {
  told.calls += calls
}

/** Half full, like buckets in use; a full one takes another write. */
async function usualRows(options: RateLimiterOptions = {}, how = '', goal?: string): Promise<Row[]> {
  const {limiter, wire} = stubbed(['rpm=100M/hour', 'tpm=100000M/hour'], options)
  for (let index = 0; index < BUCKETS; index++) {
    const rest = {name: '', cascade: true, metadata: {}, createdAt: '', version: 1}
    const child = encodeEntity({namespace: NAMESPACE, entity: `child-${index}`, parent: `parent-${index}`, ...rest})
    wire.items.set(idOf(child), child)
    for (const entity of [`user-${index}`, `child-${index}`])
      await limiter.acquire({entity, resource: RESOURCE, consume: {rpm: 50_000_000, tpm: 50_000_000_000}})
  }
  const turn = inTurn()
  const acquire = (kind: string) => () =>
    limiter.acquire({entity: `${kind}-${turn()}`, resource: RESOURCE, consume: {rpm: 1, tpm: 500}})
  return [
    {name: `admitted${how}`, atOnce: BUCKETS, wire, operation: acquire('user'), goal: goal ?? '80 µs'},
    {name: `cascade${how}`, atOnce: BUCKETS, wire, operation: acquire('child'), goal: goal ?? '153 µs'},
  ]
}

async function scarceRows(): Promise<Row[]> {
  const rowOf = async (name: string, goal: string, options: RateLimiterOptions = {}): Promise<Row> => {
    const {limiter, wire} = stubbed(['rpm=1/hour'], options)
    const turn = inTurn()
    const operation = async () => {
      const request = {entity: `user-${turn()}`, resource: RESOURCE, consume: {rpm: 1}}
      return limiter.acquire(request).catch(error => {
        if (!(error instanceof RateLimitExceeded)) throw error
      })
    }
    for (let index = 0; index < BUCKETS; index++) await operation()
    return {name, atOnce: BUCKETS, wire, operation, goal}
  }
  return [await rowOf('refused by a call', '-', {denyCacheMs: 0}), await rowOf('refused as known', '10 µs')]
}

async function hotRow(): Promise<Row> {
  const {limiter, wire} = stubbed(['tpm=100M/min'], {}, ROUND_TRIP_MS)
  let granted = 0
  const acquire = async (tpm: number) => {
    await limiter.acquire({entity: 'hot', resource: RESOURCE, consume: {tpm}})
    granted += tpm
  }
  await acquire(50_000_000)
  const over = () => {
    const [bucket] = [...wire.items.values()].flatMap(item => decodeBucket(item) ?? [])
    const limit = bucket?.kind === 'bucket' ? bucket.record.state.limits.get('tpm') : undefined
    const charged = Number(limit?.consumedMilli ?? 0n) / 1000
    return Math.max(0, granted - charged, -Number(limit?.tokensMilli ?? 0n) / 1000)
  }
  const goal = '100,000/s, 0.002 calls, 0 over'
  return {name: 'one hot bucket', atOnce: 1000, wire, operation: () => acquire(1), goal, over}
}

function stubbed(limits: string[], options: RateLimiterOptions & TableSeams = {}, roundTripMs = 0) {
  const wire = stubWire(roundTripMs)
  const place = {stack: 'zael-bench', namespaceId: NAMESPACE, transport: wire} as const
  const limiter = new RateLimiter({
    ...place,
    onUnavailable: 'block',
    maxShards: 1,
    defaultLimits: parseLimits(limits),
    ...options,
  })
  return {limiter, wire}
}

function inTurn(): () => number {
  let next = 0
  return () => next++ % BUCKETS
}
