import {Denied} from '../dynamo/errors.js'
import {tidyBoosts} from '../repository/limits/limit-sync.js'
import {type Table, untilAborted} from '../repository/table/table.js'
import {createArchiver} from './archiver.js'
import type {ArchiveSink} from './audit-archive.js'
import {Batch, type BatchResult, each, type Log} from './batch.js'
import type {BucketChange} from './bucket-change.js'
import {type AggregatorSettings, DEFAULT_SETTINGS} from './environment.js'
import {type GrowthCandidate, growBucket, PressureMonitor} from './growth.js'
import {type ActiveShard, activeShards, refillShard} from './refill.js'
import type {StreamEvent} from './stream-event.js'
import {UsageCounter} from './usage-counter.js'

export interface AggregatorOptions {
  readonly table: Table
  readonly settings?: Partial<AggregatorSettings>
  /** For expired audit events. Default: not archived. */
  readonly sink?: ArchiveSink | undefined
  readonly log: Log
}

export interface Aggregator {
  /**
   * Idempotent: Lambda may redeliver a batch, whole or from a failed record on. Returns failed records and never
   * throws. The signal ends the run: unfinished records have failed. Runs with a signal must follow one another.
   */
  handle(event: StreamEvent, signal?: AbortSignal): Promise<BatchResult>
  /** Rolls up ended windows, at most once in a while. Never throws. */
  tick(): Promise<void>
}

/** Create one per process: it remembers each shard's write rate. */
export function createAggregator({table: given, settings, sink, log}: AggregatorOptions): Aggregator {
  const run: {signal: AbortSignal | undefined} = {signal: undefined}
  const table = withinRun(given, run)
  const {windows, retentionDays, maxShards} = {...DEFAULT_SETTINGS, ...settings}
  const usage = new UsageCounter(table, {windows, retentionDays})
  const pressure = new PressureMonitor(table.clock)
  const boosts = new BoostKeeper(table, log)
  const archive = sink && createArchiver(table, sink)

  return {
    async handle({Records}, signal) {
      run.signal = signal
      const batch = new Batch(Records, log, signal)
      await usage.count(batch)
      const candidates = pressure.observe(batch.changes)
      await each(activeShards(batch.changes), shard => refill(batch, shard))
      await each(candidates, candidate => grow(batch, candidate))
      await archive?.(batch)
      await each(boosts.due(batch.changes), namespace => tidy(batch, namespace))
      await usage.sweep(batch)
      return batch.result(table.clock())
    },
    async tick() {
      run.signal = undefined
      await usage.sweep(new Batch([], log))
    },
  }

  async function refill(batch: Batch, active: ActiveShard): Promise<void> {
    const {namespace, entity, resource, shard} = active
    const work = () => refillShard(table, active, {repairPressure: pressure.needsRepair(active)})
    if (await batch.attempt('refill', {namespace, entity, resource, shard}, work)) batch.counts.refills++
  }

  async function grow(batch: Batch, candidate: GrowthCandidate): Promise<void> {
    const {namespace, entity, resource} = candidate
    const work = () => growBucket(table, candidate, maxShards)
    if ((await batch.attempt('growth', {namespace, entity, resource}, work)) === 'split') batch.counts.splits++
  }

  async function tidy(batch: Batch, namespace: string): Promise<void> {
    await batch.attempt('boosts', {namespace}, () => boosts.tidy(namespace))
  }
}

/** Requests and pauses end with the run that makes them. */
function withinRun(table: Table, run: {readonly signal: AbortSignal | undefined}): Table {
  const current = () => (run.signal ? untilAborted(table, run.signal) : table)
  return {
    ...table,
    transport: {send: (operation, input, options) => current().transport.send(operation, input, options)},
    backoff: {...table.backoff, sleep: (ms, signal) => current().backoff.sleep(ms, signal)},
  }
}

/** Between checks of a namespace's boosts. */
const EVERY_MS = 5 * 60_000

/** Time limit for updating live buckets. The next request updates the others. */
const SYNC_MS = 10_000

const PRINCIPAL = 'aggregator'

class BoostKeeper {
  readonly #table: Table
  readonly #log: Log
  readonly #lookedAtMs = new Map<string, number>()
  #isDenied = false

  constructor(table: Table, log: Log) {
    this.#table = table
    this.#log = log
  }

  /** Namespaces not checked lately; marks them as checked. */
  due(changes: readonly BucketChange[]): string[] {
    if (this.#isDenied) return []
    const nowMs = this.#table.clock()
    const due = [...new Set(changes.map(({namespace}) => namespace))].filter(
      namespace => nowMs - (this.#lookedAtMs.get(namespace) ?? -Infinity) >= EVERY_MS,
    )
    for (const namespace of due) this.#lookedAtMs.set(namespace, nowMs)
    return due
  }

  /** One query if nothing has expired. A role older than boosts does not permit the clean-up; then clients do it. */
  async tidy(namespace: string): Promise<void> {
    const signal = AbortSignal.timeout(SYNC_MS)
    try {
      await tidyBoosts({...this.#table, namespace}, {principal: PRINCIPAL, signal})
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof Denied)) throw error
      this.#isDenied = true
      this.#log({
        level: 'warn',
        message: 'expired boosts are not removed: the role does not permit it',
        reason: error.message,
      })
    }
  }
}
