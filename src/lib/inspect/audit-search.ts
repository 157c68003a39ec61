import {InvalidInput, ZaelError} from '../core/errors.js'
import {ulidTimeMs} from '../core/ulid.js'
import type {AuditSelection} from '../repository/audit/audit.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {RecordPage} from '../repository/table/query.js'
import type {Table} from '../repository/table/table.js'
import type {AuditRecord} from '../schema/audit-record.js'
import {followAudit} from './audit-follow.js'
import {needEntity} from './known-names.js'

/** Which events are wanted; of the whole namespace when no entity is named. */
export interface EventSearch extends AuditSelection {
  readonly entity?: string | undefined
}

/** Events of an entity or of the namespace, newest first. An entity of which nothing is known is an error. */
export async function findEvents(
  repository: NamespaceRepository,
  search: EventSearch,
): Promise<RecordPage<AuditRecord>> {
  const {entity} = search
  if (entity === undefined) return repository.audit.listAll(search)
  const page = await repository.audit.list({...search, entity})
  const isSubject = entity.startsWith('$')
  if (page.records.length === 0 && search.cursor === undefined && !isSubject) {
    // Events outlive their entity: any of them is proof enough.
    const {records} = await repository.audit.list({entity, limit: 1})
    if (records.length === 0) await needEntity(repository, entity)
  }
  return page
}

/** The events that were found, oldest first, and then those that happen, each once. */
export async function* watchEvents(
  repository: NamespaceRepository,
  search: {readonly entity?: string | undefined; readonly action?: string | undefined},
  found: readonly AuditRecord[],
  {clock, backoff}: Pick<Table, 'clock' | 'backoff'>,
): AsyncGenerator<AuditRecord, void> {
  yield* found.toReversed()
  const read = async (sinceMs: number) => {
    const {entity} = search
    const selection = {...search, sinceMs}
    return (
      await (entity === undefined ? repository.audit.listAll(selection) : repository.audit.list({...selection, entity}))
    ).records
  }
  yield* followAudit({read, told: found, clock, sleep: ms => backoff.sleep(ms)})
}

/** One event by its id; throws when there is none. */
export async function findEvent(
  repository: NamespaceRepository,
  eventId: string,
  entity: string | undefined,
): Promise<AuditRecord> {
  if (ulidTimeMs(eventId) === undefined) {
    throw new InvalidInput('audit.id', `"${eventId}" is not the id of an event: that has 26 letters and digits.`, {
      hint: 'zael audit list --columns time,action,id',
      details: {id: eventId},
    })
  }
  const {record, complete} =
    entity === undefined
      ? await repository.audit.find(eventId)
      : {record: await repository.audit.get(entity, eventId), complete: true}
  if (record) return record
  const where = entity === undefined ? '' : ` about "${entity}"`
  const why = complete ? `There is no event ${eventId}${where}.` : `Event ${eventId} was not found among very many.`
  throw new ZaelError('notFound', 'audit.missing', why, {
    hint: complete
      ? 'Events expire; archived ones are in the audit archive. See `zael audit list`.'
      : 'Add --entity with the one it is about: then it is read directly.',
    details: {id: eventId, entity: entity ?? null, complete},
  })
}
