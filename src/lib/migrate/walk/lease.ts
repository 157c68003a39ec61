import {setMaxListeners} from 'node:events'
import * as z from 'zod'
import {ZaelError} from '../../core/errors.js'
import {describeIssues} from '../../core/text/text.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import {RecordLease} from '../../repository/table/lease.js'
import {getItem, type Table, untilAborted} from '../../repository/table/table.js'
import {type Item, isoSeconds} from '../../schema/attribute-value.js'
import {spellKey} from '../../schema/keys.js'
import {LITERAL_DEFAULT} from '../../schema/legacy-key.js'
import {
  encodeMigration,
  type MigrationRecord,
  migrationFields,
  migrationRecordKey,
  scanPosition,
} from '../../schema/migration-record.js'
import {classifyItem} from '../records/classify.js'
import type {MigrationContext} from '../records/finding.js'
import {storedJson} from '../records/marks.js'

const LEASE_MS = 60_000

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

export type MigrationLease = RecordLease<MigrationRecord>

export function takeMigrationLease(
  anyTable: Table,
  firstStep: string,
  {owner, leaseMs = LEASE_MS, signal}: LeaseOptions,
): Promise<MigrationLease> {
  const table = withLongRetries(anyTable)
  const kind = {
    key: migrationRecordKey,
    leaseMs,
    isKept: true,
    encode: encodeMigration,
    read: (aborted?: AbortSignal) => readMigration(table, aborted),
    held: leaseHeld,
    lost: leaseLost,
  }
  return RecordLease.take<MigrationRecord>(table, kind, {
    signal,
    next: (before, lease, nowMs) => {
      const isResumed = before !== undefined && before.finishedAt === undefined
      const first = {...ABSENT, step: firstStep, pass: 1, passWrites: 0, counts: {}, startedAt: isoSeconds(nowMs)}
      const record = isResumed ? before : {...first, earlierFinishedAt: before?.finishedAt}
      return {...record, ...lease, owner, failure: undefined}
    },
  })
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
