import {setMaxListeners} from 'node:events'
import {z} from 'zod'
import {ZaelError} from '../../core/errors.js'
import {describeIssues} from '../../core/text/text.js'
import {Aborted, ConditionFailed} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {rateLimited} from '../../dynamo/rate-limit.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import {getItem, sendRepeatable, type Table, untilAborted} from '../../repository/table/table.js'
import {type Item, isoSeconds, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {spellKey} from '../../schema/keys.js'
import {LITERAL_DEFAULT} from '../../schema/legacy-key.js'
import {
  encodeMigration,
  MIGRATION_LEASE_UNTIL,
  MIGRATION_RUN_ID,
  type MigrationRecord,
  migrationFields,
  migrationRecordKey,
  scanPosition,
} from '../../schema/migration-record.js'
import {classifyItem} from '../records/classify.js'
import type {MigrationContext} from '../records/finding.js'
import {storedJson} from '../records/marks.js'

const LEASE_MS = 60_000

/** After this, the lease of an interrupted run is left to expire. */
const RELEASE_TIMEOUT_MS = 2_000

interface LeaseOptions {
  readonly owner: string
  /** Aborts requests. The lease is held until it is released. */
  readonly signal?: AbortSignal | undefined
  readonly leaseMs?: number | undefined
}

export async function readMigration(table: Table, signal?: AbortSignal): Promise<MigrationRecord | undefined> {
  const item = await getItem(table, migrationRecordKey, {signal})
  return item && decodeMigration(item)
}

/** Renewed by a heartbeat. `lost` aborts on a takeover. Writes are conditional, so two runs are slow but correct. */
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

  static async take(
    anyTable: Table,
    firstStep: string,
    {owner, leaseMs = LEASE_MS, signal}: LeaseOptions,
  ): Promise<MigrationLease> {
    const table = withLongRetries(anyTable)
    const before = await readMigration(table, signal)
    const nowMs = table.clock()
    if (before && before.leaseUntilMs > nowMs) throw leaseHeld(before, nowMs)
    const runId = Buffer.from(table.randomBytes(9)).toString('base64url')
    const isResumed = before !== undefined && before.finishedAt === undefined
    const first = {...ABSENT, step: firstStep, pass: 1, passWrites: 0, counts: {}, startedAt: isoSeconds(nowMs)}
    const record: MigrationRecord = {
      ...(isResumed ? before : {...first, earlierFinishedAt: before?.finishedAt}),
      runId,
      owner,
      leaseUntilMs: nowMs + leaseMs,
      failure: undefined,
    }
    const e = new ExpressionBuilder()
    if (before) e.condition(`${e.name(MIGRATION_RUN_ID)} = ${e.value(s(before.runId))}`)
    else e.condition(`attribute_not_exists(${e.name(attributes.key.partition)})`)
    if (before) e.condition(`${e.name(MIGRATION_LEASE_UNTIL)} = ${e.value(n(before.leaseUntilMs))}`)
    const lease = new MigrationLease(table, leaseMs, record, signal)
    try {
      await lease.#put(record, e, signal)
    } catch (error) {
      if (error instanceof Aborted) {
        await lease.abandon()
        throw error
      }
      // If only the response was lost, the record is already this run's.
      const now = await readMigration(table, signal)
      if (!(error instanceof ConditionFailed) || !now) throw error
      if (now.runId !== runId) throw leaseHeld(now, nowMs)
    }
    lease.#heartbeat = setInterval(() => lease.#renew(), leaseMs / 3)
    return lease
  }

  get record(): MigrationRecord {
    return this.#record
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Aborts with the run, or when the lease is lost. */
  get signal(): AbortSignal {
    return this.#signal ? AbortSignal.any([this.#signal, this.lost]) : this.lost
  }

  async abandonAfter(error: unknown, describe: (cause: unknown) => string): Promise<unknown> {
    const cause = this.lost.aborted ? (this.lost.reason as unknown) : error
    await this.abandon(cause instanceof Aborted ? {} : {failure: describe(cause)})
    return cause
  }

  /** Also renews the lease. */
  async save(change: Partial<MigrationRecord>): Promise<void> {
    this.#record = {...this.#record, ...change, leaseUntilMs: this.#table.clock() + this.#leaseMs}
    await this.#store(this.#signal)
  }

  async release(change: Partial<MigrationRecord> = {}): Promise<void> {
    await this.#end(change, this.#signal)
  }

  /** For a run that failed or was interrupted. Gives up after a short time. */
  async abandon(change: Partial<MigrationRecord> = {}): Promise<void> {
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), RELEASE_TIMEOUT_MS)
    try {
      await this.#end(change, deadline.signal)
    } catch {
      // The caller throws the original error. The lease expires.
    } finally {
      clearTimeout(timer)
    }
  }

  async #end(change: Partial<MigrationRecord>, signal: AbortSignal | undefined): Promise<void> {
    clearInterval(this.#heartbeat)
    if (this.#lost.signal.aborted) return
    this.#record = {...this.#record, ...change, leaseUntilMs: 0}
    await this.#store(signal)
  }

  async #renew(): Promise<void> {
    // A failed renewal does not end the run: the lease is valid until it expires.
    await this.save({}).catch(() => {})
  }

  /** One write at a time: an earlier state must not overwrite a later one. */
  #store(signal: AbortSignal | undefined): Promise<void> {
    this.#saving = this.#saving
      .catch(() => {})
      .then(async () => {
        const e = new ExpressionBuilder()
        e.condition(`${e.name(MIGRATION_RUN_ID)} = ${e.value(s(this.#record.runId))}`)
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
    const request = {TableName: this.#table.name, Item: encodeMigration(record), ...e.write()}
    await sendRepeatable(this.#table, 'PutItem', request, {signal})
  }
}

function leaseHeld({owner, leaseUntilMs}: MigrationRecord, nowMs: number): ZaelError {
  const seconds = Math.max(1, Math.ceil((leaseUntilMs - nowMs) / 1000))
  return new ZaelError('conflict', 'migrate.running', `${owner} is already migrating the table.`, {
    hint: `Wait for that run to finish. If it crashed, its lease expires in ${seconds} s. Then run the command again.`,
    details: {owner, leaseUntil: new Date(leaseUntilMs).toISOString()},
  })
}

function leaseLost(now: MigrationRecord | undefined): ZaelError {
  const by = now ? ` to ${now.owner}` : ''
  return new ZaelError('conflict', 'migrate.lease-lost', `This run lost its lease${by}.`, {
    hint: 'Let the other run finish. See its progress: `zael migrate status`.',
  })
}

const count = z.int().min(0)

const optionalText = z.string().optional()

/** Ignores attributes of newer versions. Attributes that older versions omit have defaults. */
const recordSchema = z.object({
  runId: z.string().min(1),
  owner: z.string(),
  leaseUntilMs: count,
  step: z.string().min(1),
  position: storedJson
    .pipe(z.tuple([z.string().min(1), z.string().min(1)]))
    .transform(scanPosition)
    .optional(),
  pass: z.int().min(1).default(1),
  passWrites: count.default(0),
  counts: storedJson
    .pipe(z.record(z.string(), z.object({checked: count, written: count, expired: count, conflicts: count})))
    .default({}),
  startedAt: z.string(),
  finishedAt: optionalText,
  earlierFinishedAt: optionalText,
  failure: optionalText,
  verifiedAt: optionalText,
})

/** Throws if it is damaged, because a run would continue at a wrong place. */
export function decodeMigration(item: Item): MigrationRecord {
  const {data, error} = recordSchema.safeParse(migrationFields(item))
  if (data) return {...ABSENT, ...data}
  const key = spellKey(migrationRecordKey)
  throw new ZaelError('failed', 'migrate.record', `The migration record is damaged: ${describeIssues(error.issues)}.`, {
    hint:
      `Nothing was changed. Make sure that no run is active, delete the item ${key}, then run \`zael migrate run\`. ` +
      'It starts at the first step and copies nothing twice.',
    details: {key},
  })
}

const ABSENT = {
  position: undefined,
  finishedAt: undefined,
  earlierFinishedAt: undefined,
  failure: undefined,
  verifiedAt: undefined,
}

/** For throttled requests: a migration can wait, so other traffic goes first. */
const LONG_RETRIES = {attempts: 12, maxMs: 20_000}

/** The table's own settings win. */
export function withLongRetries(table: Table): Table {
  return {...table, backoff: {...LONG_RETRIES, ...table.backoff}}
}

/** `unitsPerSecond`: of writes. Default: as fast as possible. */
export function withPace(table: Table, unitsPerSecond: number | undefined): Table {
  if (unitsPerSecond === undefined) return table
  const pace = {clock: table.clock, sleep: table.backoff.sleep}
  return {...table, transport: rateLimited(table.transport, {of: 'writes', unitsPerSecond}, pace)}
}

export async function openMigrationContext(anyTable: Table, signal?: AbortSignal): Promise<MigrationContext> {
  // Every request in flight adds a listener.
  if (signal) setMaxListeners(0, signal)
  const table = withLongRetries(anyTable)
  const registry = new Namespaces(signal ? untilAborted(table, signal) : table)
  const registered = await registry.resolve(DEFAULT_NAMESPACE)
  const literalDefaultMoves = registered !== undefined && registered.id !== LITERAL_DEFAULT
  return {
    table,
    signal,
    defaultNamespace: registered?.id,
    literalDefaultMoves,
    classify: item => classifyItem(item, {literalDefaultMoves}),
  }
}
