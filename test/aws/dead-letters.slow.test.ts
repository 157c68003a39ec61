import {UpdateFunctionConfigurationCommand} from '@aws-sdk/client-lambda'
import {GetQueueUrlCommand, SendMessageCommand} from '@aws-sdk/client-sqs'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {resolveConnection} from '../../src/lib/dynamo/connection.js'
import {openStream} from '../../src/lib/dynamo/transports/open-stream.js'
import {latestStreamArn, listShards, openShard, readRecords} from '../../src/lib/dynamo/transports/stream-shards.js'
import {bucketImage} from '../aggregator/fixtures/stream.js'
import {schemaProblems} from '../e2e/schemas.js'
import {letterBody} from '../infra/dead-letters/letters.js'
import {describeWithPython, emptyMoto, MOTO_IDENTITY, type Moto} from './moto.js'
import {deploySmallStack, type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

describeWithPython('dead letters', {timeout: 120_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let user: StackUser

  beforeAll(async () => {
    moto = await emptyMoto()
    account = openMoto(moto)
    user = stackUser(moto.endpoint)
    await deploySmallStack(account, {name: 'prod', owner: 'zael', code: 'placeholder'})
    const Environment = {Variables: {TABLE_NAME: 'prod', SNAPSHOT_WINDOWS: 'hourly,daily'}}
    const update = new UpdateFunctionConfigurationCommand({FunctionName: 'prod-aggregator', Environment})
    await (await account.aws.lambda()).send(update)
  }, 120_000)
  afterAll(async () => account?.[Symbol.asyncDispose]())

  async function send(body: string): Promise<void> {
    const client = await account.aws.sqs()
    const {QueueUrl} = await client.send(new GetQueueUrlCommand({QueueName: 'prod-aggregator-dlq'}))
    await client.send(new SendMessageCommand({QueueUrl, MessageBody: body}))
  }

  it('are listed, counted, and gone', async () => {
    expect((await user.run('aggregator dead-letters -s prod')).stdout).toBe('No dead letters in prod-aggregator-dlq\n')
    for (const milli of [2000, 5000]) {
      const Item = bucketImage({namespace: 'ns', tc: {tpm: milli}, rq: 1})
      await account.transport.send('PutItem', {TableName: 'prod', Item})
    }
    const connection = resolveConnection({endpointUrl: moto.endpoint, region: MOTO_IDENTITY.AWS_REGION}, {})
    const stream = await openStream(connection, Date.now)
    const streamArn = (await latestStreamArn(account.transport, 'prod')) as string
    const [{ShardId: shardId} = {ShardId: ''}] = await listShards(stream, streamArn)
    const iterator = (await openShard(stream, {streamArn, shardId, after: undefined})) as string
    const numbers = (await readRecords(stream, iterator, 100)).records.map(({dynamodb}) => dynamodb.SequenceNumber)
    stream.close()
    await send(letterBody({streamArn, shardId, first: numbers[0] ?? '', last: numbers.at(-1) ?? ''}))
    await send('hello')

    for (let look = 0; look < 2; look++) {
      const listed = await user.run('aggregator dead-letters -s prod --json')
      expect(schemaProblems('aggregator dead-letters', JSON.parse(listed.stdout))).toEqual([])
      expect(JSON.parse(listed.stdout)).toMatchObject({
        queue: 'prod-aggregator-dlq',
        letters: [{shard: shardId, firstSequence: numbers[0], reason: 'RetryAttemptsExhausted'}, {shard: null}],
        total: 2,
      })
    }
    const {stdout: text} = await user.run('aggregator dead-letters -s prod')
    expect(text).toContain('2026-11-16T01:59:58Z')

    expect(await user.fail('aggregator redrive -s prod')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    const done = await user.run('aggregator redrive -s prod --yes')
    expect(done).toMatchObject({code: 6, stderr: ''})
    expect(done.stdout).toContain('1 message counted: everything is in the usage')
    expect(done.stdout).toContain('2 records read again, 2 usage records completed')
    expect(done.stdout).toContain('1 message unreadable')
    const {Items = []} = await account.transport.send('Scan', {TableName: 'prod'})
    const usage = Items.filter(item => 'window' in item)
    expect(usage.map(({window, tpm}) => [window, tpm])).toEqual(
      expect.arrayContaining([
        [{S: 'hourly'}, {N: '5'}],
        [{S: 'daily'}, {N: '5'}],
      ]),
    )

    const rest = await user.run('aggregator redrive -s prod --discard --yes --json')
    expect(schemaProblems('aggregator redrive', JSON.parse(rest.stdout))).toEqual([])
    expect(JSON.parse(rest.stdout)).toMatchObject({complete: false, letters: [{state: 'unreadable', deleted: true}]})
    expect(await user.run('aggregator redrive -s prod --yes')).toMatchObject({
      code: 0,
      stdout: 'No dead letters in prod-aggregator-dlq\n',
    })
  })

  it('a range that has left the stream is named with its windows, and kept', async () => {
    const streamArn = (await latestStreamArn(account.transport, 'prod')) as string
    await send(letterBody({streamArn, shardId: 'shardId-gone', first: '1', last: '2'}))
    const {code, stdout} = await user.run('aggregator redrive -s prod --yes')
    expect(code).toBe(6)
    expect(stdout).toMatchInlineSnapshot()
    expect((await user.json('list')).stacks).toHaveLength(1)
    expect((await user.run('aggregator redrive -s prod --yes --discard')).code).toBe(6)
    expect((await user.run('aggregator redrive -s prod --yes')).code).toBe(0)
  })

  it('a stack without a queue has none', async () => {
    expect(await user.fail('aggregator dead-letters -s other')).toMatchObject({
      code: 3,
      error: {code: 'deadletters.queue', hint: expect.stringContaining('zael status --stack other')},
    })
  })
})
