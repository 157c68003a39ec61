import {describe, expect, it} from 'vitest'
import {lambdaPackage} from '../../../src/lib/infra/stack/artifacts.js'
import {encodeAudit} from '../../../src/lib/schema/audit-record.js'
import {streamRecord} from '../../aggregator/fixtures/stream.js'
import {passes} from './event-filter.js'
import {stackWith} from './stack-model.js'

const KEY = 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab'
const TOPIC = 'arn:aws:sns:eu-west-1:123456789012:ops'

describe('the stack', () => {
  it('C-12 retains table and archive when it is deleted', () => {
    const {Table, AuditArchiveBucket} = stackWith().Resources
    for (const {DeletionPolicy} of [Table, AuditArchiveBucket]) expect(DeletionPolicy).toBe('Retain')
  })

  it('C-13 runs the packaged code on both architectures, without a build', async () => {
    const architecture = (LambdaArchitecture: string) =>
      stackWith({LambdaArchitecture}).Resources.AggregatorFunction.Properties.Architectures
    expect([architecture('arm64'), architecture('x86_64')]).toEqual([['arm64'], ['x86_64']])
    // The hash is the same every time, so that an unchanged package is not uploaded again.
    const [first, second] = [await lambdaPackage(), await lambdaPackage()]
    expect(first.sha256Base64).toBe(second.sha256Base64)
  })

  it('C-14 accepts an encryption key and reserved concurrency', () => {
    const {Table, AggregatorFunction} = stackWith({
      TableEncryptionKey: KEY,
      LambdaReservedConcurrency: '3',
    }).Resources
    expect(Table.Properties.SSESpecification.KMSMasterKeyId).toBe(KEY)
    expect(AggregatorFunction.Properties.ReservedConcurrentExecutions).toBe('3')
  })

  it('C-41 notifies the topic of the dead-letter alarm, and has a dashboard', () => {
    const {AggregatorDLQAlarm, Dashboard} = stackWith({AlarmSNSTopicArn: TOPIC}).Resources
    expect(AggregatorDLQAlarm.Properties.AlarmActions).toEqual([TOPIC])
    expect(JSON.parse(Dashboard.Properties.DashboardBody).widgets.length).toBeGreaterThan(0)
  })

  it('D-29 C-18 passes expired audit events, whose keys start with a namespace', () => {
    const {Filters} = stackWith().Resources.AggregatorEventSourceMapping.Properties.FilterCriteria
    const ours: string[] = Filters.map(({Pattern}: {Pattern: string}) => Pattern)
    const theirs = ['{"eventName":["REMOVE"],"dynamodb":{"OldImage":{"PK":{"S":[{"prefix":"AUDIT#"}]}}}}']
    const event = encodeAudit({
      ...{namespace: 'fBkmrAwsQ0Q', entity: 'user-1', eventId: 'A', timestamp: '2023-08-16T11:12:13Z'},
      ...{action: 'entity_created', principal: undefined, resource: undefined, details: {}, ttlSeconds: 1},
    })
    const expired = streamRecord(event, undefined, {byService: true})
    expect([passes(theirs, expired), passes(ours, expired)]).toEqual([false, true])
    // Deleted by hand: not archived.
    expect(passes(ours, streamRecord(event, undefined))).toBe(false)
  })
})
