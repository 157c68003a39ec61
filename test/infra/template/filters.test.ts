import {beforeAll, expect, it} from 'vitest'
import {readExpiredEvent} from '../../../src/lib/aggregator/audit-archive.js'
import {readBucketChange} from '../../../src/lib/aggregator/bucket-change.js'
import type {StreamRecord} from '../../../src/lib/aggregator/stream-event.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {readString} from '../../../src/lib/schema/attribute-value.js'
import {parseItemKey} from '../../../src/lib/schema/keys.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../../helpers/table.js'
import {asExpiry, capturedStream} from './captured-stream.js'
import {passes} from './event-filter.js'
import {stackWith} from './stack-model.js'

const PATTERNS: string[] = stackWith().Resources.AggregatorEventSourceMapping.Properties.FilterCriteria.Filters.map(
  ({Pattern}: {Pattern: string}) => Pattern,
)

/** The filters of the reference. */
const REFERENCE = [
  '{"eventName":["MODIFY"],"dynamodb":{"NewImage":{"SK":{"S":["#STATE"]}}}}',
  '{"eventName":["REMOVE"],"dynamodb":{"OldImage":{"PK":{"S":[{"prefix":"AUDIT#"}]}}}}',
]

describeOnEngine('the filters pass to the aggregator', () => {
  const table = useTable({stream: true})
  const namespaces: string[] = []
  let records: StreamRecord[]

  beforeAll(async () => {
    const open = {stack: table.name, transport: table.transport}
    const repository = new Repository(open)
    for (const name of ['default', 'tenant']) {
      const {namespace} = await repository.namespaces.register(name)
      namespaces.push(namespace.id)
      const tenant = repository.namespaceById(namespace.id)
      await tenant.entities.create({id: 'user-1'})
      await tenant.entities.create({id: 'gone'})
      await tenant.setLimits({level: 'resource', resource: 'models/gpt-4'}, parseLimits(['rpm=100']))
      const limiter = new RateLimiter({...open, namespace: name, timeoutMs: PATIENT_MS})
      for (const entity of ['user-1', 'gone', 'user-1']) {
        await limiter.acquire({entity, resource: 'models/gpt-4', consume: {rpm: 1}})
      }
      await limiter.close()
      await tenant.entities.delete('gone')
      const {records: events} = await tenant.audit.list({entity: 'user-1'})
      for (const {eventId} of events) {
        const Key = {PK: {S: `${namespace.id}/AUDIT#user-1`}, SK: {S: `#AUDIT#${eventId}`}}
        await table.transport.send('DeleteItem', {TableName: table.name, Key})
      }
    }
    records = await capturedStream(table)
  })

  const ofKind = (kind: string, eventName: string) =>
    records.filter(record => record.eventName === eventName && parseItemKey(record.dynamodb.Keys)?.record === kind)

  it('C-17 buckets of every namespace when they are created or changed', () => {
    for (const eventName of ['INSERT', 'MODIFY']) {
      const buckets = ofKind('bucket', eventName)
      const seen = new Set(buckets.map(({dynamodb}) => readString(dynamodb.Keys, 'PK')?.split('/')[0]))
      expect(seen).toEqual(new Set(namespaces))
      expect(buckets.every(record => passes(PATTERNS, record))).toBe(true)
    }
    expect(ofKind('bucket', 'INSERT').some(record => passes(REFERENCE, record))).toBe(false)
  })

  it('D-29 C-18 audit events of every namespace when they expire, not when they are deleted by a request', () => {
    const removed = ofKind('audit', 'REMOVE')
    expect(new Set(removed.map(({dynamodb}) => readString(dynamodb.Keys, 'PK')?.split('/')[0]))).toEqual(
      new Set(namespaces),
    )
    expect(removed.some(record => passes(PATTERNS, record))).toBe(false)
    expect(removed.map(asExpiry).every(record => passes(PATTERNS, record))).toBe(true)
    expect(removed.map(asExpiry).some(record => passes(REFERENCE, record))).toBe(false)
  })

  it('all records that the aggregator processes, and no others', () => {
    const kinds = new Set(records.map(({dynamodb}) => parseItemKey(dynamodb.Keys)?.record))
    expect(kinds).toEqual(
      new Set([
        'namespace-by-name',
        'namespace-by-id',
        'entity',
        'audit',
        'resource-config',
        'resource-registry',
        'bucket',
      ]),
    )
    const expiries = records.filter(({eventName}) => eventName === 'REMOVE').map(asExpiry)
    const all = [...records, ...expiries]
    const wanted = all.filter(record => readBucketChange(record) ?? readExpiredEvent(record))
    expect(wanted.length).toBe(8)
    expect(all.filter(record => passes(PATTERNS, record))).toEqual(wanted)
    expect(wanted.length).toBeLessThan(all.length / 2)
  })
})
