import {parseLimits} from '../src/lib/core/syntax/limit-text.js'
import {RateLimitExceeded} from '../src/lib/limiter/errors.js'
import type {LimiterSeams, RateLimiterOptions} from '../src/lib/limiter/options.js'
import {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import {encodeEntity} from '../src/lib/schema/entity-record.js'
import {measure, median} from './measure.js'
import {short, textTable} from './report.js'
import {idOf, type StubWire, stubWire} from './stub-wire.js'

const BUCKETS = 64
const RESOURCE = 'gpt-4'
const NAMESPACE = 'stubbed'

/** Of the wire below one hot bucket, in ms; elsewhere it answers at once. */
const ROUND_TRIP_MS = 4

interface Row {
  readonly name: string
  readonly atOnce: number
  readonly wire: StubWire
  readonly operation: () => Promise<unknown>
  readonly goal: string
}

/** The limiter's own work: every call is answered in this process, without a table behind it. */
export async function measureStubbed(rounds: number, durationMs: number): Promise<string> {
  const rows: string[][] = []
  for (const {name, atOnce, wire, operation, goal} of [
    ...(await usualRows()),
    ...(await scarceRows()),
    await hotRow(),
  ]) {
    await measure(operation, atOnce, durationMs)
    const callsBefore = wire.calls
    let decisions = 0
    const counted = () => {
      decisions++
      return operation()
    }
    const measured = []
    for (let round = 0; round < rounds; round++) measured.push(await measure(counted, atOnce, durationMs))
    const {perSecond, cpuMicros} = median(measured)
    const calls = (wire.calls - callsBefore) / decisions
    rows.push([name, String(atOnce), short(perSecond), short(calls), short(cpuMicros), goal])
  }
  return textTable(['wire stubbed', 'at once', 'dec./s', 'calls/dec.', 'CPU µs', 'goal'], rows)
}

/** Buckets in use, half full: a full one is written differently. */
async function usualRows(): Promise<Row[]> {
  const {limiter, wire} = stubbed(['rpm=100M/hour', 'tpm=100000M/hour'])
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
    {name: 'admitted', atOnce: BUCKETS, wire, operation: acquire('user'), goal: '80 µs'},
    {name: 'cascade', atOnce: BUCKETS, wire, operation: acquire('child'), goal: '153 µs'},
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

/** One bucket that every request asks. */
async function hotRow(): Promise<Row> {
  const {limiter, wire} = stubbed(['tpm=100M/min'], {}, ROUND_TRIP_MS)
  const acquire = (tpm: number) => limiter.acquire({entity: 'hot', resource: RESOURCE, consume: {tpm}})
  await acquire(50_000_000)
  return {name: 'one hot bucket', atOnce: 1000, wire, operation: () => acquire(1), goal: '100,000/s, 0.002 calls'}
}

function stubbed(limits: string[], options: RateLimiterOptions & LimiterSeams = {}, roundTripMs = 0) {
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
