import {InvalidInput} from '../../core/errors.js'
import {printableText} from '../../core/text/printable.js'
import {LATEST_ULID_MS, ulid} from '../../core/ulid.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryPages} from '../../dynamo/paging.js'
import {isoSeconds, type Key, s} from '../../schema/attribute-value.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {type AuditRecord, decodeAudit, encodeAudit} from '../../schema/audit-record.js'
import {configKey, decodeConfig} from '../../schema/config-record.js'
import type {Json} from '../../schema/json-attribute.js'
import {keys, parseItemKey, sortKeys} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {badCursor, decodeCursor, encodeCursor} from './cursor.js'
import {checkPageLimit, decodeRange, type PageRequest, queryInput, type RecordPage, readPage} from './query.js'
import {getItem, getItems, type NamespaceTable, sendRepeatable} from './table.js'
import {isApplied, putNew, type TransactItem} from './transact.js'

const DEFAULT_RETENTION_DAYS = 90
const SECONDS_PER_DAY = 86_400

// The maximum of one BatchGetItem.
const EVENTS_PER_READ = 100

// A page is up to 1 MB of keys, some thousands of events.
const PAGES_PER_SEARCH = 100

const RETENTION_CACHE_MS = 60_000

/** A change to record. */
export interface AuditEvent {
  /** The entity, `$SYSTEM`, or `$RESOURCE:{resource}`. */
  readonly entity: string
  readonly action: string
  readonly resource?: string
  readonly details: {readonly [key: string]: Json}
}

/** The author: an ARN, or a name of up to 256 printable characters. A function is called when an event is written. */
export type Principal = string | (() => Promise<string | undefined>)

export interface AuditOptions {
  readonly principal?: Principal | undefined
  /** Called before an event is written; `undefined`: 90 days. */
  readonly retentionDays?: (() => Promise<number | undefined>) | undefined
}

/** Which events to read; the range includes both instants. */
export interface AuditSelection extends PageRequest {
  readonly sinceMs?: number | undefined
  readonly untilMs?: number | undefined
  readonly action?: string | undefined
}

/** The audit trail of one namespace. */
export class Audit {
  readonly #table: NamespaceTable
  readonly #principal: Principal | undefined
  readonly #retentionDays: () => Promise<number | undefined>

  /** @internal */
  constructor(table: NamespaceTable, options: AuditOptions = {}) {
    const {principal, retentionDays = async () => undefined} = options
    this.#table = table
    this.#principal = typeof principal === 'string' ? checkPrincipal(principal) : principal
    this.#retentionDays = retentionDays
  }

  /** @internal Part of the transaction that makes the change: both are written or neither. */
  async put(event: AuditEvent): Promise<TransactItem & {Put: object}> {
    return putNew(this.#table, encodeAudit(await this.#stamp(event)))
  }

  /** Writes an event on its own, for changes that no transaction can hold. */
  async record(event: AuditEvent): Promise<AuditRecord> {
    const record = await this.#stamp(event)
    const {Put} = putNew(this.#table, encodeAudit(record))
    // 80 random bits do not collide by chance: if the event exists, an attempt whose response was lost wrote it.
    await isApplied(sendRepeatable(this.#table, 'PutItem', Put))
    return record
  }

  /** One event; `undefined` if it does not exist or has expired. */
  async get(entity: string, eventId: string): Promise<AuditRecord | undefined> {
    const item = await getItem(this.#table, keys.audit(this.#table.namespace, entity, eventId))
    return item && decodeAudit(item)
  }

  /** One event by its id. `complete` is false if the search stopped early, in a namespace with very many events. */
  async find(eventId: string): Promise<{record: AuditRecord | undefined; complete: boolean}> {
    const {namespace, transport, backoff} = this.#table
    const e = new ExpressionBuilder().project(...keyNames())
    e.filter(`${e.name(attributes.key.sort)} = ${e.value(s(sortKeys.audit(eventId)))}`)
    const input = queryInput(this.#table, ranges.audit(namespace), e)
    let pages = 0
    for await (const {items, next} of queryPages(transport, input, {backoff})) {
      const key = items[0] && parseItemKey(items[0])
      if (key?.record === 'audit') return {record: await this.get(key.entity, eventId), complete: true}
      if (++pages === PAGES_PER_SEARCH && next) return {record: undefined, complete: false}
    }
    return {record: undefined, complete: true}
  }

  /** Events about one entity, newest first. */
  async list(selection: AuditSelection & {readonly entity: string}): Promise<RecordPage<AuditRecord>> {
    const {action, entity} = selection
    const e = new ExpressionBuilder()
    if (action !== undefined) e.filter(`${e.name(attributes.audit.action)} = ${e.value(s(action))}`)
    const range = ranges.auditOfEntity(this.#table.namespace, entity)
    const query = {kind: 'audit-of-entity', ...range, between: bounds(selection), descending: true} as const
    const {records, next} = await readPage(this.#table, query, selection, e)
    return {records: records.flatMap(item => decodeAudit(item) ?? []), next}
  }

  /** Events of the whole namespace, newest first. Every page reads the keys of all events (about 150 bytes each). */
  async listAll(selection: AuditSelection = {}): Promise<RecordPage<AuditRecord>> {
    const {action} = selection
    // One more than wanted shows whether there is a next page.
    const wanted = checkPageLimit(selection.limit) + 1
    const found: AuditRecord[] = []
    for await (const chunk of chunksOf(await this.#keysNewestFirst(selection), EVENTS_PER_READ)) {
      const items = await getItems(this.#table, chunk)
      for (const item of items.values()) {
        const record = decodeAudit(item)
        if (record && (action === undefined || record.action === action)) found.push(record)
      }
      if (found.length >= wanted) break
    }
    if (found.length < wanted) return {records: found, next: undefined}
    const records = found.slice(0, wanted - 1)
    return {records, next: encodeCursor('audit', [(records.at(-1) as AuditRecord).eventId])}
  }

  async #keysNewestFirst(selection: AuditSelection): Promise<Key[]> {
    const {namespace} = this.#table
    const {cursor} = selection
    const [first, last] = bounds(selection)
    const after = cursor === undefined ? undefined : eventIn(cursor)
    const e = new ExpressionBuilder()
    const sk = e.name(attributes.key.sort)
    e.filter(`${sk} BETWEEN ${e.value(s(first))} AND ${e.value(s(last))}`)
    if (after !== undefined) e.filter(`${sk} < ${e.value(s(sortKeys.audit(after)))}`)
    const rows = await decodeRange(this.#table, ranges.audit(namespace), parseItemKey, {e})
    const events = rows.filter(key => key.record === 'audit')
    events.sort((a, b) => (a.eventId > b.eventId ? -1 : 1))
    return events.map(({entity, eventId}) => keys.audit(namespace, entity, eventId))
  }

  /** @internal */
  async author(): Promise<string | undefined> {
    const principal = typeof this.#principal === 'function' ? await this.#principal() : this.#principal
    return principal && checkPrincipal(principal)
  }

  async #stamp({entity, action, resource, details}: AuditEvent): Promise<AuditRecord> {
    const {namespace, clock, randomBytes} = this.#table
    const principal = await this.author()
    const days = (await this.#retentionDays()) ?? DEFAULT_RETENTION_DAYS
    const nowMs = clock()
    return {
      namespace,
      entity,
      eventId: ulid(Math.floor(nowMs), randomBytes(10)),
      timestamp: isoSeconds(nowMs),
      action,
      principal,
      resource,
      details,
      ttlSeconds: Math.floor(nowMs / 1000) + days * SECONDS_PER_DAY,
    }
  }
}

function eventIn(cursor: string): string {
  const [eventId = ''] = decodeCursor('audit', cursor)
  if (!/^\w+$/.test(eventId)) throw badCursor(cursor)
  return eventId
}

/** The longest ARN, and the longest name, which zae-limiter limits like an entity id. */
const MAX_ARN = 2048
const MAX_NAME = 256

function checkPrincipal(principal: string): string {
  const most = principal.startsWith('arn:') ? MAX_ARN : MAX_NAME
  const isPrintable = printableText(principal) === principal && principal.trim() === principal
  if (principal !== '' && principal.length <= most && isPrintable) return principal
  const message = `The author of changes must be 1 to ${most} printable characters, without spaces at the ends.`
  throw new InvalidInput('audit.principal', message, {
    hint: 'Nothing was changed. Correct ZAEL_PRINCIPAL, or the option `principal`.',
    details: {length: principal.length},
  })
}

/** First and last sort key: an event id begins with its time. */
function bounds({sinceMs = 0, untilMs = LATEST_ULID_MS}: AuditSelection): [string, string] {
  const first = Math.max(0, Math.ceil(sinceMs))
  const last = Math.min(LATEST_ULID_MS, Math.floor(untilMs))
  if (!(first <= last)) throw new InvalidInput('audit.range', 'The time range is empty: it ends before it starts.')
  return [sortKeys.audit(ulid(first, new Uint8Array(10))), sortKeys.audit(ulid(last, new Uint8Array(10).fill(255)))]
}

/** `undefined` if not configured. Read at most once a minute, because every change needs it (C-9, D-30). */
export function storedAuditRetention(table: NamespaceTable): () => Promise<number | undefined> {
  let known: Promise<number | undefined> | undefined
  let readAtMs = 0
  return () => {
    const nowMs = table.clock()
    if (!known || nowMs < readAtMs || nowMs - readAtMs >= RETENTION_CACHE_MS) {
      readAtMs = nowMs
      known = readRetention(table)
      known.catch(() => {
        known = undefined
      })
    }
    return known
  }
}

async function readRetention(table: NamespaceTable): Promise<number | undefined> {
  const item = await getItem(table, configKey(table.namespace, {level: 'system'}), {consistent: false})
  return item && decodeConfig(item)?.auditRetentionDays
}
