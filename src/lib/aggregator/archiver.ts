import {ExpressionBuilder} from '../dynamo/expression.js'
import {sendRepeatable, type Table} from '../repository/table/table.js'
import {n} from '../schema/attribute-value.js'
import {attributes} from '../schema/attributes.js'
import {keyOf, wireKey, withoutKey} from '../schema/keys.js'
import {type ArchiveSink, archiveEvents, type ExpiredEvent} from './audit-archive.js'
import {type Batch, each} from './batch.js'

/** Until an unarchived event expires again; DynamoDB may remove it later. */
export const EXPIRES_AGAIN_SECONDS = 6 * 3600

/** Pause after a failure: a hanging archive then delays one batch a minute, not every batch. */
const PAUSE_MS = 60_000

/** Puts unarchived events back into the table, to expire again. No event is lost, and none blocks the stream. */
export function createArchiver(table: Table, sink: ArchiveSink): (batch: Batch) => Promise<void> {
  let nextAttemptMs = Number.NEGATIVE_INFINITY

  /** Call after the steps that may fail records: only events before the first failure are archived now. */
  return async batch => {
    const events = batch.takeExpired()
    if (events.length === 0) return
    if (await store(batch, events)) {
      batch.counts.archived += events.length
      return
    }
    await each(events, async event => {
      try {
        await putBack(table, event)
        batch.counts.unarchived++
      } catch (error) {
        batch.fail([event.record.dynamodb.SequenceNumber], 'putting an event back', {}, error)
      }
    })
  }

  async function store(batch: Batch, events: readonly ExpiredEvent[]): Promise<boolean> {
    if (table.clock() < nextAttemptMs) return false
    const stored = await batch.attempt('archive', {events: events.length}, async () => {
      await archiveEvents(sink, events)
      return true
    })
    if (stored) return true
    nextAttemptMs = table.clock() + PAUSE_MS
    return false
  }
}

/** Stores an expired event with only its expiry changed. Idempotent. */
export async function putBack(table: Table, {record}: Pick<ExpiredEvent, 'record'>): Promise<void> {
  const {Keys, OldImage = {}} = record.dynamodb
  const expiry = attributes.audit.expiresAt
  const e = new ExpressionBuilder()
  for (const [name, value] of Object.entries(withoutKey({...OldImage, ...Keys})))
    if (name !== expiry) e.set(name, value)
  e.set(expiry, n(Math.floor(table.clock() / 1000) + EXPIRES_AGAIN_SECONDS))
  // Not PutItem: the role may put only namespaced audit events, and some events predate namespaces.
  const update = {TableName: table.name, Key: wireKey(keyOf(Keys)), ...e.update()}
  await sendRepeatable(table, 'UpdateItem', update)
}
