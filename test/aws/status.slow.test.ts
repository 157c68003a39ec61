import {PutMetricDataCommand, SetAlarmStateCommand} from '@aws-sdk/client-cloudwatch'
import {ListEventSourceMappingsCommand, UpdateEventSourceMappingCommand} from '@aws-sdk/client-lambda'
import {GetQueueUrlCommand, SendMessageCommand} from '@aws-sdk/client-sqs'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {neededActions} from '../../src/lib/infra/doctor/permission-checks.js'
import {encodeVersion, type VersionRecord} from '../../src/lib/schema/version-record.js'
import {schemaProblems} from '../e2e/schemas.js'
import {denial, type IamProxy, iamProxy} from './iam-proxy.js'
import {describeWithPython, emptyMoto, type Moto} from './moto.js'
import {deploySmallStack, type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

// moto ignores expiry, point-in-time recovery and alarms of a template, so these tests use small stacks with known parts;
// deploy.slow.test.ts deploys the real template.

const VERSION: VersionRecord = {
  schemaVersion: '0.9.0',
  lambdaVersion: undefined,
  clientMinVersion: '0.0.0',
  updatedAt: '2026-01-01T00:00:00Z',
  updatedBy: 'zael:0.1.0',
}

describeWithPython('zael status', {timeout: 300_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let proxy: IamProxy
  let user: StackUser

  beforeAll(async () => {
    moto = await emptyMoto()
    account = openMoto(moto)
    proxy = await iamProxy(moto.endpoint)
    user = stackUser(proxy.endpoint)
    for (const name of ['healthy', 'broken']) await deploySmallStack(account, {name, owner: 'zael'})
    await deploySmallStack(account, {name: 'python', owner: 'zae-limiter', filters: ['{"eventName":["MODIFY"]}']})
    await deploySmallStack(account, {name: 'foreign', owner: 'other'})
    for (const TableName of ['healthy', 'broken', 'python']) {
      await account.transport.send('PutItem', {TableName, Item: encodeVersion(VERSION)})
    }
  }, 300_000)

  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]()
    await account?.[Symbol.asyncDispose]()
  })

  it('reports a healthy stack as text and as JSON', async () => {
    const {code, stdout} = await user.run('status --stack healthy')
    expect(code).toBe(0)
    const steady = stdout
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, '2026-01-01T00:00:00Z')
      .replace(/\d+ more parameters/, 'N more parameters')
    expect(steady).toMatchInlineSnapshot(`
      "Stack healthy, eu-west-1
        deployed      by zael 0.1.0, create complete, 2026-01-01T00:00:00Z
        table         active, 1 item, 0 bytes
        indexes       GSI1 all, GSI2 keys only, GSI3 keys only, GSI4 keys only
        safety        deletion protection off, point-in-time recovery off, termination protection off
        throughput    warm for 12,000 reads and 4,000 writes a second
        stream        both images, expiry on
        throttled     0 reads, 0 writes in the last hour
        refused       0 requests in the last hour
        aggregator    healthy-aggregator, active, nodejs24.x, 512 MB, same code as this zael
        mapping       enabled
        lag           no records in the last hour, 0 errors in the last hour
        dead letters  0 in healthy-aggregator-dlq
        alarms        2 ok
        versions      layout 0.9.0 by zael:0.1.0, no migration pending

      Alarms
        healthy-aggregator-dlq     ok
        healthy-aggregator-errors  ok

      Policies
        AcquireOnly  arn:aws:iam::123456789012:policy/healthy-acq

      Notes
        The template of this zael version is newer. It adds ResourceIndexProjection and N more parameters.
          Try: zael deploy --stack healthy --dry-run
        Point-in-time recovery is off.
          Try: aws dynamodb update-continuous-backups --table-name healthy --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true

      healthy is healthy
      "
    `)
    const result = await user.json('status --stack healthy')
    expect(result).toMatchObject({
      healthy: true,
      region: 'eu-west-1',
      cloudFormation: {owner: 'zael', version: '0.1.0'},
      aggregator: {name: 'healthy-aggregator', ownCode: true},
      mapping: {state: 'Enabled'},
      deadLetters: {messages: 0},
      alarms: [{name: 'healthy-aggregator-dlq'}, {name: 'healthy-aggregator-errors', notifies: true}],
      versions: {schemaVersion: '0.9.0', migrationDue: false},
      unknown: [],
      local: null,
    })
  })

  it('L8 only reads, with actions that the list of needed actions names', async () => {
    proxy.takeActions()
    await user.run('status --stack healthy')
    const place = {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'healthy'}
    const look = neededActions(place).flatMap(({purpose, actions}) => (purpose === 'look' ? actions : []))
    const called = [...new Set(proxy.takeActions())]
    expect(called.filter(action => !look.includes(action))).toEqual([])
    expect(called.length).toBeGreaterThan(8)
  })

  it('C-15 C-41 reports problems of mapping, dead letters, alarms and lag', async () => {
    const {aws} = account
    const lambda = await aws.lambda()
    const {EventSourceMappings = []} = await lambda.send(new ListEventSourceMappingsCommand({}))
    const {UUID} = EventSourceMappings.find(({FunctionArn}) => FunctionArn?.endsWith(':broken-aggregator')) ?? {}
    await lambda.send(new UpdateEventSourceMappingCommand({UUID, Enabled: false}))
    const sqs = await aws.sqs()
    const {QueueUrl} = await sqs.send(new GetQueueUrlCommand({QueueName: 'broken-aggregator-dlq'}))
    await sqs.send(new SendMessageCommand({QueueUrl, MessageBody: '{}'}))
    const cloudWatch = await aws.cloudWatch()
    const AlarmName = 'broken-aggregator-errors'
    await cloudWatch.send(new SetAlarmStateCommand({AlarmName, StateValue: 'ALARM', StateReason: 'too many'}))
    const metric = (MetricName: string, Value: number, Name: string, name: string) => {
      return {MetricName, Value, Dimensions: [{Name, Value: name}]}
    }
    const lag = metric('IteratorAge', 95_000, 'FunctionName', 'broken-aggregator')
    await cloudWatch.send(new PutMetricDataCommand({Namespace: 'AWS/Lambda', MetricData: [lag]}))
    const throttle = metric('WriteThrottleEvents', 7, 'TableName', 'broken')
    // The metrics of a table do not include those of its indexes.
    const Dimensions = [...throttle.Dimensions, {Name: 'GlobalSecondaryIndexName', Value: 'GSI3'}]
    const MetricData = [throttle, {...throttle, Value: 5, Dimensions}]
    await cloudWatch.send(new PutMetricDataCommand({Namespace: 'AWS/DynamoDB', MetricData}))

    const {code, stdout} = await user.run('status --stack broken --json')
    expect(code).toBe(6)
    const result = JSON.parse(stdout)
    expect(schemaProblems('status', result)).toEqual([])
    expect(result).toMatchObject({
      healthy: false,
      table: {stream: 'NEW_AND_OLD_IMAGES'},
      mapping: {state: 'Disabled'},
      deadLetters: {messages: 1},
      traffic: {throttledWrites: 12, iteratorAgeMs: 95_000},
    })
    const problems = result.findings.flatMap((each: {severity: string; part: string}) =>
      each.severity === 'problem' ? each.part : [],
    )
    expect(problems).toEqual(['mapping', 'traffic', 'deadLetters', 'alarms'])
    const text = (await user.run('status --stack broken')).stdout
    expect(text).toContain(`aws lambda update-event-source-mapping --uuid ${UUID} --enabled`)
    expect(text).toMatch(/\nbroken is degraded: 4 problems\n$/)
  })

  it('reports a stack of the Python tool', async () => {
    expect(await user.json('status --stack python')).toMatchObject({
      healthy: true,
      cloudFormation: {owner: 'zae-limiter'},
      aggregator: {runtime: 'python3.12', ownCode: null},
    })
  })

  it('reports parts without permission as unknown, and reads all others', async () => {
    const result = await proxy.during(
      (action, request) =>
        /^(cloudwatch|sqs):|:DescribeContinuousBackups$/.test(action) ? denial(request) : undefined,
      () => user.json('status --stack healthy'),
    )
    expect(result).toMatchObject({healthy: null, table: {pointInTimeRecovery: null}, alarms: null, traffic: null})
    expect(result.unknown).toEqual(
      ['traffic', 'deadLetters', 'alarms'].map(part =>
        expect.objectContaining({
          part,
          code: 'aws.denied',
          reason: expect.stringContaining('not authorized to perform'),
        }),
      ),
    )
    const withoutStack = await proxy.during(
      (action, request) => (action === 'cloudformation:DescribeStacks' ? denial(request) : undefined),
      () => user.json('status --stack healthy'),
    )
    expect(withoutStack.unknown.map(({part}: {part: string}) => part)).toEqual(['cloudFormation', 'alarms'])
    expect(withoutStack).toMatchObject({cloudFormation: null, aggregator: {ownCode: true}, mapping: {state: 'Enabled'}})
  })

  it('does not report a stack as healthy when AWS does not respond', async () => {
    const {code, stdout} = await proxy.during(
      action => (/^(lambda|cloudwatch|sqs):/.test(action) ? {instead: {status: 503, body: ''}} : undefined),
      () => user.run('status --stack healthy --json'),
    )
    const result = JSON.parse(stdout)
    expect(schemaProblems('status', result)).toEqual([])
    expect({code, result}).toMatchObject({
      code: 6,
      result: {healthy: null, findings: [{severity: 'note'}, {severity: 'note'}]},
    })
    expect(result.unknown).toMatchObject(
      ['aggregator', 'mapping', 'traffic', 'deadLetters', 'alarms'].map(part => ({part, code: 'aws.unavailable'})),
    )
  })

  it('exits with 3 for a missing or foreign stack, 4 for missing permissions, 2 for an invalid flag', async () => {
    expect(await user.fail('status --stack helthy')).toMatchObject({
      code: 3,
      error: {code: 'stack.missing', hint: 'Did you mean "healthy"?'},
    })
    await account.transport.send('DeleteTable', {TableName: 'foreign'})
    expect(await user.fail('status --stack foreign')).toMatchObject({code: 3, error: {code: 'stack.missing'}})
    const denied = await proxy.during(
      (_, request) => denial(request),
      () => user.fail('status --stack healthy'),
    )
    expect(denied).toMatchObject({code: 4, error: {code: 'dynamo.denied'}})
    expect(await user.fail('status --stack healthy --namespace x')).toMatchObject({code: 2})
  })

  it('reports a stack of zael without its table as degraded, not missing', async () => {
    await deploySmallStack(account, {name: 'tableless', owner: 'zael'})
    await account.transport.send('DeleteTable', {TableName: 'tableless'})
    const {code, stdout} = await user.run('status --stack tableless --json')
    expect(code).toBe(6)
    const {table, findings} = JSON.parse(stdout)
    expect(table).toBeNull()
    expect(findings[0]).toMatchObject({severity: 'problem', part: 'table', message: 'The table is missing.'})
  })
})
