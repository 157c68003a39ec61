import {InvalidInput, ZaelError} from '../../core/errors.js'
import {ulidTimeMs} from '../../core/ulid.js'
import {isUnavailability} from '../../dynamo/errors.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {AuditSelection} from '../../repository/table/audit.js'
import type {RecordPage} from '../../repository/table/query.js'
import type {Table} from '../../repository/table/table.js'
import {type AuditRecord, isSubject, resourceSubject, SYSTEM_SUBJECT} from '../../schema/audit-record.js'
import {type AccessSwitch, accessInDetails, type ConfigScope} from '../../schema/config-record.js'
import {typedName} from '../../schema/hashed-name.js'
import {needEntity} from './known-names.js'

/** Every read goes back this far, because an index may show an event late. */
const OVERLAP_MS = 60_000

const POLL_INTERVAL_MS = 2000

/** An entity, or a resource as commands show it: `$RESOURCE:claude@1`. */
export function typedSubject(typed: string): string {
  const start = resourceSubject('')
  return typed.startsWith(start) ? start + typedName('resource', typed.slice(start.length)) : typed
}

/** Newest first. Throws for an unknown entity. */
export async function findEvents(
  repository: NamespaceRepository,
  search: AuditSelection & {readonly entity?: string | undefined},
): Promise<RecordPage<AuditRecord>> {
  const {entity} = search
  const page = await eventsOf(repository, search)
  if (entity !== undefined && page.records.length === 0 && search.cursor === undefined && !isSubject(entity)) {
    // Events outlive their entity: one proves that it existed.
    const {records} = await repository.audit.list({entity, limit: 1})
    if (records.length === 0) await needEntity(repository, entity)
  }
  return page
}

const eventsOf = (
  {audit}: NamespaceRepository,
  {entity, ...search}: AuditSelection & {readonly entity?: string | undefined},
): Promise<RecordPage<AuditRecord>> => (entity === undefined ? audit.listAll(search) : audit.list({...search, entity}))

/** When and by whom a switch was set. */
export interface SwitchSet {
  /** ISO 8601. */
  readonly at: string
  readonly by: string | undefined
}

/** More changes than a scope has within the time that events are kept. */
const EVENTS_OF_SCOPE = 200

/** `undefined`: the event has expired, or another client set the switch. */
export async function switchSet(
  {audit}: Pick<NamespaceRepository, 'audit'>,
  scope: ConfigScope,
  access: AccessSwitch,
): Promise<SwitchSet | undefined> {
  if (scope.level === 'system') return undefined
  const entity = scope.level === 'entity' ? scope.entity : resourceSubject(scope.resource)
  const {records} = await audit.list({entity, limit: EVENTS_OF_SCOPE})
  for (const {resource, details, timestamp: at, principal: by} of records) {
    const set = resource === scope.resource ? accessInDetails(details) : undefined
    if (set) return set.access === access ? {at, by} : undefined
  }
  return undefined
}

/** Events of a scope to look through for a change. */
const LATEST_EVENTS = 20

/** Epoch ms of the first change of these limits or switches after an instant. */
export async function limitsChangedSince(
  {audit}: Pick<NamespaceRepository, 'audit'>,
  scopes: readonly ConfigScope[],
  sinceMs: number,
): Promise<number | undefined> {
  const changes = await Promise.all(
    scopes.map(async scope => {
      const entity = scope.level === 'entity' ? scope.entity : subjectOf(scope)
      const {records} = await audit.list({entity, sinceMs, limit: LATEST_EVENTS})
      const isOfScope = ({action, resource}: AuditRecord) =>
        action.startsWith('limits_') && (scope.level !== 'entity' || resource === scope.resource)
      return records.filter(isOfScope).map(({eventId, timestamp}) => ulidTimeMs(eventId) ?? Date.parse(timestamp))
    }),
  )
  const all = changes.flat()
  return all.length === 0 ? undefined : Math.min(...all)
}

const subjectOf = (scope: Exclude<ConfigScope, {readonly level: 'entity'}>): string =>
  scope.level === 'system' ? SYSTEM_SUBJECT : resourceSubject(scope.resource)

/** Yields `found`, oldest first, then new events as they happen, each once. */
export async function* watchEvents(
  repository: NamespaceRepository,
  search: {readonly entity?: string | undefined; readonly action?: string | undefined},
  found: readonly AuditRecord[],
  {clock, backoff}: Pick<Table, 'clock' | 'backoff'>,
  onOutage: FollowOptions['onOutage'],
): AsyncGenerator<AuditRecord, void> {
  yield* found.toReversed()
  const read = async (sinceMs: number) => (await eventsOf(repository, {...search, sinceMs})).records
  yield* followAudit({read, shown: found, clock, sleep: ms => backoff.sleep(ms), onOutage})
}

interface FollowOptions {
  /** Newest first. */
  readonly read: (sinceMs: number) => Promise<readonly AuditRecord[]>
  readonly shown: Iterable<AuditRecord>
  readonly clock: () => number
  readonly sleep: (ms: number) => Promise<void>
  /** Called with an error when the table becomes unavailable, and with `undefined` when it is back. */
  readonly onOutage: (error: Error | undefined) => void
}

/** Yields each event once, oldest first, including those of an outage. Never ends. */
export async function* followAudit({
  read,
  shown,
  clock,
  sleep,
  onOutage,
}: FollowOptions): AsyncGenerator<AuditRecord, never> {
  let newestShown = ''
  for (const {eventId} of shown) if (eventId > newestShown) newestShown = eventId
  // Events older than the newest one shown were left out on purpose, unless they appear later.
  let isNew = (eventId: string): boolean => eventId > newestShown
  let readUntilMs = clock()
  let isOut = false
  for (;;) {
    const nowMs = clock()
    const found = await read(readUntilMs - OVERLAP_MS).catch(error => {
      if (!isUnavailability(error)) throw error
      if (!isOut) onOutage(error)
      isOut = true
    })
    if (!found) {
      await sleep(POLL_INTERVAL_MS)
      continue
    }
    if (isOut) onOutage(undefined)
    isOut = false
    readUntilMs = nowMs
    yield* found.filter(({eventId}) => isNew(eventId)).toReversed()
    const seen = new Set(found.map(({eventId}) => eventId))
    isNew = eventId => !seen.has(eventId)
    await sleep(POLL_INTERVAL_MS)
  }
}

/** Throws if it does not exist. */
export async function findEvent(
  repository: NamespaceRepository,
  eventId: string,
  entity: string | undefined,
): Promise<AuditRecord> {
  if (ulidTimeMs(eventId) === undefined) {
    throw new InvalidInput('audit.id', `"${eventId}" is not an event id: event ids have 26 letters and digits.`, {
      hint: 'zael audit list --columns time,action,id',
      details: {id: eventId},
    })
  }
  const {record, complete} =
    entity === undefined
      ? await repository.audit.find(eventId)
      : {record: await repository.audit.get(entity, eventId), complete: true}
  if (record) return record
  const where = entity === undefined ? '' : ` for "${entity}"`
  const why = complete
    ? `Event ${eventId}${where} does not exist.`
    : `Event ${eventId} was not found. The search stopped early because the namespace has too many events.`
  throw new ZaelError('notFound', 'audit.missing', why, {
    hint: complete
      ? 'Events expire; the audit archive may have it. List events: zael audit list'
      : 'Add --entity to read the event directly.',
    details: {id: eventId, entity: entity ?? null, complete},
  })
}
