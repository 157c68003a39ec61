import {expect, it} from 'vitest'
import {withSupervisor} from '../../../src/lib/cli/base/local-health.js'
import {healthJson, statusHealthLines} from '../../../src/lib/cli/stack/status-presenter.js'
import {passesCheck} from '../../../src/lib/infra/health/parts.js'
import {schemaProblems} from '../../e2e/schemas.js'
import {healthWith, WELL} from '../../infra/health/sample-health.js'

const AROUND = {cloudFormation: null, aggregator: null, mapping: null, traffic: null, deadLetters: null, alarms: null}

const AGGREGATOR = {records: 3, batches: 1, snapshots: 3, refused: 4, refills: 0, splits: 0, archived: 0, errors: 0}

const SUPERVISOR = {
  endpoint: 'http://127.0.0.1:8000',
  engine: 'dynoxide 1.2.1',
  uptimeMs: 65_000,
  engineRestarts: 1,
  aggregator: {...AGGREGATOR, lastError: null, lagMs: 0, streamLength: 3},
}

const show = (...args: Parameters<typeof healthWith>) => statusHealthLines(healthWith(...args), null).join('\n')

it('shows a healthy stack with the verdict last', () => {
  expect(show()).toMatchInlineSnapshot(`
    "Stack prod, eu-west-1
      deployed      by zael 0.1.0, update complete, 2026-11-01T08:00:00Z
      options       LambdaMemorySize=1024, EnableTracing=true
      table         active, 12,345 items, 3.2 MB
      indexes       GSI1 all, GSI2 keys only, GSI3 keys only, GSI4 keys only
      safety        deletion protection on, point-in-time recovery on, termination protection off
      throughput    warm for 12,000 reads and 4,000 writes a second
      stream        both images, expiry on
      throttled     0 reads, 0 writes in the last hour
      refused       0 requests in the last hour
      aggregator    prod-aggregator, active, nodejs24.x, 1,024 MB, same code as this zael
      mapping       enabled, OK
      lag           1 s behind, 0 errors in the last hour
      dead letters  0 in prod-aggregator-dlq
      alarms        1 insufficient data, 1 ok
      versions      layout 0.9.0 by zael:0.1.0, no migration pending

    Alarms
      prod-aggregator-errors  ok
      prod-aggregator-dlq     insufficient data

    Policies
      AcquireOnly  arn:aws:iam::123456789012:policy/prod-acq
      FullAccess   arn:aws:iam::123456789012:policy/prod-full

    prod is healthy"
  `)
})

it('C-41 shows alarms and dead letters with their fixes', () => {
  const alarms = [{...WELL.alarms[0], state: 'ALARM', reason: 'Threshold Crossed', notifies: false}, WELL.alarms[1]]
  expect(
    show({
      alarms: alarms.map(each => ({...each, notifies: false})),
      deadLetters: {queue: 'prod-aggregator-dlq', messages: 3},
    }),
  ).toMatchInlineSnapshot(`
    "Stack prod, eu-west-1
      deployed      by zael 0.1.0, update complete, 2026-11-01T08:00:00Z
      options       LambdaMemorySize=1024, EnableTracing=true
      table         active, 12,345 items, 3.2 MB
      indexes       GSI1 all, GSI2 keys only, GSI3 keys only, GSI4 keys only
      safety        deletion protection on, point-in-time recovery on, termination protection off
      throughput    warm for 12,000 reads and 4,000 writes a second
      stream        both images, expiry on
      throttled     0 reads, 0 writes in the last hour
      refused       0 requests in the last hour
      aggregator    prod-aggregator, active, nodejs24.x, 1,024 MB, same code as this zael
      mapping       enabled, OK
      lag           1 s behind, 0 errors in the last hour
      dead letters  3 in prod-aggregator-dlq
      alarms        1 alarm, 1 insufficient data; no notifications configured
      versions      layout 0.9.0 by zael:0.1.0, no migration pending

    Alarms
      prod-aggregator-errors  alarm
      prod-aggregator-dlq     insufficient data

    Policies
      AcquireOnly  arn:aws:iam::123456789012:policy/prod-acq
      FullAccess   arn:aws:iam::123456789012:policy/prod-full

    Problems
      3 batches of the stream failed permanently. See queue prod-aggregator-dlq.
        Try: zael aggregator dead-letters --stack prod
      Alarm prod-aggregator-errors: Threshold Crossed

    prod is degraded: 2 problems"
  `)
})

it('names unreadable parts, and does not call them healthy', () => {
  const denied = {
    code: 'aws.denied',
    reason: 'Not allowed to read the alarms',
    fix: 'Ask for cloudwatch:DescribeAlarms.',
  }
  expect(
    show({alarms: null, traffic: null}, [
      {part: 'alarms', ...denied},
      {part: 'traffic', ...denied},
    ]),
  ).toMatchInlineSnapshot(`
    "Stack prod, eu-west-1
      deployed      by zael 0.1.0, update complete, 2026-11-01T08:00:00Z
      options       LambdaMemorySize=1024, EnableTracing=true
      table         active, 12,345 items, 3.2 MB
      indexes       GSI1 all, GSI2 keys only, GSI3 keys only, GSI4 keys only
      safety        deletion protection on, point-in-time recovery on, termination protection off
      throughput    warm for 12,000 reads and 4,000 writes a second
      stream        both images, expiry on
      aggregator    prod-aggregator, active, nodejs24.x, 1,024 MB, same code as this zael
      mapping       enabled, OK
      dead letters  0 in prod-aggregator-dlq
      versions      layout 0.9.0 by zael:0.1.0, no migration pending

    Policies
      AcquireOnly  arn:aws:iam::123456789012:policy/prod-acq
      FullAccess   arn:aws:iam::123456789012:policy/prod-full

    Unknown
      alarms: Not allowed to read the alarms
        Try: Ask for cloudwatch:DescribeAlarms.
      metrics: Not allowed to read the alarms
        Try: Ask for cloudwatch:DescribeAlarms.

    prod is healthy; unknown: alarms, metrics"
  `)
})

it('calls a stack unhealthy if parts did not respond, and healthy as far as known if access was denied', () => {
  const silent = {part: 'traffic', code: 'aws.unavailable', reason: 'AWS gives no answer', fix: null} as const
  const denied = {part: 'alarms', code: 'aws.denied', reason: 'no', fix: null} as const
  const verdictOf = (...args: Parameters<typeof healthWith>) =>
    show(...args)
      .split('\n')
      .at(-1)
  expect(verdictOf({traffic: null}, [silent])).toBe('The health of prod is unknown; could not read: metrics')
  expect(verdictOf({traffic: null, alarms: null}, [silent, denied])).toBe(
    'The health of prod is unknown; could not read: metrics, alarms',
  )
  expect(verdictOf({table: {...WELL.table, expiry: false}, traffic: null}, [silent])).toBe(
    'prod is degraded: 1 problem; unknown: metrics',
  )
  expect([
    passesCheck(healthWith()),
    passesCheck(healthWith({alarms: null}, [denied])),
    passesCheck(healthWith({traffic: null, alarms: null}, [silent, denied])),
    passesCheck(healthWith({table: null}, [])),
  ]).toEqual([true, true, false, false])
  expect(healthJson(healthWith({alarms: null}, [denied]), null)).toMatchObject({healthy: null})
})

it('shows maximum throughput', () => {
  const throughput = {maxReads: 1_000, maxWrites: null, warmReads: null, warmWrites: 8_000}
  expect(show({table: {...WELL.table, throughput}})).toContain(
    '  throughput    at most 1,000 reads a second, warm for 8,000 writes a second\n',
  )
})

it('shows a local stack with its supervisor', () => {
  const health = {...healthWith(AROUND), region: null}
  expect(statusHealthLines(health, SUPERVISOR).join('\n')).toMatchInlineSnapshot(`
    "Stack prod, on this machine
      table       active, 12,345 items, 3.2 MB
      indexes     GSI1 all, GSI2 keys only, GSI3 keys only, GSI4 keys only
      safety      deletion protection on, point-in-time recovery on
      throughput  warm for 12,000 reads and 4,000 writes a second
      stream      both images, expiry on
      aggregator  records 3, errors 0, lag 0 ms
      versions    layout 0.9.0 by zael:0.1.0, no migration pending
      endpoint    http://127.0.0.1:8000
      engine      dynoxide 1.2.1, up 1 min 5 s, restarts: 1

    prod is healthy"
  `)
})

it('marks a local stack degraded on an aggregator error, and names the log', () => {
  const failing = {...SUPERVISOR, aggregator: {...SUPERVISOR.aggregator, lastError: 'no such stream'}}
  const health = withSupervisor(healthWith(AROUND), failing)
  expect(health.isHealthy).toBe(false)
  expect(health.findings[0]).toMatchObject({message: 'no such stream', fix: 'zael local logs'})
  expect(withSupervisor(healthWith(AROUND), SUPERVISOR).isHealthy).toBe(true)
  expect(withSupervisor(healthWith(AROUND), null).isHealthy).toBe(true)
})

it('says that usage is not counted only when that is known', () => {
  const none = healthWith({...AROUND})
  expect(statusHealthLines(none, null)).toContain('  aggregator  none: usage is not counted')
  expect(statusHealthLines(none, {...SUPERVISOR, aggregator: null})).toContain(
    '  aggregator  off: usage is not counted',
  )
})

it('has the same content in JSON, and matches the schema', () => {
  expect(schemaProblems('status', healthJson(healthWith(), null))).toEqual([])
  expect(schemaProblems('status', healthJson({...healthWith(AROUND), region: null}, SUPERVISOR))).toEqual([])
  const parts = [{part: 'table', code: 'dynamo.denied', reason: 'no', fix: null}] as const
  expect(schemaProblems('status', healthJson(healthWith({table: null, versions: null}, parts), null))).toEqual([])
  expect(healthJson(healthWith({versions: null}), null)).toMatchObject({
    healthy: true,
    versions: null,
    aggregator: {ownCode: true},
  })
})

it('shows drift with both values and the fix', () => {
  const resource = {physicalId: 'prod-aggregator', type: 'AWS::Lambda::Function', logicalId: 'AggregatorFunction'}
  const properties = [{path: '/MemorySize', expected: '512', actual: '1024'}]
  const gone = {...resource, logicalId: 'AppRole', physicalId: 'prod-app', type: 'AWS::IAM::Role', properties: []}
  const health = healthWith({
    drift: [
      {...resource, change: 'modified', properties},
      {...gone, change: 'deleted'},
    ],
  })
  const lines = statusHealthLines(health, null)
  expect(lines.join('\n')).toContain(
    [
      'Drift',
      '  AggregatorFunction prod-aggregator (Lambda Function)',
      '    /MemorySize: 512 -> 1024',
      '  AppRole prod-app (IAM Role): deleted',
      '',
      'Problems',
      '  AggregatorFunction (AWS::Lambda::Function) differs from the template: /MemorySize.',
      '    Try: zael deploy --stack prod --repair',
    ].join('\n'),
  )
  expect(lines.at(-1)).toBe('prod is degraded: 2 problems')
  expect(schemaProblems('status', healthJson(health, null))).toEqual([])
  expect(statusHealthLines(healthWith({drift: []}), null).join('\n')).toContain(
    'none: all resources match the template',
  )
})
