import {UpdateFunctionConfigurationCommand} from '@aws-sdk/client-lambda'
import {GetQueueUrlCommand, SendMessageCommand} from '@aws-sdk/client-sqs'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {bucketImage, streamRecord} from '../aggregator/fixtures/stream.js'
import {schemaProblems} from '../e2e/schemas.js'
import {letterBody} from '../infra/dead-letters/letters.js'
import {type AwsProxy, awsProxy} from './aws-proxy.js'
import {describeWithPython, emptyMoto} from './moto.js'
import {deploySmallStack, type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

describeWithPython('dead letters', {timeout: 120_000}, () => {
  let account: MotoAccount
  let proxy: AwsProxy
  let user: StackUser
  /** moto has no usable streams: these are the answers of one. */
  let isTrimmed = false
  const records = [2000, 5000].map((milli, at) => {
    const image = (tpm: number) => bucketImage({namespace: 'ns', tc: {tpm}, rq: 1})
    return streamRecord(at === 0 ? undefined : image(2000), image(milli), {sequence: 100 + at})
  })
  const TRIMMED = {__type: 'com.amazonaws.dynamodb.v20120810#TrimmedDataAccessException', message: 'trimmed'}

  beforeAll(async () => {
    const moto = await emptyMoto()
    account = openMoto(moto)
    proxy = await awsProxy(moto.endpoint, ({operation}) => {
      const answer = (status: number, body: object) => ({instead: {status, body: JSON.stringify(body)}})
      if (operation === 'GetShardIterator') return isTrimmed ? answer(400, TRIMMED) : answer(200, {ShardIterator: 'it'})
      return operation === 'GetRecords' ? answer(200, {Records: records}) : undefined
    })
    user = stackUser(proxy.endpoint)
    await deploySmallStack(account, {name: 'prod', owner: 'zael', code: 'placeholder'})
    const Environment = {Variables: {TABLE_NAME: 'prod', SNAPSHOT_WINDOWS: 'hourly,daily'}}
    const update = new UpdateFunctionConfigurationCommand({FunctionName: 'prod-aggregator', Environment})
    await (await account.aws.lambda()).send(update)
  }, 120_000)
  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]()
    await account?.[Symbol.asyncDispose]()
  })

  const streamArn = 'arn:aws:dynamodb:eu-west-1:123456789012:table/prod/stream/2026-01-01T00:00:00.000'
  const range = {streamArn, shardId: 'shardId-1', first: '100', last: '101'}

  async function send(body: string): Promise<void> {
    const client = await account.aws.sqs()
    const {QueueUrl} = await client.send(new GetQueueUrlCommand({QueueName: 'prod-aggregator-dlq'}))
    await client.send(new SendMessageCommand({QueueUrl, MessageBody: body}))
  }

  it('are listed, counted and deleted', async () => {
    expect((await user.run('aggregator dead-letters -s prod')).stdout).toBe('No dead letters in prod-aggregator-dlq\n')
    await send(letterBody(range))
    await send('hello')

    for (let look = 0; look < 2; look++) {
      const listed = await user.run('aggregator dead-letters -s prod --json')
      expect(schemaProblems('aggregator dead-letters', JSON.parse(listed.stdout))).toEqual([])
      expect(JSON.parse(listed.stdout)).toMatchObject({
        queue: 'prod-aggregator-dlq',
        letters: [{shard: 'shardId-1', firstSequence: '100', reason: 'RetryAttemptsExhausted'}, {shard: null}],
        total: 2,
      })
    }
    const {stdout: text} = await user.run('aggregator dead-letters -s prod')
    expect(text).toContain('2026-11-16T01:59:58Z')
    const part = await user.run('aggregator dead-letters -s prod --limit 1 --output csv')
    expect(part.stderr).toContain('Printed 1 of 2 messages. Add --all.')

    expect(await user.fail('aggregator redrive -s prod')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    const done = await user.run('aggregator redrive -s prod --yes')
    expect(done).toMatchObject({code: 6, stderr: ''})
    expect(done.stdout).toContain('1 message counted')
    expect(done.stdout).toContain('2 records read again, 2 usage records updated')
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

  it('keeps a range that has left the stream, and names its windows', async () => {
    isTrimmed = true
    await send(letterBody(range))
    const {code, stdout} = await user.run('aggregator redrive -s prod --yes')
    expect(code).toBe(6)
    expect(stdout).toMatchInlineSnapshot(`
      "1 message lost: the records left the stream after 24 hours
        Usage windows that lack consumption:
          hourly 2026-11-16T01:00:00Z
          hourly 2026-11-16T02:00:00Z
          daily 2026-11-16T00:00:00Z
      1 message kept in the queue until 14 days after the failure

      Next:
        zael verify -s prod --since 2026-11-16T01:59:58Z  find buckets whose consumption exceeds their usage
        zael aggregator redrive -s prod --discard         delete the messages that cannot be counted
      "
    `)
    expect((await user.run('aggregator redrive -s prod --yes --discard')).code).toBe(6)
    expect((await user.run('aggregator redrive -s prod --yes')).code).toBe(0)
  })

  it('lists none for a stack without a queue', async () => {
    expect(await user.fail('aggregator dead-letters -s other')).toMatchObject({
      code: 3,
      error: {code: 'deadletters.queue', hint: expect.stringContaining('zael status --stack other')},
    })
  })
})
