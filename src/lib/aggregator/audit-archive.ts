import {createHash, randomUUID} from 'node:crypto'
import {mkdir, open, rename, rm} from 'node:fs/promises'
import {dirname, join} from 'node:path'
import {promisify} from 'node:util'
import {gzip} from 'node:zlib'
import {isoSeconds, readString} from '../schema/attribute-value.js'
import {attributes} from '../schema/attributes.js'
import {type AuditRecord, auditJson, decodeAudit, isAuditKey} from '../schema/audit-record.js'
import {keyOf} from '../schema/keys.js'
import {modernise} from '../schema/legacy-item.js'
import {splitNamespace} from '../schema/legacy-key.js'
import {MalformedRecord, occurredAtMs, type StreamRecord, streamLabel} from './stream-event.js'

/** Must be idempotent: a retry puts the same key again. */
export interface ArchiveSink {
  put(key: string, body: Uint8Array, options: {contentType: string; contentEncoding: string}): Promise<void>
}

export function folderSink(folder: string): ArchiveSink {
  return {
    async put(key, body) {
      const path = join(folder, key)
      await mkdir(dirname(path), {recursive: true})
      const draft = `${path}.${randomUUID()}.tmp`
      try {
        const file = await open(draft, 'wx')
        await file
          .writeFile(body)
          .then(() => file.sync())
          .finally(() => file.close())
        await rename(draft, path)
      } catch (error) {
        await rm(draft, {force: true})
        throw error
      }
    },
  }
}

export interface ExpiredEvent {
  readonly record: StreamRecord
  /** `undefined` for events older than namespaces. */
  readonly namespace: string | undefined
  readonly event: AuditRecord
}

/** Only deletions by the service are expiries; events deleted by users are not archived. */
export function readExpiredEvent(record: StreamRecord): ExpiredEvent | undefined {
  const {eventName, userIdentity, dynamodb} = record
  const isExpiry = userIdentity?.type === 'Service' && userIdentity.principalId === 'dynamodb.amazonaws.com'
  if (eventName !== 'REMOVE' || !isExpiry) return undefined
  if (!isAuditKey(keyOf(dynamodb.Keys))) return undefined
  if (!dynamodb.OldImage) throw new MalformedRecord('it has no image of the expired event')
  const {namespace} = splitNamespace(readString(dynamodb.Keys, attributes.key.partition) ?? '')
  const event = decodeAudit(modernise({...dynamodb.OldImage, ...dynamodb.Keys}, 'none'))
  if (!event) throw new MalformedRecord('its key does not belong to an audit event')
  return {record, namespace, event}
}

/**
 * Named by position and content: a redelivered batch replaces its object. Split into other batches, an `event_id`
 * repeats.
 */
export async function archiveEvents(sink: ArchiveSink, events: readonly ExpiredEvent[]): Promise<void> {
  const [first] = events
  if (!first) return
  const text = events
    .map(({event, namespace = null}) => `${JSON.stringify({...auditJson(event), namespace})}\n`)
    .join('')
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 16)
  const label = streamLabel(first.record.eventSourceARN).replaceAll(':', '-')
  const name = `audit-${label}-${first.record.dynamodb.SequenceNumber}-${hash}.jsonl.gz`
  const options = {contentType: 'application/x-ndjson', contentEncoding: 'gzip'}
  // Node's gzip writes no timestamp: equal text gives equal bytes.
  await sink.put(`audit/${folderOf(events)}/${name}`, await promisify(gzip)(text), options)
}

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
