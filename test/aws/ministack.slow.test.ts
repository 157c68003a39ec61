import {spawn} from 'node:child_process'
import {mkdtemp, readFile, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {CreateStackCommand, waitUntilStackCreateComplete} from '@aws-sdk/client-cloudformation'
import {DynamoDBClient, UpdateContinuousBackupsCommand, UpdateTimeToLiveCommand} from '@aws-sdk/client-dynamodb'
import {GetFunctionConfigurationCommand} from '@aws-sdk/client-lambda'
import {CreateBucketCommand, PutObjectCommand} from '@aws-sdk/client-s3'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {lambdaPackage} from '../../src/lib/infra/stack/artifacts.js'
import {readStack} from '../../src/lib/infra/stack/reader.js'
import {outcomeOf} from '../e2e/zael.js'
import {BIN, cleanEnvironment, type Outcome, ROOT} from '../helpers/run-command.js'
import {type AwsProxy, type AwsRequest, awsProxy, type Intervention} from './aws-proxy.js'
import {describeWithMinistack, type Ministack, startMinistack} from './ministack.js'
import {MOTO_IDENTITY} from './moto.js'
import {type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

/** Alarms need metric math; a batch is not waited for. */
const OPTIONS = '--no-alarms --batch-window 0'

/** Cases that moto does not support: the built function behind its event source, conflicts, a table that is imported. */
describeWithMinistack('deploy and delete on ministack', {timeout: 120_000}, () => {
  let folder = ''
  let ministack: Ministack
  let proxy: AwsProxy
  let account: MotoAccount
  let user: StackUser
  let intervene: (request: AwsRequest) => Intervention | undefined = () => undefined

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-ministack-'))
    ministack = await startMinistack(folder)
    account = openMoto(ministack)
    proxy = await awsProxy(ministack.endpoint, request => ({
      ...(request.operation === 'CreateChangeSet' && {request: withUnderstoodTemplate}),
      ...intervene(request),
    }))
    user = stackUser(proxy.endpoint)
  })

  afterAll(async () => {
    await account?.[Symbol.asyncDispose]()
    await proxy?.[Symbol.asyncDispose]()
    await ministack?.[Symbol.asyncDispose]()
    await rm(folder, {recursive: true, force: true})
  })

  /** The built command line in a separate process. */
  function start(command: string): {readonly ended: Promise<Outcome>; readonly kill: () => void} {
    const env = cleanEnvironment(user.env)
    const child = spawn(process.execPath, [BIN, ...command.split(' ')], {
      cwd: ROOT,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    return {ended: outcomeOf(child), kill: () => child.kill('SIGKILL')}
  }

  async function succeed(command: string): Promise<string> {
    const {code, stdout, stderr} = await user.run(command)
    expect({command, code, stderr}).toMatchObject({code: 0})
    return stdout
  }

  /** Consumes 7 tokens of an entity; resolves when the function has counted `total`. */
  async function consumeAndCount(stack: string, total: number): Promise<void> {
    await succeed(`acquire user-1 gpt rpm=7 --stack ${stack}`)
    const counted = async () => {
      const {totals} = JSON.parse(await succeed(`usage show user-1 --stack ${stack} --json`))
      return totals[0]?.tokens ?? 0
    }
    await expect.poll(counted, {interval: 200}).toBe(total)
  }

  async function codeOf(FunctionName: string): Promise<string | undefined> {
    const lambda = await account.aws.lambda()
    return (await lambda.send(new GetFunctionConfigurationCommand({FunctionName}))).CodeSha256
  }

  it('creates a stack whose function counts consumption', async () => {
    expect(await user.json(`deploy --stack prod ${OPTIONS} --yes`)).toMatchObject({action: 'create', complete: true})
    expect((await readStack(account.aws, 'prod'))?.status).toBe('CREATE_COMPLETE')
    expect(await codeOf('prod-aggregator')).toBe((await lambdaPackage()).sha256Base64)
    expect(await user.json('deploy --stack prod --yes')).toMatchObject({action: 'none'})
    await succeed('limits set --resource gpt rpm=1000/min --stack prod')
    await consumeAndCount('prod', 7)
  })

  it('starts with working code where another tool deploys the template, under another name of the table', async () => {
    await succeed(`deploy --export ${folder}/out ${OPTIONS} --role-path /teams/`)
    const read = (name: string) => readFile(join(folder, 'out', name))
    const parameters: {ParameterKey: string; ParameterValue: string}[] = JSON.parse(
      String(await read('parameters.json')),
    )
    const Key = parameters.find(({ParameterKey}) => ParameterKey === 'CodeKey')?.ParameterValue
    const s3 = await account.aws.s3()
    await s3.send(new CreateBucketCommand({Bucket: 'code'}))
    await s3.send(new PutObjectCommand({Bucket: 'code', Key, Body: await read('aggregator.zip')}))
    const client = await account.aws.cloudFormation()
    const given: Record<string, string> = {CodeBucket: 'code', TableName: 'limits'}
    await client.send(
      new CreateStackCommand({
        StackName: 'made-up-name',
        TemplateBody: understood(String(await read('stack.yaml'))),
        Parameters: parameters.map(each => ({
          ...each,
          ParameterValue: given[each.ParameterKey] ?? each.ParameterValue,
        })),
        Tags: Object.entries({ManagedBy: 'zael', 'zael:type': 'limiter'}).map(([Key, Value]) => ({Key, Value})),
      }),
    )
    await waitUntilStackCreateComplete({client, maxWaitTime: 60, minDelay: 1}, {StackName: 'made-up-name'})
    expect(await codeOf('made-up-name-aggregator')).toBe((await lambdaPackage()).sha256Base64)
    await succeed('namespace create default --stack limits')
    await succeed('limits set --resource gpt rpm=1000/min --stack limits')
    await consumeAndCount('limits', 7)
    expect(await user.fail('deploy --stack made-up-name --yes')).toMatchObject({
      code: 5,
      error: {code: 'stack.other-table'},
    })
  })

  it('lets one of two concurrent deployments through, and reports to the other that it was overtaken', async () => {
    let bothPlanned = () => {}
    const after = new Promise<void>(resolve => {
      bothPlanned = resolve
    })
    let waiting = 0
    intervene = ({operation}) => {
      if (operation !== 'ExecuteChangeSet') return undefined
      if (++waiting === 2) bothPlanned()
      return {after}
    }
    const deployments = [768, 1024].map(memory => start(`deploy --stack prod --lambda-memory ${memory} --yes --json`))
    const outcomes = await Promise.all(deployments.map(({ended}) => ended))
    intervene = () => undefined
    expect(outcomes.map(({code}) => code).sort()).toEqual([0, 5])
    const refused = outcomes.find(({code}) => code === 5)
    expect(JSON.parse(refused?.stdout ?? '{}').error).toMatchObject({code: 'deploy.overtaken'})
    await consumeAndCount('prod', 14)
  })

  it.each([
    ['CreateChangeSet', /^CreateChangeSet$/],
    ['ExecuteChangeSet', /^ExecuteChangeSet$/],
    ['the upload of the code', /^PUT .*\/code/],
  ])('finishes a deployment that was killed at %s', async (_, operation) => {
    const name = `killed-${String(operation).replaceAll(/\W/g, '').toLowerCase()}`
    const command = `deploy --stack ${name} ${OPTIONS} --yes`
    const killed = start(command)
    // The call is done, but the command never gets the answer.
    intervene = request =>
      operation.test(request.operation) ? {hold: {forward: true, onHeld: killed.kill}} : undefined
    expect(await killed.ended).toMatchObject({code: null})
    intervene = () => undefined
    expect(await user.json(command)).toMatchObject({complete: true})
    expect(await codeOf(`${name}-aggregator`)).toBe((await lambdaPackage()).sha256Base64)
  })

  it('deletes a stack, keeps its table, and adopts the table again with all its data', async () => {
    await succeed('delete --stack prod --confirm prod')
    expect(await readStack(account.aws, 'prod')).toBeUndefined()
    // ministack does not set these from a template.
    const TableName = 'prod'
    const credentials = {accessKeyId: 'testing', secretAccessKey: 'testing'}
    const TimeToLiveSpecification = {Enabled: true, AttributeName: 'ttl'}
    const PointInTimeRecoverySpecification = {PointInTimeRecoveryEnabled: true}
    const dynamoDb = new DynamoDBClient({endpoint: ministack.endpoint, region: MOTO_IDENTITY.AWS_REGION, credentials})
    await dynamoDb.send(new UpdateTimeToLiveCommand({TableName, TimeToLiveSpecification}))
    await dynamoDb.send(new UpdateContinuousBackupsCommand({TableName, PointInTimeRecoverySpecification}))
    dynamoDb.destroy()
    const adopted = await user.json(`deploy --stack prod ${OPTIONS} --stream-start latest --yes`)
    expect(adopted).toMatchObject({action: 'create', complete: true})
    expect(adopted.changes).toContainEqual(expect.objectContaining({action: 'import', logicalId: 'Table'}))
    await consumeAndCount('prod', 21)
  })
})

/** The condition looks at the given boundary, which no stack here has. */
function understood(template: string): string {
  return template.replace(/BoundaryIsArn: .*/, 'BoundaryIsArn: !Equals [!Ref PermissionBoundary, arn]')
}

function withUnderstoodTemplate(body: string): string {
  const fields = new URLSearchParams(body)
  fields.set('TemplateBody', understood(fields.get('TemplateBody') ?? ''))
  return fields.toString()
}
