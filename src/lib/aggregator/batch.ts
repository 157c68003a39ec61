import {ZaelError} from '../core/errors.js'
import {keyOf} from '../schema/keys.js'
import {parseLegacyKey} from '../schema/legacy/key.js'
import {isUsageCounter} from '../schema/usage-record.js'
import {type ExpiredEvent, readExpiredEvent} from './archive.js'
import {type BucketChange, readBucketChange} from './bucket-change.js'
import {type BatchCounts, type Log, noCounts} from './counts.js'
import {checkRecord, occurredAtMs, type StreamRecord} from './stream-event.js'

export interface BatchResult {
  /** Sequence numbers of the records to be delivered again, in the order of the batch. */
  readonly failures: readonly string[]
  readonly counts: Readonly<BatchCounts>
}

/** One delivery: what it holds, and what has become of it. */
export class Batch {
  readonly counts = noCounts()
  readonly changes: BucketChange[] = []
  readonly expired: ExpiredEvent[] = []
  readonly #records: readonly StreamRecord[]
  readonly #failures = new Set<string>()
  readonly #log: Log
  #newestMs = Number.NEGATIVE_INFINITY

  constructor(records: readonly StreamRecord[], log: Log) {
    this.#records = records
    this.#log = log
    this.counts.records = records.length
    for (const record of records) this.#read(record)
    const uncountable = new Set(this.changes.flatMap(({consumedMilli}) => [...consumedMilli.keys()]))
    const limits = [...uncountable].filter(limit => !isUsageCounter(limit))
    if (limits.length > 0)
      log({level: 'warn', message: 'limits with names of usage attributes are not counted', limits})
  }

  /** Does what may fail without harm; `undefined` when it did. */
  async trying<T>(what: string, which: object, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      this.#tell(what, which, error)
      return undefined
    }
  }

  failed(sequenceNumbers: readonly string[], what: string, which: object, error: unknown): void {
    for (const number of sequenceNumbers) this.#failures.add(number)
    this.#tell(what, which, error)
  }

  /** Expired events before the first record that failed, and those that will be delivered again with it. */
  dividedExpired(): {settled: ExpiredEvent[]; postponed: ExpiredEvent[]} {
    const firstFailed = this.#records.findIndex(({dynamodb}) => this.#failures.has(dynamodb?.SequenceNumber))
    const before = new Set(firstFailed < 0 ? this.#records : this.#records.slice(0, firstFailed))
    return {
      settled: this.expired.filter(({record}) => before.has(record)),
      postponed: this.expired.filter(({record}) => !before.has(record)),
    }
  }

  postpone(events: readonly ExpiredEvent[]): void {
    for (const {record} of events) this.#failures.add(record.dynamodb.SequenceNumber)
  }

  result(nowMs: number): BatchResult {
    const {counts} = this
    const failures = this.#records
      .map(({dynamodb}) => dynamodb?.SequenceNumber)
      .filter(number => this.#failures.has(number))
    counts.failed = failures.length
    counts.lagMs = Number.isFinite(this.#newestMs) ? Math.max(0, nowMs - this.#newestMs) : 0
    this.#log({level: 'info', message: 'batch', ...counts})
    return {failures, counts}
  }

  #read(record: StreamRecord): void {
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
      this.#tell('record', {eventID, eventName, sequenceNumber: dynamodb?.SequenceNumber, keys: dynamodb?.Keys}, error)
    }
  }

  #tell(what: string, which: object, error: unknown): void {
    this.counts.errors++
    const {code} = error instanceof ZaelError ? error : {code: undefined}
    const reason = error instanceof Error ? error.message : String(error)
    this.#log({level: 'error', message: `${what} failed`, reason, code, ...which})
  }
}

function isLegacyBucket({dynamodb: {Keys}}: StreamRecord): boolean {
  const key = parseLegacyKey(keyOf(Keys))
  return key?.record === 'composite-bucket' || key?.record === 'per-limit-bucket'
}
