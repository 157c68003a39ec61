import {GetFunctionCommand} from '@aws-sdk/client-lambda'
import {PutObjectCommand} from '@aws-sdk/client-s3'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {readStack, readStackResources} from '../../../src/lib/infra/stacks/reader.js'
import {awsProxy} from '../../aws/aws-proxy.js'
import {describeWithPython, type Moto, startMoto} from '../../aws/moto.js'
import {type MotoAccount, openMoto} from '../../aws/small-stack.js'
import {type StackUser, stackUser} from '../../aws/stack-user.js'

describeWithPython('deploying, on moto', {timeout: 300_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let user: StackUser

  beforeAll(async () => {
    moto = await startMoto()
    account = openMoto(moto)
    user = stackUser(moto.endpoint)
    await user.tell('deploy --stack museum --lambda-memory 256 --yes')
  })
  afterAll(async () => {
    await account?.[Symbol.asyncDispose]()
    await moto?.[Symbol.asyncDispose]()
  })

  it('C-6 a second deploy ignored new options, with a success message: it changes the stack', async () => {
    const told = await user.tell('deploy --stack museum --lambda-memory 1024 --yes')
    expect(told).toMatchObject({action: 'update', complete: true})
    const lambda = await account.aws.lambda()
    const {Configuration} = await lambda.send(new GetFunctionCommand({FunctionName: 'museum-aggregator'}))
    expect(Configuration?.MemorySize).toBe(1024)
  })

  it('C-6 an update that did not name a parameter put its default back: what is not named stays', async () => {
    await user.tell('deploy --stack museum --lambda-timeout 30 --yes')
    const {parameters} = (await readStack(account.aws, 'museum')) ?? {}
    expect(parameters).toMatchObject({LambdaMemorySize: '1024', LambdaTimeout: '30'})
  })

  it('C-7 there was no preview: --dry-run tells what would change, and changes nothing', async () => {
    const before = await readStack(account.aws, 'museum')
    const told = await user.tell('deploy --stack museum --lambda-memory 2048 --dry-run')
    expect(told.parameters).toEqual([{option: 'lambdaMemory', before: '1024', after: '2048'}])
    expect(await readStack(account.aws, 'museum')).toEqual(before)
  })

  it('C-11 a failed first deployment had to be cleaned up by hand: the next one does it', async () => {
    await user.tell('deploy --stack failed --no-aggregator --no-iam --no-wait --yes')
    let isRolledBack = true
    await using proxy = await awsProxy(moto.endpoint, ({operation}) => {
      if (operation === 'DeleteStack') isRolledBack = false
      const isAsked = operation === 'DescribeStacks' && isRolledBack
      return isAsked ? {answer: body => body.replaceAll('CREATE_COMPLETE', 'ROLLBACK_COMPLETE')} : undefined
    })
    const told = await stackUser(proxy.endpoint).tell('deploy --stack failed --no-aggregator --no-iam --yes')
    expect(told).toMatchObject({action: 'create', complete: true})
  })

  it('C-12 delete stopped at a full archive and at a protected table: the one is kept or emptied, the other told first', async () => {
    const resources = await readStackResources(account.aws, 'museum')
    const Bucket = resources.find(({logicalId}) => logicalId === 'AuditArchiveBucket')?.physicalId ?? ''
    const s3 = await account.aws.s3()
    await s3.send(new PutObjectCommand({Bucket, Key: 'audit/1', Body: 'x'}))
    const kept = await user.tell('delete --stack museum --confirm museum')
    expect(kept.result).toMatchObject({stackDeleted: true, tableLeft: true, archivedObjectsDeleted: null})

    await user.tell('deploy --stack safe --no-aggregator --deletion-protection --yes')
    const {code, error} = await user.fail('delete --stack safe --delete-table --confirm safe')
    expect({code, error}).toMatchObject({code: 5, error: {code: 'table.protected'}})
    expect((await readStack(account.aws, 'safe'))?.status).toBe('CREATE_COMPLETE')
  })
})
