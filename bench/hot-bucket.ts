import {setTimeout as sleep} from 'node:timers/promises'
import {parseLimit} from '../src/lib/core/limits/limit-text.js'
import type {Transport} from '../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../src/lib/limiter/refusal/errors.js'
import type {Settle} from '../src/lib/limiter/request/options.js'
import {readShards} from '../src/lib/repository/buckets/split.js'
import type {NamespaceTable} from '../src/lib/repository/table/table.js'
import type {BenchEnvironment} from './environment.js'
import {percentile} from './measure.js'
import {short, textTable} from './report.js'

const RESOURCE = 'gpt-4'
const ENTITY = 'hot'

/** Added to every call, half before and half after, in ms. */
const ROUND_TRIP_MS = 4

/** Maximum of undecided requests: callers of an unresponsive service give up. */
const MAX_WAITING = 1000

interface Scenario {
  readonly name: string
  readonly limit: string
  /** Callers that ask again at once, or requests per second. */
  readonly load: {readonly callers: number} | {readonly perSecond: number}
  readonly limiters: number
  /** Every admitted request is settled once, and its caller continues when that has resolved. */
  readonly settle?: Settle
}

const SUPPLY = 'tpm=1000/sec:100'

const SCENARIOS: readonly Scenario[] = [
  {name: 'plenty, 100 at once', limit: 'tpm=100M/min', load: {callers: 100}, limiters: 1},
  {name: 'plenty, 1,000 at once', limit: 'tpm=100M/min', load: {callers: 1000}, limiters: 1},
  {name: 'plenty, settled now', limit: 'tpm=100M/min', load: {callers: 100}, limiters: 1, settle: 'now'},
  {name: 'plenty, settled soon', limit: 'tpm=100M/min', load: {callers: 100}, limiters: 1, settle: 'soon'},
  {name: 'demand 2×', limit: SUPPLY, load: {perSecond: 2000}, limiters: 1},
  {name: 'demand 16×', limit: SUPPLY, load: {perSecond: 16_000}, limiters: 1},
  {name: 'demand 2×, 3 limiters', limit: SUPPLY, load: {perSecond: 2000}, limiters: 3},
  {name: 'demand 16×, 3 limiters', limit: SUPPLY, load: {perSecond: 16_000}, limiters: 3},
]

export async function pressHotBucket(environment: BenchEnvironment, durationMs: number): Promise<string> {
  const rows: string[][] = []
  for (const scenario of SCENARIOS) rows.push(await press(environment, scenario, durationMs))
  const header = ['one bucket', 'dec./s', 'calls/dec.', 'p50 ms', 'p99 ms', 'CPU µs', 'used', 'over', 'errors']
  return textTable(header, rows)
}

async function press(environment: BenchEnvironment, scenario: Scenario, durationMs: number): Promise<string[]> {
  const tenant = environment.newTenant()
  const limit = parseLimit(scenario.limit)
  await environment.configure(tenant, {level: 'resource', resource: RESOURCE}, scenario.limit)
  let calls = 0
  const transport: Transport = {
    send: async (...args) => {
      calls++
      await sleep(ROUND_TRIP_MS / 2)
      try {
        return await environment.transport.send(...args)
      } finally {
        await sleep(ROUND_TRIP_MS / 2)
      }
    },
  }
  const limiters = Array.from({length: scenario.limiters}, () =>
    environment.limiter(tenant, {transport, timeoutMs: 2 * durationMs}),
  )
  for (const limiter of limiters) await limiter.acquire({entity: ENTITY, resource: RESOURCE, consume: {tpm: 1}})
  const isScarce = 'perSecond' in scenario.load
  // Empty if tokens are scarce, otherwise half full: a full bucket takes another write.
  const tpm = isScarce ? limit.capacity - limiters.length : limit.capacity / 2
  await limiters[0]?.acquire({entity: ENTITY, resource: RESOURCE, consume: {tpm}})

  const before = await readBucket(tenant)
  calls = 0
  const tally: Tally = {settle: scenario.settle, decisions: 0, granted: 0, errors: 0, latenciesMs: []}
  const startedCpu = process.cpuUsage()
  const startedMs = performance.now()
  if ('callers' in scenario.load) await crowd(limiters, scenario.load.callers, durationMs, tally)
  else await offer(limiters, scenario.load.perSecond, durationMs, tally)
  const elapsedMs = performance.now() - startedMs
  const {user, system} = process.cpuUsage(startedCpu)
  await Promise.all(limiters.map(limiter => limiter.settled()))
  const callsMade = calls
  await Promise.all(limiters.map(limiter => limiter.close()))
  const after = await readBucket(tenant)

  const rate = limit.refillAmount / (limit.refillPeriodSeconds * 1000)
  const entitled = before.tokens + rate * (Date.now() - before.refilledAtMs)
  const charged = after.consumed - before.consumed
  const due = tally.granted * (scenario.settle ? 2 : 1)
  const over = Math.max(0, charged - entitled, due - charged)
  return [
    scenario.name,
    short((tally.decisions * 1000) / elapsedMs),
    short(callsMade / tally.decisions),
    short(percentile(tally.latenciesMs, 0.5)),
    short(percentile(tally.latenciesMs, 0.99)),
    short((user + system) / tally.decisions),
    isScarce ? `${((100 * tally.granted) / entitled).toFixed(1)} %` : '-',
    short(over),
    String(tally.errors),
  ]
}

interface Tally {
  readonly settle: Settle | undefined
  decisions: number
  granted: number
  errors: number
  readonly latenciesMs: number[]
}

async function crowd(limiters: RateLimiter[], callers: number, durationMs: number, tally: Tally): Promise<void> {
  const startedMs = performance.now()
  const caller = async (_: unknown, index: number): Promise<void> => {
    const limiter = limiters[index % limiters.length] as RateLimiter
    while (performance.now() - startedMs < durationMs) await ask(limiter, tally)
  }
  await Promise.all(Array.from({length: callers}, caller))
}

async function offer(limiters: RateLimiter[], perSecond: number, durationMs: number, tally: Tally): Promise<void> {
  const startedMs = performance.now()
  const waiting = new Set<Promise<void>>()
  let made = 0
  for (let elapsedMs = 0; elapsedMs < durationMs; elapsedMs = performance.now() - startedMs) {
    for (; made < (elapsedMs * perSecond) / 1000; made++) {
      if (waiting.size >= MAX_WAITING) continue
      const decided = ask(limiters[made % limiters.length] as RateLimiter, tally).finally(() => waiting.delete(decided))
      waiting.add(decided)
    }
    await sleep(1)
  }
  await Promise.all(waiting)
}

async function ask(limiter: RateLimiter, tally: Tally): Promise<void> {
  const sentMs = performance.now()
  const {settle} = tally
  try {
    const lease = await limiter.acquire({
      entity: ENTITY,
      resource: RESOURCE,
      consume: {tpm: 1},
      ...(settle && {settle}),
    })
    tally.granted++
    if (settle) await lease.adjust({tpm: 1})
  } catch (error) {
    if (!(error instanceof RateLimitExceeded)) tally.errors++
  }
  tally.decisions++
  tally.latenciesMs.push(performance.now() - sentMs)
}

async function readBucket(tenant: NamespaceTable): Promise<{tokens: number; consumed: number; refilledAtMs: number}> {
  const record = (await readShards(tenant, ENTITY, RESOURCE, 1)).get(0)
  const limit = record?.state.limits.get('tpm')
  const whole = (milli: bigint | undefined) => Number(milli ?? 0n) / 1000
  return {
    tokens: whole(limit?.tokensMilli),
    consumed: whole(limit?.consumedMilli),
    refilledAtMs: record?.state.refilledAtMs ?? 0,
  }
}
