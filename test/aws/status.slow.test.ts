import {PutMetricDataCommand, SetAlarmStateCommand} from '@aws-sdk/client-cloudwatch'
import {ListEventSourceMappingsCommand, UpdateEventSourceMappingCommand} from '@aws-sdk/client-lambda'
import {GetQueueUrlCommand, SendMessageCommand} from '@aws-sdk/client-sqs'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {neededActions} from '../../src/lib/infra/doctor/needed-actions.js'
import {encodeVersion, type VersionRecord} from '../../src/lib/schema/version-record.js'
import {schemaProblems} from '../e2e/schemas.js'
import {describeWithPython, type Moto, startMoto} from './moto.js'
import {denial, type RefusingProxy, refusingProxy} from './refusing.js'
import {deploySmallStack, type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

// moto shows neither expiry nor point-in-time recovery nor alarms of a template, so stacks here are small ones of which
// the test knows every part; deploy.slow.test.ts has the real one.

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
  let proxy: RefusingProxy
  let user: StackUser

  beforeAll(async () => {
    moto = await startMoto()
    account = openMoto(moto)
    proxy = await refusingProxy(moto.endpoint)
    user = stackUser(proxy.endpoint)
    for (const name of ['well', 'ill']) await deploySmallStack(account, {name, owner: 'zael'})
    await deploySmallStack(account, {name: 'python', owner: 'zae-limiter', filters: ['{"eventName":["MODIFY"]}']})
    await deploySmallStack(account, {name: 'foreign', owner: 'other'})
    for (const TableName of ['well', 'ill', 'python']) {
      await account.transport.send('PutItem', {TableName, Item: encodeVersion(VERSION)})
    }
  }, 300_000)

  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]()
    await account?.[Symbol.asyncDispose]()
    await moto?.[Symbol.asyncDispose]()
  })

  it('tells a stack that is well, to people and to programs', async () => {
    const {code, stdout} = await user.run('status --stack well')
    expect(code).toBe(0)
    const steady = stdout
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, '2026-01-01T00:00:00Z')
      .replace(/\d+ more parameters/, 'N more parameters')
    expect(steady).toMatchInlineSnapshot(`
      "Stack well, eu-west-1
        deployed      by zael 0.1.0, create complete, 2026-01-01T00:00:00Z
        table         active, 1 item, 0 bytes
        indexes       GSI1 all, GSI2 keys only, GSI3 keys only, GSI4 keys only
        safety        deletion protection off, point-in-time recovery off
        stream        both images, expiry on
        throttled     0 reads, 0 writes in the last hour
        aggregator    well-aggregator, active, nodejs22.x, 512 MB, code of this zael
        mapping       enabled
        lag           no records in the last hour, 0 errors in the last hour
        dead letters  0 in well-aggregator-dlq
        alarms        2 ok
        versions      layout 0.9.0 by zael:0.1.0, no migration due

      Alarms
        well-aggregator-dlq     ok
        well-aggregator-errors  ok

      Policies
        AcquireOnly  arn:aws:iam::123456789012:policy/well-acq

      Notes
        The template in this zael is newer; it adds ResourceIndexProjection and N more parameters.
          Try: zael deploy --stack well --dry-run
        Point-in-time recovery is off.
          Try: aws dynamodb update-continuous-backups --table-name well --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true

      well is healthy
      "
    `)
    const told = await user.tell('status --stack well')
    expect(told).toMatchObject({
      healthy: true,
      region: 'eu-west-1',
      cloudFormation: {owner: 'zael', version: '0.1.0'},
      aggregator: {name: 'well-aggregator', ownCode: true},
      mapping: {state: 'Enabled'},
      deadLetters: {messages: 0},
      alarms: [{name: 'well-aggregator-dlq'}, {name: 'well-aggregator-errors', notifies: true}],
      versions: {schemaVersion: '0.9.0', migrationDue: false},
      unknown: [],
      local: null,
    })
  })

  it('L8 only reads, and nothing that the list of needed actions does not name', async () => {
    proxy.takeActions()
    await user.run('status --stack well')
    const place = {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'well'}
    const look = neededActions(place).flatMap(({purpose, actions}) => (purpose === 'look' ? actions : []))
    const asked = [...new Set(proxy.takeActions())]
    expect(asked.filter(action => !look.includes(action))).toEqual([])
    expect(asked.length).toBeGreaterThan(8)
  })

  it('C-15 C-41 tells the mapping, dead letters, alarms and lag for what they are', async () => {
    const {aws} = account
    const lambda = await aws.lambda()
    const {EventSourceMappings = []} = await lambda.send(new ListEventSourceMappingsCommand({}))
    const {UUID} = EventSourceMappings.find(({FunctionArn}) => FunctionArn?.endsWith(':ill-aggregator')) ?? {}
    await lambda.send(new UpdateEventSourceMappingCommand({UUID, Enabled: false}))
    const sqs = await aws.sqs()
    const {QueueUrl} = await sqs.send(new GetQueueUrlCommand({QueueName: 'ill-aggregator-dlq'}))
    await sqs.send(new SendMessageCommand({QueueUrl, MessageBody: '{}'}))
    const cloudWatch = await aws.cloudWatch()
    const AlarmName = 'ill-aggregator-errors'
    await cloudWatch.send(new SetAlarmStateCommand({AlarmName, StateValue: 'ALARM', StateReason: 'too many'}))
    const figure = (MetricName: string, Value: number, Name: string, name: string) => {
      return {MetricName, Value, Dimensions: [{Name, Value: name}]}
    }
    const lag = figure('IteratorAge', 75_000, 'FunctionName', 'ill-aggregator')
    await cloudWatch.send(new PutMetricDataCommand({Namespace: 'AWS/Lambda', MetricData: [lag]}))
    const throttle = figure('WriteThrottleEvents', 7, 'TableName', 'ill')
    // DynamoDB does not count those of an index among those of its table.
    const Dimensions = [...throttle.Dimensions, {Name: 'GlobalSecondaryIndexName', Value: 'GSI3'}]
    const MetricData = [throttle, {...throttle, Value: 5, Dimensions}]
    await cloudWatch.send(new PutMetricDataCommand({Namespace: 'AWS/DynamoDB', MetricData}))

    const {code, stdout} = await user.run('status --stack ill --json')
    expect(code).toBe(6)
    const told = JSON.parse(stdout)
    expect(schemaProblems('status', told)).toEqual([])
    expect(told).toMatchObject({
      healthy: false,
      table: {stream: 'NEW_AND_OLD_IMAGES'},
      mapping: {state: 'Disabled'},
      deadLetters: {messages: 1},
      traffic: {throttledWrites: 12, iteratorAgeMs: 75_000},
    })
    const problems = told.findings.flatMap((each: {severity: string; part: string}) =>
      each.severity === 'problem' ? each.part : [],
    )
    expect(problems).toEqual(['mapping', 'traffic', 'deadLetters', 'alarms'])
    const text = (await user.run('status --stack ill')).stdout
    expect(text).toContain(`aws lambda update-event-source-mapping --uuid ${UUID} --enabled`)
    expect(text).toMatch(/\nill is degraded: 4 problems\n$/)
  })

  it('tells a stack of the Python tool', async () => {
    expect(await user.tell('status --stack python')).toMatchObject({
      healthy: true,
      cloudFormation: {owner: 'zae-limiter'},
      aggregator: {runtime: 'python3.12', ownCode: null},
    })
  })

  it('tells what it may not see, and the rest all the same', async () => {
    const told = await proxy.during(
      (action, request) =>
        /^(cloudwatch|sqs):|:DescribeContinuousBackups$/.test(action) ? denial(request) : undefined,
      () => user.tell('status --stack well'),
    )
    expect(told).toMatchObject({healthy: null, table: {pointInTimeRecovery: null}, alarms: null, traffic: null})
    expect(told.unknown).toEqual(
      ['traffic', 'deadLetters', 'alarms'].map(part =>
        expect.objectContaining({
          part,
          code: 'aws.denied',
          reason: expect.stringContaining('not authorized to perform'),
        }),
      ),
    )
    const blind = await proxy.during(
      (action, request) => (action === 'cloudformation:DescribeStacks' ? denial(request) : undefined),
      () => user.tell('status --stack well'),
    )
    expect(blind.unknown.map(({part}: {part: string}) => part)).toEqual(['cloudFormation', 'alarms'])
    expect(blind).toMatchObject({cloudFormation: null, aggregator: {ownCode: true}, mapping: {state: 'Enabled'}})
  })

  it('does not call a stack well when AWS did not answer', async () => {
    const {code, stdout} = await proxy.during(
      action => (/^(lambda|cloudwatch|sqs):/.test(action) ? {instead: {status: 503, body: ''}} : undefined),
      () => user.run('status --stack well --json'),
    )
    const told = JSON.parse(stdout)
    expect(schemaProblems('status', told)).toEqual([])
    expect({code, told}).toMatchObject({
      code: 6,
      told: {healthy: null, findings: [{severity: 'note'}, {severity: 'note'}]},
    })
    expect(told.unknown).toMatchObject(
      ['aggregator', 'mapping', 'traffic', 'deadLetters', 'alarms'].map(part => ({part, code: 'aws.unavailable'})),
    )
  })

  it('exit codes: 3 for no stack or a foreign one, 4 for those who may see nothing, 2 for a wrong flag', async () => {
    expect(await user.fail('status --stack wel')).toMatchObject({
      code: 3,
      error: {code: 'stack.missing', hint: 'Did you mean "well"?'},
    })
    await account.transport.send('DeleteTable', {TableName: 'foreign'})
    expect(await user.fail('status --stack foreign')).toMatchObject({code: 3, error: {code: 'stack.missing'}})
    const denied = await proxy.during(
      (_, request) => denial(request),
      () => user.fail('status --stack well'),
    )
    expect(denied).toMatchObject({code: 4, error: {code: 'dynamo.denied'}})
    expect(await user.fail('status --stack well --namespace x')).toMatchObject({code: 2})
  })

  it('a stack of ours without its table is degraded, not missing', async () => {
    await deploySmallStack(account, {name: 'robbed', owner: 'zael'})
    await account.transport.send('DeleteTable', {TableName: 'robbed'})
    const {code, stdout} = await user.run('status --stack robbed --json')
    expect(code).toBe(6)
    const {table, findings} = JSON.parse(stdout)
    expect(table).toBeNull()
    expect(findings[0]).toMatchObject({severity: 'problem', part: 'table', message: 'The table is missing.'})
  })
})
