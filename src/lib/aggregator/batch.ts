import {ZaelError} from '../core/errors.js'
import {forEachConcurrently} from '../dynamo/concurrency.js'
import {keyOf} from '../schema/keys.js'
import {parseLegacyKey} from '../schema/legacy-key.js'
import {isUsageCounter} from '../schema/usage-record.js'
import {type ExpiredEvent, readExpiredEvent} from './audit-archive.js'
import {type BucketChange, readBucketChange} from './bucket-change.js'
import {type BatchCounts, noCounts} from './metrics.js'
import {checkRecord, occurredAtMs, type StreamRecord} from './stream-event.js'

const NAMES_LOGGED = 20
const LOGGED_NAME_LENGTH = 80
const LONGEST_REASON = 1_000

export interface LogLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly message: string
  readonly [detail: string]: unknown
}

export type Log = (line: LogLine) => void

export interface BatchResult {
  /** Sequence numbers of records to redeliver, in batch order. */
  readonly failures: readonly string[]
  readonly counts: Readonly<BatchCounts>
}

export class Batch {
  readonly counts = noCounts()
  readonly changes: BucketChange[] = []
  readonly expired: ExpiredEvent[] = []
  readonly #records: readonly StreamRecord[]
  readonly #failures = new Set<string>()
  readonly #uncounted = new Set<string>()
  readonly #log: Log
  readonly #signal: AbortSignal | undefined
  #newestMs = Number.NEGATIVE_INFINITY

  /** The signal ends the run: later failures are not errors, and optional steps are skipped. */
  constructor(records: readonly StreamRecord[], log: Log, signal?: AbortSignal) {
    this.#records = records
    this.#log = log
    this.#signal = signal
    this.counts.records = records.length
    for (const record of records) this.#decode(record)
    const names = new Set(this.changes.flatMap(({consumedMilli}) => [...consumedMilli.keys()]))
    const limits = [...names].filter(limit => !isUsageCounter(limit))
    if (limits.length > 0)
      log({
        level: 'warn',
        message: 'limits with the name of a usage record attribute are not counted',
        limits: some(limits),
      })
    for (const {sequenceNumber, namespace, entity, resource, shard, uncounted} of this.changes) {
      if (uncounted.length > 0) this.setAside([sequenceNumber], {namespace, entity, resource, shard}, uncounted)
    }
  }

  /** For a step whose failure fails no record: logs the error and resolves to `undefined`. */
  async attempt<T>(step: string, subject: object, work: () => Promise<T>): Promise<T | undefined> {
    if (this.#isOver) return undefined
    try {
      return await work()
    } catch (error) {
      if (!this.#isOver) this.#logError(step, subject, error)
      return undefined
    }
  }

  fail(sequenceNumbers: readonly string[], step: string, subject: object, error: unknown): void {
    // Planted fault: records that failed are forgotten
    for (const number of sequenceNumbers) this.#failures.add(number)
    if (!this.#isOver) this.#logError(step, subject, error)
  }

  get #isOver(): boolean {
    return this.#signal?.aborted === true
  }

  /** Logs records that no retry can count, in whole or for some limits, and continues. */
  setAside(sequenceNumbers: readonly string[], subject: object, limits: readonly string[], error?: unknown): void {
    for (const number of sequenceNumbers) this.#uncounted.add(number)
    const cause = error ?? new Error('the counters exceed the size of a usage record')
    const [first, last] = [sequenceNumbers[0], sequenceNumbers.at(-1)]
    this.#logError('counting', {...subject, limits: some(limits), records: sequenceNumbers.length, first, last}, cause)
  }

  /** Expired events before the first failed record. Later ones are redelivered, so that none is archived twice. */
  takeExpired(): ExpiredEvent[] {
    const before = new Set(this.#isOver ? [] : this.#beforeFailures())
    for (const {record} of this.expired) {
      if (!before.has(record)) this.#failures.add(record.dynamodb.SequenceNumber)
    }
    return this.expired.filter(({record}) => before.has(record))
  }

  /** A stream redelivers everything from the first failed record on. */
  #beforeFailures(): readonly StreamRecord[] {
    const first = this.#records.findIndex(({dynamodb}) => this.#failures.has(dynamodb?.SequenceNumber))
    return first < 0 ? this.#records : this.#records.slice(0, first)
  }

  result(nowMs: number): BatchResult {
    const {counts} = this
    const failures = this.#records
      .map(({dynamodb}) => dynamodb?.SequenceNumber)
      .filter(number => this.#failures.has(number))
    counts.failed = failures.length
    if (this.#isOver && failures.length > 0) {
      const hint = 'Raise --lambda-timeout or --lambda-memory, or lower --batch-size.'
      this.#log({level: 'warn', message: 'the run reached its time limit', redelivered: failures.length, hint})
    }
    const done = new Set(this.#beforeFailures().map(({dynamodb}) => dynamodb?.SequenceNumber))
    for (const {sequenceNumber, refused} of this.changes)
      if (done.has(sequenceNumber)) counts.refused += refused?.requests ?? 0
    counts.uncounted = counts.malformed + this.#uncounted.size
    counts.lagMs = Number.isFinite(this.#newestMs) ? Math.max(0, nowMs - this.#newestMs) : 0
    this.#log({level: 'info', message: 'batch', ...counts})
    return {failures, counts}
  }

  #decode(record: StreamRecord): void {
    try {
      checkRecord(record)
      this.#newestMs = Math.max(this.#newestMs, occurredAtMs(record))
      const change = readBucketChange(record)
      if (change) this.changes.push(change)
      const expired = readExpiredEvent(record)
      if (expired) this.expired.push(expired)
      if (change) this.counts.buckets++
      else if (isLegacyBucket(record)) this.counts.legacy++
    } catch (error) {
      this.counts.malformed++
      const {eventID, eventName, dynamodb} = record
      const subject = {eventID, eventName, sequenceNumber: dynamodb?.SequenceNumber, keys: dynamodb?.Keys}
      this.#logError('record', subject, error)
    }
  }

  #logError(step: string, subject: object, error: unknown): void {
    this.counts.errors++
    const {code} = error instanceof ZaelError ? error : {code: undefined}
    // It may quote stored client data.
    const reason = (error instanceof Error ? error.message : String(error)).slice(0, LONGEST_REASON)
    this.#log({level: 'error', message: `${step} failed`, reason, code, ...subject})
  }
}

/** Bounded: hostile names must not fill the log. */
function some(names: readonly string[]): string[] {
  const shown = names.slice(0, NAMES_LOGGED).map(name => name.slice(0, LOGGED_NAME_LENGTH))
  return names.length > shown.length ? [...shown, `${names.length - shown.length} more`] : shown
}

function isLegacyBucket({dynamodb: {Keys}}: StreamRecord): boolean {
  const key = parseLegacyKey(keyOf(Keys))
  return key?.record === 'composite-bucket' || key?.record === 'per-limit-bucket'
}

const CONCURRENCY = 16

export const each = <T>(elements: readonly T[], work: (element: T) => Promise<void>): Promise<void> =>
  forEachConcurrently(elements, CONCURRENCY, work)
