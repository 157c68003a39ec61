import {ZaelError} from '../../core/errors.js'
import {Aborted, ConditionFailed, isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {retrying} from '../../dynamo/retry.js'
import {getItem, type Table} from '../../repository/table/table.js'
import {n, s} from '../../schema/attribute-value.js'
import {isoSeconds} from '../../schema/instant.js'
import {
  decodeMigration,
  encodeMigration,
  type MigrationRecord,
  migrationRecordKey,
} from '../../schema/migration-record.js'
import {patient} from './patience.js'

/** How long a runner that died keeps others waiting. */
export const LEASE_MS = 60_000

/** How long somebody who was interrupted waits for the table before the lease is left to end by itself. */
const FAREWELL_MS = 2_000

/** Who runs, and for how long others have to wait when it stops without a word. */
export interface LeaseOptions {
  readonly owner: string
  /** Gives up waiting for answers; the lease is held until it is released. */
  readonly signal?: AbortSignal | undefined
  readonly leaseMs?: number | undefined
}

/** The record of the migration of a table; `undefined` when there never was one. */
export async function readMigration(table: Table, signal?: AbortSignal): Promise<MigrationRecord | undefined> {
  const item = await getItem(table, migrationRecordKey, {signal})
  return item && decodeMigration(item)
}

/**
 * The right to migrate a table, for one runner at a time. It is kept up by a heartbeat; when that fails because somebody
 * else took over, the runner's signal aborts. Everything a runner writes is conditional besides, so two of them at once
 * would be slow, not wrong.
 */
export class MigrationLease {
  readonly #table: Table
  readonly #leaseMs: number
  readonly #signal: AbortSignal | undefined
  readonly #lost = new AbortController()
  #record: MigrationRecord
  #heartbeat: NodeJS.Timeout | undefined
  #saving: Promise<void> = Promise.resolve()

  private constructor(table: Table, leaseMs: number, record: MigrationRecord, signal: AbortSignal | undefined) {
    this.#table = table
    this.#leaseMs = leaseMs
    this.#signal = signal
    this.#record = record
  }

  /** Takes the lease, or throws when somebody holds it. An unfinished run goes on where it stopped. */
  static async take(
    anyTable: Table,
    firstStep: string,
    {owner, leaseMs = LEASE_MS, signal}: LeaseOptions,
  ): Promise<MigrationLease> {
    const table = patient(anyTable)
    const before = await readMigration(table, signal)
    const nowMs = table.clock()
    if (before && before.leaseUntilMs > nowMs) throw leaseHeld(before, nowMs)
    const runId = Buffer.from(table.randomBytes(9)).toString('base64url')
    const goesOn = before !== undefined && before.finishedAt === undefined
    const record: MigrationRecord = {
      ...(goesOn ? before : freshRun(firstStep, isoSeconds(nowMs), before?.finishedAt)),
      runId,
      owner,
      leaseUntilMs: nowMs + leaseMs,
      failure: undefined,
    }
    const e = new ExpressionBuilder()
    if (before) e.condition(`${e.name('run_id')} = ${e.value(s(before.runId))}`)
    else e.condition(`attribute_not_exists(${e.name('PK')})`)
    if (before) e.condition(`${e.name('lease_until')} = ${e.value(n(before.leaseUntilMs))}`)
    const lease = new MigrationLease(table, leaseMs, record, signal)
    try {
      await lease.#put(record, e, signal)
    } catch (error) {
      if (error instanceof Aborted) {
        await lease.abandon()
        throw error
      }
      // After a lost answer the record is ours already.
      const now = await readMigration(table, signal)
      if (!(error instanceof ConditionFailed) || !now) throw error
      if (now.runId !== runId) throw leaseHeld(now, nowMs)
    }
    lease.#heartbeat = setInterval(() => lease.#beat(), leaseMs / 3)
    return lease
  }

  /** What is recorded. */
  get record(): MigrationRecord {
    return this.#record
  }

  /** Aborts when the lease is somebody else's. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Records progress; also renews the lease. */
  async save(change: Partial<MigrationRecord>): Promise<void> {
    this.#record = {...this.#record, ...change, leaseUntilMs: this.#table.clock() + this.#leaseMs}
    await this.#store(this.#signal)
  }

  /** Lets go, so that the next runner need not wait. */
  async release(change: Partial<MigrationRecord> = {}): Promise<void> {
    await this.#letGo(change, this.#signal)
  }

  /** Lets go on the way out of a run that ended early: whoever waits for that does not wait for long. */
  async abandon(change: Partial<MigrationRecord> = {}): Promise<void> {
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), FAREWELL_MS)
    try {
      await this.#letGo(change, deadline.signal)
    } catch {
      // Why the run ended matters more, and the lease ends by itself.
    } finally {
      clearTimeout(timer)
    }
  }

  async #letGo(change: Partial<MigrationRecord>, signal: AbortSignal | undefined): Promise<void> {
    clearInterval(this.#heartbeat)
    if (this.#lost.signal.aborted) return
    this.#record = {...this.#record, ...change, leaseUntilMs: 0}
    await this.#store(signal)
  }

  async #beat(): Promise<void> {
    // An outage does not end the lease; its end does.
    await this.save({}).catch(() => {})
  }

  /** One write after the other: an earlier state must not overwrite a later one. */
  #store(signal: AbortSignal | undefined): Promise<void> {
    this.#saving = this.#saving
      .catch(() => {})
      .then(async () => {
        const e = new ExpressionBuilder()
        e.condition(`${e.name('run_id')} = ${e.value(s(this.#record.runId))}`)
        try {
          await this.#put(this.#record, e, signal)
        } catch (error) {
          if (!(error instanceof ConditionFailed)) throw error
          const now = await readMigration(this.#table, signal)
          const lost = leaseLost(now)
          this.#lost.abort(lost)
          throw lost
        }
      })
    return this.#saving
  }

  async #put(record: MigrationRecord, e: ExpressionBuilder, signal: AbortSignal | undefined): Promise<void> {
    const {name: TableName, transport, backoff} = this.#table
    const request = {TableName, Item: encodeMigration(record), ...e.write()}
    const options = {...backoff, signal, retryable: isRetryableWhenIdempotent}
    await retrying(() => transport.send('PutItem', request, {signal}), options)
  }
}

function freshRun(
  firstStep: string,
  startedAt: string,
  earlierFinishedAt: string | undefined,
): Omit<MigrationRecord, 'runId' | 'owner' | 'leaseUntilMs'> {
  return {
    step: firstStep,
    position: undefined,
    pass: 1,
    passWrites: 0,
    counts: {},
    startedAt,
    finishedAt: undefined,
    earlierFinishedAt,
    failure: undefined,
    verifiedAt: undefined,
  }
}

function leaseHeld({owner, leaseUntilMs}: MigrationRecord, nowMs: number): ZaelError {
  const seconds = Math.max(1, Math.ceil((leaseUntilMs - nowMs) / 1000))
  return new ZaelError('conflict', 'migrate.running', `The table is being migrated by ${owner}.`, {
    hint: `Wait until that run ends; if it has died, its lease ends in ${seconds} s and another run can go on.`,
    details: {owner, leaseUntil: new Date(leaseUntilMs).toISOString()},
  })
}

function leaseLost(now: MigrationRecord | undefined): ZaelError {
  const by = now ? `: ${now.owner} has taken over` : ''
  return new ZaelError('conflict', 'migrate.lease-lost', `This run has lost its lease${by}.`, {
    hint: 'Let the other run finish; `zael migrate status` shows where it is.',
  })
}
