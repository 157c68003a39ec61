import {InvalidInput} from '../../core/errors.js'
import {checkEntityId} from '../../core/names.js'
import {LATEST_ULID_MS, ulid} from '../../core/ulid.js'
import {batchGet} from '../../dynamo/batch.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {ConditionFailed, isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryPages} from '../../dynamo/paging.js'
import {retrying} from '../../dynamo/retry.js'
import {type Key, s} from '../../schema/attribute-value.js'
import {type AuditRecord, decodeAudit, encodeAudit} from '../../schema/audit-record.js'
import {isoSeconds} from '../../schema/instant.js'
import type {Json} from '../../schema/json-attribute.js'
import {keys, parseItemKey, sortPrefix} from '../../schema/keys.js'
import {badCursor, decodeCursor, encodeCursor} from '../table/cursor.js'
import {checkPageLimit, type PageRequest, type RecordPage, readAll, readPage, stretchQuery} from '../table/query.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'
import {putNew} from '../table/transact-items.js'

const DEFAULT_RETENTION_DAYS = 90
const SECONDS_PER_DAY = 86_400

// What one BatchGetItem can take.
const EVENTS_PER_READ = 100

// A page is up to 1 MB of keys, some thousands of events.
const PAGES_PER_SEARCH = 100

/** What happened. */
export interface AuditEvent {
  /** The entity concerned, or `$SYSTEM`, or `$RESOURCE:{resource}`. */
  readonly entity: string
  readonly action: string
  readonly resource?: string
  readonly details: {readonly [key: string]: Json}
}

/** Who acts: an ARN, or a name by the rules of entity ids. A function is asked before an event is written, not earlier. */
export type Principal = string | (() => Promise<string | undefined>)

/** Who acts, and how long that is remembered. */
export interface AuditOptions {
  readonly principal?: Principal | undefined
  /** Asked before an event is written; 90 when it says nothing. */
  readonly retentionDays?: (() => Promise<number | undefined>) | undefined
}

/** Which events are wanted; both instants belong to the range. */
export interface AuditSelection extends PageRequest {
  readonly sinceMs?: number | undefined
  readonly untilMs?: number | undefined
  readonly action?: string | undefined
}

/** Who changed what and when, in one namespace. */
export class Audit {
  readonly #table: NamespaceTable
  readonly #principal: Principal | undefined
  readonly #retentionDays: () => Promise<number | undefined>

  constructor(table: NamespaceTable, options: AuditOptions = {}) {
    const {principal, retentionDays = async () => undefined} = options
    this.#table = table
    this.#principal = typeof principal === 'string' ? checkPrincipal(principal) : principal
    this.#retentionDays = retentionDays
  }

  /** An event as a part of the transaction that makes the change: either both happen or neither. */
  async put(event: AuditEvent): Promise<TransactItem & {Put: object}> {
    return putNew(this.#table, encodeAudit(await this.#stamp(event)))
  }

  /** Writes an event on its own, for changes that no transaction can hold. */
  async record(event: AuditEvent): Promise<AuditRecord> {
    const {transport, backoff} = this.#table
    const record = await this.#stamp(event)
    const {Put} = putNew(this.#table, encodeAudit(record))
    const send = () => transport.send('PutItem', Put)
    try {
      await retrying(send, {...backoff, retryable: isRetryableWhenIdempotent})
    } catch (error) {
      // Eighty random bits do not meet by chance: the event that is there is this one, and its answer was lost.
      if (!(error instanceof ConditionFailed)) throw error
    }
    return record
  }

  /** One event; `undefined` when it is not there or has expired. */
  async get(entity: string, eventId: string): Promise<AuditRecord | undefined> {
    const item = await getItem(this.#table, keys.audit(this.#table.namespace, entity, eventId))
    return item && decodeAudit(item)
  }

  /** One event, whomever it is about; `complete` is false when the search was given up in a namespace with very many. */
  async find(eventId: string): Promise<{record: AuditRecord | undefined; complete: boolean}> {
    const {namespace, transport, backoff} = this.#table
    const {PK, SK} = keys.audit(namespace, '', eventId)
    const e = new ExpressionBuilder().project('PK', 'SK')
    e.filter(`${e.name('SK')} = ${e.value(s(SK))}`)
    const query = stretchQuery(this.#table, {index: 'GSI4', partition: namespace, prefix: PK}, e)
    let pages = 0
    for await (const {items, next} of queryPages(transport, query, {backoff})) {
      const key = items[0] && parseItemKey(items[0])
      if (key?.record === 'audit') return {record: await this.get(key.entity, eventId), complete: true}
      if (++pages === PAGES_PER_SEARCH && next) return {record: undefined, complete: false}
    }
    return {record: undefined, complete: true}
  }

  /** Events about one entity, newest first. */
  async list(selection: AuditSelection & {readonly entity: string}): Promise<RecordPage<AuditRecord>> {
    const {PK} = keys.audit(this.#table.namespace, selection.entity, '')
    const e = new ExpressionBuilder()
    if (selection.action !== undefined) e.filter(`${e.name('action')} = ${e.value(s(selection.action))}`)
    const stretch = {kind: 'audit-of-entity', partition: PK, between: bounds(selection), descending: true} as const
    const {records, next} = await readPage(this.#table, stretch, selection, e)
    return {records: records.flatMap(item => decodeAudit(item) ?? []), next}
  }

  /**
   * Events of the whole namespace, newest first. The index orders them by entity, so every page reads the keys of all
   * events (about 150 bytes each) before it reads those on the page.
   */
  async listAll(selection: AuditSelection = {}): Promise<RecordPage<AuditRecord>> {
    const {action} = selection
    // One more than wanted tells whether there is a next page.
    const wanted = checkPageLimit(selection.limit) + 1
    const found: AuditRecord[] = []
    const {transport, name, backoff} = this.#table
    for await (const chunk of chunksOf(await this.#keysNewestFirst(selection), EVENTS_PER_READ)) {
      const items = await batchGet(transport, name, chunk, {backoff, consistent: true})
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
    const sk = e.name('SK')
    e.filter(`${sk} BETWEEN ${e.value(s(first))} AND ${e.value(s(last))}`)
    if (after !== undefined) e.filter(`${sk} < ${e.value(s(keys.audit(namespace, '', after).SK))}`)
    const stretch = {index: 'GSI4', partition: namespace, prefix: keys.audit(namespace, '', '').PK} as const
    const events: Array<{entity: string; eventId: string}> = []
    for await (const item of readAll(this.#table, stretch, e)) {
      const key = parseItemKey(item)
      if (key?.record === 'audit') events.push(key)
    }
    events.sort((a, b) => (a.eventId > b.eventId ? -1 : 1))
    return events.map(({entity, eventId}) => keys.audit(namespace, entity, eventId))
  }

  async #stamp({entity, action, resource, details}: AuditEvent): Promise<AuditRecord> {
    const {namespace, clock, randomBytes} = this.#table
    const principal = typeof this.#principal === 'function' ? await this.#principal() : this.#principal
    const days = (await this.#retentionDays()) ?? DEFAULT_RETENTION_DAYS
    const nowMs = clock()
    return {
      namespace,
      entity,
      eventId: ulid(Math.floor(nowMs), randomBytes(10)),
      timestamp: isoSeconds(nowMs),
      action,
      principal: principal && checkPrincipal(principal),
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

function checkPrincipal(principal: string): string {
  return principal.startsWith('arn:') ? principal : checkEntityId(principal)
}

/** First and last sort key of a time range; an event id begins with its time, so the key itself can be asked for. */
function bounds({sinceMs = 0, untilMs = LATEST_ULID_MS}: AuditSelection): [string, string] {
  const first = Math.max(0, Math.ceil(sinceMs))
  const last = Math.min(LATEST_ULID_MS, Math.floor(untilMs))
  if (!(first <= last)) throw new InvalidInput('audit.range', 'The time range is empty: it ends before it starts.')
  return [
    sortPrefix.audit + ulid(first, new Uint8Array(10)),
    sortPrefix.audit + ulid(last, new Uint8Array(10).fill(255)),
  ]
}
