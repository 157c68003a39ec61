import {createHash} from 'node:crypto'
import {promisify} from 'node:util'
import {gzip} from 'node:zlib'
import {attributes} from '../schema/attributes.js'
import {type AuditRecord, auditJson, decodeAudit, isAuditKey} from '../schema/audit-record.js'
import {isoSeconds} from '../schema/instant.js'
import {keyOf} from '../schema/keys.js'
import {splitNamespace} from '../schema/legacy/key.js'
import {modernise} from '../schema/legacy/modernise.js'
import {readString} from '../schema/read.js'
import type {ArchiveSink} from './archive-sink.js'
import {MalformedRecord, occurredAtMs, type StreamRecord, streamLabel} from './stream-event.js'

/** An audit event that the table has let go of because its time was over. */
export interface ExpiredEvent {
  readonly record: StreamRecord
  /** `undefined` for an event from before there were namespaces. */
  readonly namespace: string | undefined
  readonly event: AuditRecord
}

/** Deletions by the service are expiries; what somebody deleted on purpose is not archived. */
export function readExpiredEvent(record: StreamRecord): ExpiredEvent | undefined {
  const {eventName, userIdentity, dynamodb} = record
  const isExpiry = userIdentity?.type === 'Service' && userIdentity.principalId === 'dynamodb.amazonaws.com'
  if (eventName !== 'REMOVE' || !isExpiry) return undefined
  if (!isAuditKey(keyOf(dynamodb.Keys))) return undefined
  if (!dynamodb.OldImage) throw new MalformedRecord('it does not show the event that has expired')
  const {namespace} = splitNamespace(readString(dynamodb.Keys, attributes.key.partition) ?? '')
  const event = decodeAudit(modernise({...dynamodb.OldImage, ...dynamodb.Keys}, 'none'))
  if (!event) throw new MalformedRecord('its key is not that of an audit event')
  return {record, namespace, event}
}

/**
 * Writes the events of one batch as one object of gzipped JSON lines. Its name follows from where the batch starts in
 * the stream and from its content, so a batch that is delivered again replaces its own object. One that is delivered
 * again in other portions leaves an event in two objects, with the same `event_id`.
 */
export async function archiveEvents(sink: ArchiveSink, events: readonly ExpiredEvent[]): Promise<void> {
  const [first] = events
  if (!first) return
  const text = events.map(event => `${JSON.stringify(lineOf(event))}\n`).join('')
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 16)
  const label = streamLabel(first.record.eventSourceARN).replaceAll(':', '-')
  const name = `audit-${label}-${first.record.dynamodb.SequenceNumber}-${hash}.jsonl.gz`
  const options = {contentType: 'application/x-ndjson', contentEncoding: 'gzip'}
  // Node writes no time of its own into the header: equal text gives equal bytes.
  await sink.put(`audit/${folderOf(events)}/${name}`, await promisify(gzip)(text), options)
}

function lineOf({event, namespace}: ExpiredEvent): Record<string, unknown> {
  return {...auditJson(event), namespace: namespace ?? null}
}

/** By the day of the earliest event. */
function folderOf(events: readonly ExpiredEvent[]): string {
  const instants = events.map(({event, record}) => {
    const written = Date.parse(event.timestamp)
    return Number.isNaN(written) ? occurredAtMs(record) : written
  })
  const [year, month, day] = isoSeconds(Math.min(...instants))
    .slice(0, 10)
    .split('-')
  return `year=${year}/month=${month}/day=${day}`
}
