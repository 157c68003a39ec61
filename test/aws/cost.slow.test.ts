import {PutMetricDataCommand} from '@aws-sdk/client-cloudwatch'
import {afterAll, beforeAll, expect, it} from 'vitest'
import type {JsonOutput} from '../e2e/table-cli.js'
import {describeWithPython, emptyMoto, type Moto} from './moto.js'
import {deploySmallStack, type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

const DAY_MS = 86_400_000

describeWithPython('zael cost with CloudWatch over HTTP', {timeout: 300_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let user: StackUser

  beforeAll(async () => {
    moto = await emptyMoto()
    account = openMoto(moto)
    user = stackUser(moto.endpoint)
    await deploySmallStack(account, {name: 'prod', owner: 'zael'})
    const table = {TableName: 'prod'}
    const yesterday = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS
    for (const hour of [1, 13]) {
      const atMs = yesterday + hour * 3_600_000
      await put('AWS/DynamoDB', 'ConsumedWriteCapacityUnits', table, atMs, 1_000_000)
      await put('AWS/DynamoDB', 'ConsumedReadCapacityUnits', table, atMs, 200_000)
      await put(
        'AWS/DynamoDB',
        'ConsumedWriteCapacityUnits',
        {...table, GlobalSecondaryIndexName: 'GSI2'},
        atMs,
        50_000,
      )
      await put('AWS/Lambda', 'Invocations', {FunctionName: 'prod-aggregator'}, atMs, 60)
      await put('AWS/Lambda', 'Duration', {FunctionName: 'prod-aggregator'}, atMs, 6000)
      await put('zael', 'Snapshots', {Stack: 'prod'}, atMs, 300_000)
    }
  }, 300_000)

  afterAll(async () => {
    await account?.[Symbol.asyncDispose]()
  })

  async function put(
    Namespace: string,
    MetricName: string,
    dimensions: Readonly<Record<string, string>>,
    atMs: number,
    Value: number,
  ): Promise<void> {
    const Dimensions = Object.entries(dimensions).map(([Name, Value]) => ({Name, Value}))
    const MetricData = [{MetricName, Dimensions, Timestamp: new Date(atMs), Value}]
    await (await account.aws.cloudWatch()).send(new PutMetricDataCommand({Namespace, MetricData}))
  }

  it('adds up the hours of a day, and marks figures without measurements', async () => {
    const {days, parts, indexWrites, decisionsPerDay, read} = await user.json('cost --stack prod --days 2')
    // Two days, so that one that ends while the test runs does not matter.
    expect(days.flatMap(({source}: JsonOutput) => source ?? [])).toEqual(['measured'])
    const figures = parts.map(({name, quantity, source}: JsonOutput) => [name, quantity, source])
    expect(figures.slice(0, 6)).toEqual([
      ['usage', 600_000, 'measured'],
      ['other writes', 1_400_000, 'divided'],
      ['indexes', 100_000, 'measured'],
      ['reads', 400_000, 'measured'],
      ['stream', null, 'measured'],
      ['function', 120, 'measured'],
    ])
    expect({indexWrites, decisionsPerDay, read}).toEqual({
      indexWrites: {GSI2: 100_000},
      decisionsPerDay: null,
      read: {units: 1, metrics: 13},
    })
    const {stdout} = await user.run('cost --stack prod --days 2')
    // 2 million write units at $0.625 a million.
    expect(stdout).toMatch(/^usage +0\.38 +- +600,000 +write units +measured$/m)
    expect(stdout).toMatch(/^other writes +0\.88 +- +1,400,000 +write units +divided$/m)
    expect(stdout).not.toContain('admissions')
  })
})
