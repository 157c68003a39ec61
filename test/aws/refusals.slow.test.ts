import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {
  CreateChangeSetCommand,
  CreateStackCommand,
  DescribeStacksCommand,
  ListChangeSetsCommand,
} from '@aws-sdk/client-cloudformation'
import {GetFunctionCommand} from '@aws-sdk/client-lambda'
import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import {createTable, loadTableDefinition} from '../../src/lib/dynamo/table-definition.js'
import {lambdaPackage} from '../../src/lib/infra/stack/artifacts.js'
import {readStack} from '../../src/lib/infra/stack/reader.js'
import {BIN, ROOT, zael} from '../e2e/zael.js'
import {type AwsProxy, type AwsRequest, awsProxy, type Intervention, xmlRefusal} from './aws-proxy.js'
import {describeWithPython, emptyMoto, MOTO_IDENTITY, type Moto} from './moto.js'
import {type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

/*
 * A proxy in front of moto adds the cases that moto lacks (refuse, throttle, fail midway, be slow). It changes one kind of
 * call as AWS documents it, and forwards all others.
 */
const QUEUE = JSON.stringify({Resources: {Queue: {Type: 'AWS::SQS::Queue'}}})

describeWithPython('obstacles of a deployment', {timeout: 300_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let proxies: AwsProxy[] = []

  beforeAll(async () => {
    moto = await emptyMoto()
    account = openMoto(moto)
  })

  afterAll(async () => {
    await account?.[Symbol.asyncDispose]()
    for (const proxy of proxies) await proxy[Symbol.asyncDispose]()
  })

  /** A user whose requests go through a proxy. */
  async function userWith(
    intervene: (request: AwsRequest) => Intervention | undefined,
  ): Promise<StackUser & {proxy: AwsProxy}> {
    const proxy = await awsProxy(moto.endpoint, intervene)
    proxies = [...proxies, proxy]
    return {...stackUser(proxy.endpoint), proxy}
  }

  const on = (operation: string, intervention: Intervention) => (request: AwsRequest) =>
    request.operation === operation ? intervention : undefined

  async function createForeign(name: string, tags: Readonly<Record<string, string>>): Promise<void> {
    const Tags = Object.entries(tags).map(([Key, Value]) => ({Key, Value}))
    const client = await account.aws.cloudFormation()
    await client.send(new CreateStackCommand({StackName: name, TemplateBody: QUEUE, Tags}))
  }

  const writesOf = (operations: readonly string[]) =>
    operations.filter(each => /^(Create|Update|Delete|Execute|Put|Transact|PUT|POST|DELETE)/.test(each))

  describe('a stack of the same name', () => {
    it.each(['deploy --stack foreign --yes', 'delete --stack foreign --delete-table --confirm foreign'])(
      'is not changed when it is not a limiter: %s',
      async command => {
        await createForeign('foreign', {team: 'billing'}).catch(() => {})
        const user = await userWith(() => undefined)
        const {code, error} = await user.fail(command)
        expect({code, error}).toMatchObject({
          code: 5,
          error: {
            code: 'stack.foreign',
            message: 'Stack "foreign" (CREATE_COMPLETE) already exists and is not a rate limiter.',
            hint: 'Nothing was changed. Choose another name with --stack, or another --region or --profile.',
          },
        })
        expect(writesOf(user.proxy.takeOperations())).toEqual([])
      },
    )

    it('is not changed when the Python tool made it; the hint names how to adopt it', async () => {
      await createForeign('python', {ManagedBy: 'zae-limiter', 'zae-limiter:type': 'limiter'})
      const user = await userWith(() => undefined)
      const {code, error} = await user.fail('deploy --stack python --yes')
      expect({code, error}).toMatchObject({code: 5, error: {code: 'stack.python'}})
      expect(error.hint).toContain('docs/operations.md')
      expect(await user.fail('delete --stack python --confirm python')).toMatchObject({code: 5})
      expect(writesOf(user.proxy.takeOperations())).toEqual([])
    })

    it('is not changed while it is being changed; the hint suggests to wait', async () => {
      const user = await userWith(
        on('DescribeStacks', {response: body => body.replaceAll('CREATE_COMPLETE', 'UPDATE_IN_PROGRESS')}),
      )
      await stackUser(moto.endpoint).json('deploy --stack busy --no-aggregator --yes')
      const {code, error} = await user.fail('deploy --stack busy --yes')
      expect({code, error}).toMatchObject({
        code: 5,
        error: {code: 'stack.state', details: {status: 'UPDATE_IN_PROGRESS'}},
      })
      expect(error.hint).toBe(
        'Wait until it is done, then run the same command again. Check it: zael status --stack busy',
      )
      expect(writesOf(user.proxy.takeOperations())).toEqual([])
    })
  })

  describe('access and errors of AWS', () => {
    it('reports missing credentials', async () => {
      const {code, stderr} = await zael(['deploy', '--stack', 'anonymous'], {
        env: {AWS_REGION: 'eu-west-1', AWS_EC2_METADATA_DISABLED: 'true'},
      })
      expect(code).toBe(4)
      expect(stderr).toBe(
        'Error: Cannot read stack "anonymous": no valid AWS credentials: Could not load credentials from any providers ' +
          '(stack "anonymous", region "eu-west-1")\n' +
          'Hint: Choose a profile with --profile, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. `aws sts get-caller-identity` shows your identity.\n',
      )
    })

    it('reports a missing region', async () => {
      const {AWS_REGION: _, ...env} = MOTO_IDENTITY
      const {code, stderr} = await zael(['deploy', '--stack', 'nowhere'], {env})
      expect(code).toBe(1)
      expect(stderr).toBe(
        'Error: Cannot read stack "nowhere": no usable AWS region is configured (stack "nowhere")\n' +
          'Hint: Pass --region, set AWS_REGION, or choose a profile that has a region.\n',
      )
    })

    it('reports a region that does not exist', async () => {
      const {code, stderr} = await zael(['deploy', '--stack', 'prod', '--region', 'eu-nowhere-9'], {env: MOTO_IDENTITY})
      expect(code).toBe(1)
      expect(stderr).toMatch(/^Error: Cannot read stack "prod": the host cloudformation\.eu-nowhere-9\./)
      expect(stderr).toContain('Hint: Check the region and --endpoint-url. ')
    })

    it('reports a network failure', async () => {
      const user = await userWith(() => ({hangUp: true}))
      // zael must not treat this address as local, or it would look for an engine.
      const env = {...user.env, AWS_ENDPOINT_URL: user.env.AWS_ENDPOINT_URL?.replace('127.0.0.1', '0.0.0.0') ?? ''}
      const {code, stderr} = await zael(['deploy', '--stack', 'prod'], {env})
      expect(code).toBe(1)
      expect(stderr).toMatch(/^Endpoint: http.*\nError: Cannot read stack "prod": AWS did not respond: /)
    })

    it('names the missing action when access is denied', async () => {
      const reason =
        'User: arn:aws:iam::123456789012:user/ann is not authorized to perform: cloudformation:CreateChangeSet on resource: *'
      const user = await userWith(on('CreateChangeSet', xmlRefusal('AccessDenied', reason, 403)))
      const {code, error} = await user.fail('deploy --stack denied --yes')
      expect({code, error}).toMatchObject({
        code: 4,
        error: {
          code: 'aws.denied',
          message: `Not allowed to plan changes of stack "denied": ${reason}`,
          hint: 'Request cloudformation:CreateChangeSet, or choose another identity with --profile. `zael doctor --stack denied` checks all permissions.',
          details: {action: 'cloudformation:CreateChangeSet'},
        },
      })
      expect(await readStack(account.aws, 'denied')).toBeUndefined()
    })

    it('leaves nothing behind when access is denied at the last step', async () => {
      const reason =
        'User: arn:aws:iam::123456789012:user/ann is not authorized to perform: cloudformation:ExecuteChangeSet'
      const user = await userWith(on('ExecuteChangeSet', xmlRefusal('AccessDenied', reason, 403)))
      expect(await user.fail('deploy --stack denied --yes')).toMatchObject({code: 4, error: {code: 'aws.denied'}})
      expect(await readStack(account.aws, 'denied')).toBeUndefined()
    })

    it('waits out throttling', async () => {
      let refusals = 2
      const user = await userWith(({operation}) =>
        operation === 'DescribeStacks' && refusals-- > 0 ? xmlRefusal('Throttling', 'Rate exceeded') : undefined,
      )
      expect(await user.json('deploy --stack patient --no-aggregator --dry-run')).toMatchObject({action: 'create'})
      expect(refusals).toBeLessThan(0)
    })

    it('reports permanent throttling', async () => {
      const user = await userWith(on('CreateChangeSet', xmlRefusal('Throttling', 'Rate exceeded')))
      const {code, error} = await user.fail('deploy --stack patient --yes')
      expect({code, error}).toMatchObject({code: 1, error: {code: 'aws.throttled'}})
      expect(error.message).toBe('Cannot plan changes of stack "patient": AWS throttled the requests: Rate exceeded')
    })

    it('reports an exhausted quota', async () => {
      const reason = 'Limit for stack has been exceeded'
      const user = await userWith(on('CreateChangeSet', xmlRefusal('LimitExceededException', reason)))
      const {code, error} = await user.fail('deploy --stack many --yes')
      expect({code, error}).toMatchObject({code: 1, error: {code: 'aws.quota'}})
      expect(error.message).toContain(reason)
      expect(error.hint).toContain('Service Quotas')
    })
  })

  it('stops an older zael before it changes the stack of a table that a newer zael has changed', async () => {
    await stackUser(moto.endpoint).json('deploy --stack newer --no-aggregator --yes')
    await account.transport.send('UpdateItem', {
      TableName: 'newer',
      Key: {PK: {S: '_/SYSTEM#'}, SK: {S: '#VERSION'}},
      UpdateExpression: 'SET schema_version = :v',
      ExpressionAttributeValues: {':v': {S: '0.99.0'}},
    })
    const user = await userWith(() => undefined)
    const {code, error} = await user.fail('deploy --stack newer --encryption-key aws-managed --yes')
    expect({code, error}).toMatchObject({code: 5, error: {code: 'schema.too-new'}})
    expect(writesOf(user.proxy.takeOperations())).toEqual([])
  })

  describe('a change set', () => {
    it('is not left behind when the plan fails', async () => {
      await stackUser(moto.endpoint).json('deploy --stack unread --yes')
      const reason = 'User: ann is not authorized to perform: lambda:GetFunctionConfiguration'
      const body = JSON.stringify({__type: 'AccessDeniedException', message: reason})
      const user = await userWith(({operation}) =>
        /^GET .+\/configuration$/.test(operation) ? {instead: {status: 403, body}} : undefined,
      )
      const {code, error} = await user.fail('deploy --stack unread --lambda-memory 1024 --dry-run')
      expect({code, error}).toMatchObject({code: 4, error: {code: 'aws.denied'}})
      const client = await account.aws.cloudFormation()
      const {Summaries = []} = await client.send(new ListChangeSetsCommand({StackName: 'unread'}))
      expect(Summaries.filter(({ExecutionStatus}) => ExecutionStatus === 'AVAILABLE')).toEqual([])
    })

    it('uploads the code again when a new architecture installs the placeholder', async () => {
      await stackUser(moto.endpoint).json('deploy --stack chip --yes')
      const user = await userWith(on('DescribeChangeSet', {response: body => withChange(body, OTHER_PROCESSOR)}))
      const dry = await user.json('deploy --stack chip --lambda-architecture x86_64 --dry-run')
      expect(dry).toMatchObject({action: 'update', code: 'new'})
      const result = await user.json('deploy --stack chip --lambda-architecture x86_64 --yes')
      expect(result).toMatchObject({code: 'new', aggregator: {codeUpdated: true}})
      const {sha256Base64} = await lambdaPackage()
      const lambda = await account.aws.lambda()
      const {Configuration} = await lambda.send(new GetFunctionCommand({FunctionName: 'chip-aggregator'}))
      expect(Configuration).toMatchObject({CodeSha256: sha256Base64, Architectures: ['x86_64']})
    })

    it('is reported with the reason when CloudFormation rejects it, and nothing is left', async () => {
      const reason = 'Template format error: Unrecognized resource types'
      const user = await userWith(
        on('DescribeChangeSet', {
          response: body =>
            body.replace('<Status>CREATE_COMPLETE', `<StatusReason>${reason}</StatusReason><Status>FAILED`),
        }),
      )
      const {code, error} = await user.fail('deploy --stack refused --yes')
      expect({code, error}).toMatchObject({code: 1, error: {code: 'deploy.refused', details: {reason}}})
      expect(await readStack(account.aws, 'refused')).toBeUndefined()
    })

    it('keeps the tags of the stack, except those to be removed', async () => {
      let tags: (string | null)[] = []
      const user = await userWith(({operation, body}) => {
        const asked = new URLSearchParams(body)
        const keys = [...asked.keys()].filter(key => /^Tags\.member\.\d+\.Key$/.test(key))
        if (operation === 'CreateChangeSet') tags = keys.map(key => asked.get(key))
        return undefined
      })
      await user.json('deploy --stack tagged --no-aggregator --tag team=a --tag cost=b --yes')
      expect(tags).toEqual(expect.arrayContaining(['team', 'cost', 'zael:name']))
      await user.json('deploy --stack tagged --remove-tag team --tag owner=c --dry-run')
      expect(tags).toEqual(expect.arrayContaining(['owner', 'cost', 'zael:name']))
      expect(tags).not.toContain('team')
    })

    it('is never executed when it would replace the table', async () => {
      await stackUser(moto.endpoint).json('deploy --stack precious --no-aggregator --yes')
      const user = await userWith(on('DescribeChangeSet', {response: body => withChange(body, TABLE_REPLACED)}))
      const {code, error} = await user.fail('deploy --stack precious --encryption-key aws-managed --yes')
      expect({code, error}).toMatchObject({code: 5, error: {code: 'deploy.replaces-table'}})
      expect(error.message).toBe(
        'CloudFormation would replace the table "precious" because of KeySchema: the new one would be empty.',
      )
      const operations = user.proxy.takeOperations()
      expect(operations).toContain('DeleteChangeSet')
      expect(operations).not.toContain('ExecuteChangeSet')
    })

    it('is shown in the plan and in the confirmation when it replaces another resource', async () => {
      await stackUser(moto.endpoint).json('deploy --stack replaced --no-aggregator --yes')
      const user = await userWith(on('DescribeChangeSet', {response: body => withChange(body, QUEUE_REPLACED)}))
      const {code, stdout, stderr} = await user.run('deploy --stack replaced --encryption-key aws-managed')
      expect(code).toBe(2)
      expect(stdout).toBe(
        [
          'Stack "replaced" in eu-west-1: will be changed',
          '  encryptionKey: aws-owned -> aws-managed',
          '  ! AggregatorDLQ replaced-aggregator-dlq (SQS Queue): is REPLACED by a new one, then deleted',
          '      QueueName: old -> new',
          '',
          '0 to add, 0 to change, 1 to replace, 0 to remove',
          '',
        ].join('\n'),
      )
      expect(stderr).toContain(
        'This changes stack "replaced" in eu-west-1 and replaces AggregatorDLQ. This needs confirmation.',
      )
      expect(user.proxy.takeOperations()).not.toContain('ExecuteChangeSet')
    })
  })

  describe('a deployment that fails midway', () => {
    it('reports the first failure, not the resources that were cancelled because of it', async () => {
      const user = await userWith(
        on('DescribeStackEvents', {response: body => (body.includes('CREATE_COMPLETE') ? FAILED_CREATION : body)}),
      )
      const {code, stdout, stderr} = await user.run('deploy --stack unlucky --no-aggregator --yes')
      expect(code).toBe(1)
      expect(stdout).toContain('will be created')
      expect(stderr).toBe(
        [
          '  09:00:01  CREATE_IN_PROGRESS  unlucky',
          '  09:00:02  CREATE_FAILED       ReadOnlyPolicy',
          '            A policy called unlucky-read already exists.',
          '  09:00:03  CREATE_FAILED       FullAccessPolicy',
          '            Resource creation cancelled',
          '  09:00:04  ROLLBACK_IN_PROGRESS  unlucky',
          '            The following resource(s) failed to create: [ReadOnlyPolicy].',
          '  09:00:05  ROLLBACK_COMPLETE   unlucky',
          'Error: Stack "unlucky" could not be deployed. ReadOnlyPolicy (AWS::IAM::ManagedPolicy): A policy called unlucky-read already exists.',
          'Hint: Only its record remains in CloudFormation. Names of roles and policies are unique in the account. If another region has a stack with this name, add --role-name-format "{}-eu-west-1" --policy-name-format "{}-eu-west-1"; see docs/deploying.md#one-name-in-several-regions',
          '',
        ].join('\n'),
      )
    })

    it('C-11 is recreated by the next one, after confirmation', async () => {
      // Its table exists and is empty, as DeletionPolicy: Retain leaves it.
      await createForeign('second-try', {ManagedBy: 'zael', 'zael:type': 'limiter'})
      await createTable(account.transport, await loadTableDefinition({tableName: 'second-try', stream: false}))
      let isRolledBack = true
      const user = await userWith(({operation}) => {
        if (operation === 'DeleteStack') isRolledBack = false
        const isAsked = operation === 'DescribeStacks' && isRolledBack
        return isAsked ? {response: body => body.replaceAll('CREATE_COMPLETE', 'ROLLBACK_COMPLETE')} : undefined
      })
      const dry = await user.json('deploy --stack second-try --no-aggregator --dry-run')
      expect(dry).toMatchObject({action: 'recreate', changes: []})
      const unconfirmed = await user.run('deploy --stack second-try --no-aggregator')
      expect(unconfirmed.code).toBe(2)
      expect(unconfirmed.stdout).toContain('an earlier deployment failed; its leftovers must be deleted first')
      expect(unconfirmed.stderr).toContain(
        'This deletes the failed stack "second-try" with its empty table "second-try", then creates the stack again',
      )
      expect(writesOf(user.proxy.takeOperations())).toEqual([])

      const result = await user.json('deploy --stack second-try --no-aggregator --yes')
      expect(result).toMatchObject({action: 'create', complete: true})
      const operations = user.proxy.takeOperations()
      expect(operations.indexOf('DeleteStack')).toBeLessThan(operations.indexOf('CreateChangeSet'))
    })

    it('is recreated also when its table is protected against deletion, which the rollback could not delete', async () => {
      await createForeign('protected', {ManagedBy: 'zael', 'zael:type': 'limiter'})
      await createTable(account.transport, await loadTableDefinition({tableName: 'protected', stream: false}))
      await account.transport.send('UpdateTable', {TableName: 'protected', DeletionProtectionEnabled: true})
      let isRolledBack = true
      const user = await userWith(({operation}) => {
        if (operation === 'DeleteStack') isRolledBack = false
        const isAsked = operation === 'DescribeStacks' && isRolledBack
        return isAsked ? {response: body => body.replaceAll('CREATE_COMPLETE', 'ROLLBACK_FAILED')} : undefined
      })
      const unconfirmed = await user.run('deploy --stack protected --no-aggregator --deletion-protection')
      expect(unconfirmed.stderr).toContain('its empty table "protected", after turning off its deletion protection')
      expect(writesOf(user.proxy.takeOperations())).toEqual([])
      const result = await user.json('deploy --stack protected --no-aggregator --deletion-protection --yes')
      expect(result).toMatchObject({action: 'create', complete: true})
      // moto would also delete a protected table.
      const operations = user.proxy
        .takeOperations()
        .filter(each => /^(UpdateTable|DeleteTable|DeleteStack)$/.test(each))
      expect(operations).toEqual(['DeleteStack', 'UpdateTable', 'DeleteTable'])
    })

    it('is not recreated when its table has items', async () => {
      await stackUser(moto.endpoint).json('deploy --stack used --no-aggregator --yes')
      const user = await userWith(
        on('DescribeStacks', {response: body => body.replaceAll('CREATE_COMPLETE', 'ROLLBACK_COMPLETE')}),
      )
      const {code, error} = await user.fail('deploy --stack used --yes')
      expect({code, error}).toMatchObject({code: 5, error: {code: 'deploy.table-exists'}})
      expect(writesOf(user.proxy.takeOperations())).toEqual([])
    })

    it('stops on Ctrl-C, and reports that CloudFormation continues', async () => {
      const user = await userWith(
        on('DescribeStackEvents', {response: body => body.replaceAll('CREATE_COMPLETE', 'CREATE_IN_PROGRESS')}),
      )
      const args = [BIN, 'deploy', '--stack', 'slow', '--no-aggregator', '--yes']
      const child = spawn(process.execPath, args, {cwd: ROOT, env: {PATH: process.env.PATH, ...user.env}})
      let stderr = ''
      let isStopped = false
      child.stderr.setEncoding('utf8').on('data', chunk => {
        stderr += chunk
        // Once: a second Ctrl-C exits without the final message.
        if (!isStopped && stderr.includes('CREATE_IN_PROGRESS')) isStopped = child.kill('SIGINT')
      })
      const [code] = await once(child, 'close')
      expect(code).toBe(130)
      expect(stderr).toContain('Error: Interrupted: CloudFormation continues with stack "slow".\n')
      expect(stderr).toContain('Hint: Check its state: zael status --stack slow. Run the same command again to finish.')
      const client = await account.aws.cloudFormation()
      const {Stacks: [stack] = []} = await client.send(new DescribeStacksCommand({StackName: 'slow'}))
      expect(stack?.StackStatus).toBe('CREATE_COMPLETE')
    })
  })

  it('reports that CloudFormation continues when the events can no longer be read', async () => {
    let isStarted = false
    const user = await userWith(({operation}) => {
      if (operation === 'ExecuteChangeSet' || operation === 'DeleteStack') isStarted = true
      const isBlind = isStarted && operation === 'DescribeStackEvents'
      return isBlind
        ? xmlRefusal('ExpiredToken', 'The security token included in the request is expired', 403)
        : undefined
    })
    const deployed = await user.fail('deploy --stack unseen --no-aggregator --yes')
    expect(deployed).toMatchObject({code: 4, error: {code: 'deploy.out-of-sight', details: {stack: 'unseen'}}})
    expect(deployed.error.message).toBe(
      'CloudFormation continues with stack "unseen", but zael can no longer read its progress. Cannot read the events of the stack: no valid AWS credentials: The security token included in the request is expired',
    )
    expect(deployed.error.hint).toBe(
      'Check its state: zael status --stack unseen. Run the same command again to finish.',
    )
    isStarted = false
    const deleted = await user.fail('delete --stack unseen --confirm unseen')
    expect(deleted).toMatchObject({code: 4, error: {code: 'delete.out-of-sight', details: {stack: 'unseen'}}})
    expect(deleted.error.message).toContain(
      'CloudFormation continues to delete stack "unseen", but zael can no longer read its progress. ',
    )
    expect(deleted.error.hint).toBe(
      'Check its state: zael status --stack unseen. Then delete the rest: zael delete --stack unseen',
    )
  })

  describe('a deletion', () => {
    it('removes the empty stack of a plan that was never executed, and not the table of the same name', async () => {
      const client = await account.aws.cloudFormation()
      const plan = {StackName: 'shell', ChangeSetName: 'plan', ChangeSetType: 'CREATE', TemplateBody: QUEUE} as const
      await client.send(new CreateChangeSetCommand(plan))
      expect((await readStack(account.aws, 'shell'))?.status).toBe('REVIEW_IN_PROGRESS')
      await createTable(account.transport, await loadTableDefinition({tableName: 'shell', stream: false}))
      const user = await userWith(() => undefined)
      expect(await user.fail('delete --stack shell --delete-table --confirm shell')).toMatchObject({
        code: 5,
        error: {code: 'table.foreign'},
      })
      const result = await user.json('delete --stack shell --retain-table --confirm shell')
      expect(result).toMatchObject({status: 'REVIEW_IN_PROGRESS', goes: [], stays: []})
      expect(result.result).toMatchObject({stackDeleted: true, tableDeleted: false, tableLeft: true})
      expect(await readStack(account.aws, 'shell')).toBeUndefined()
    })

    it('reports the first reason when it fails, and does not delete the table', async () => {
      await stackUser(moto.endpoint).json('deploy --stack sticky --no-aggregator --yes')
      let isDeleting = false
      const user = await userWith(({operation}) => {
        if (operation === 'DeleteStack') {
          isDeleting = true
          return {instead: {status: 200, body: '<DeleteStackResponse/>'}}
        }
        return isDeleting && operation === 'DescribeStackEvents' ? {response: withFailedDeletion} : undefined
      })
      const {code, error} = await user.fail('delete --stack sticky --delete-table --confirm sticky')
      expect({code, error}).toMatchObject({
        code: 1,
        error: {code: 'delete.failed', details: {resource: 'ReadOnlyPolicy'}},
      })
      expect(error.message).toContain('Cannot delete a policy attached to entities.')
      expect(user.proxy.takeOperations()).not.toContain('DeleteTable')
    })

    it('is refused when the deployed template would delete the table', async () => {
      await stackUser(moto.endpoint).json('deploy --stack careless --no-aggregator --yes')
      const user = await userWith(
        on('GetTemplate', {
          response: body => body.replaceAll('DeletionPolicy: Retain', 'DeletionPolicy: Delete'),
        }),
      )
      const {code, error} = await user.fail('delete --stack careless --confirm careless')
      expect({code, error}).toMatchObject({code: 5, error: {code: 'delete.table-not-kept'}})
      expect(writesOf(user.proxy.takeOperations())).toEqual([])
    })

    it('is refused while the stack is protected against termination', async () => {
      await stackUser(moto.endpoint).json('deploy --stack guarded --no-aggregator --yes')
      const user = await userWith(
        on('DescribeStacks', {
          response: body => body.replace(/<EnableTerminationProtection>false/i, '<EnableTerminationProtection>true'),
        }),
      )
      const {code, error} = await user.fail('delete --stack guarded --confirm guarded')
      expect({code, error}).toMatchObject({code: 5, error: {code: 'stack.protected'}})
      expect(writesOf(user.proxy.takeOperations())).toEqual([])
    })
  })
})

/** A change set with this change instead of moto's. */
function withChange(body: string, change: string): string {
  const changes = `<Changes><member><Type>Resource</Type><ResourceChange>${change}</ResourceChange></member></Changes>`
  const without = body.replace(/<Changes>[\s\S]*<\/Changes>|<Changes\s*\/>/, '')
  return without.replace('<DescribeChangeSetResult>', `<DescribeChangeSetResult>${changes}`)
}

const TABLE_REPLACED = `
  <Action>Modify</Action><LogicalResourceId>Table</LogicalResourceId><PhysicalResourceId>precious</PhysicalResourceId>
  <ResourceType>AWS::DynamoDB::Table</ResourceType><Replacement>True</Replacement>
  <Details><member><Target><Attribute>Properties</Attribute><Name>KeySchema</Name>
  <RequiresRecreation>Always</RequiresRecreation></Target></member></Details>`

const OTHER_PROCESSOR = `
  <Action>Modify</Action><LogicalResourceId>AggregatorFunction</LogicalResourceId>
  <PhysicalResourceId>chip-aggregator</PhysicalResourceId><ResourceType>AWS::Lambda::Function</ResourceType>
  <Replacement>False</Replacement><Details><member><Target><Attribute>Properties</Attribute><Name>Architectures</Name>
  <RequiresRecreation>Never</RequiresRecreation></Target></member></Details>`

const QUEUE_REPLACED = `
  <Action>Modify</Action><LogicalResourceId>AggregatorDLQ</LogicalResourceId>
  <PhysicalResourceId>https://sqs.eu-west-1.amazonaws.com/123456789012/replaced-aggregator-dlq</PhysicalResourceId>
  <ResourceType>AWS::SQS::Queue</ResourceType><Replacement>True</Replacement>
  <Details><member><Target><Attribute>Properties</Attribute><Name>QueueName</Name><BeforeValue>old</BeforeValue>
  <AfterValue>new</AfterValue><RequiresRecreation>Always</RequiresRecreation></Target></member></Details>`

interface SampleEvent {
  readonly id: string
  readonly second: number
  readonly logicalId: string
  readonly type?: string
  readonly status: string
  readonly reason?: string
}

const STACK_ID = 'arn:aws:cloudformation:eu-west-1:123456789012:stack/unlucky/0a1b'

function eventXml({id, second, logicalId, type = 'AWS::CloudFormation::Stack', status, reason}: SampleEvent): string {
  const physicalId = type === 'AWS::CloudFormation::Stack' ? STACK_ID : logicalId
  return `<member><StackId>${STACK_ID}</StackId><EventId>${id}</EventId><StackName>unlucky</StackName>
    <LogicalResourceId>${logicalId}</LogicalResourceId><PhysicalResourceId>${physicalId}</PhysicalResourceId>
    <ResourceType>${type}</ResourceType><Timestamp>2026-11-15T09:00:0${second}Z</Timestamp>
    <ResourceStatus>${status}</ResourceStatus>
    ${reason === undefined ? '' : `<ResourceStatusReason>${reason}</ResourceStatusReason>`}</member>`
}

/** Newest first, as CloudFormation returns them. */
function eventsXml(events: readonly SampleEvent[]): string {
  const members = events.toReversed().map(eventXml).join('')
  return `<DescribeStackEventsResponse><DescribeStackEventsResult><StackEvents>${members}</StackEvents></DescribeStackEventsResult></DescribeStackEventsResponse>`
}

const POLICY = 'AWS::IAM::ManagedPolicy'

const FAILED_CREATION = eventsXml([
  {id: '1', second: 1, logicalId: 'unlucky', status: 'CREATE_IN_PROGRESS'},
  {
    id: '2',
    second: 2,
    logicalId: 'ReadOnlyPolicy',
    type: POLICY,
    status: 'CREATE_FAILED',
    reason: 'A policy called unlucky-read already exists.',
  },
  {
    id: '3',
    second: 3,
    logicalId: 'FullAccessPolicy',
    type: POLICY,
    status: 'CREATE_FAILED',
    reason: 'Resource creation cancelled',
  },
  {
    id: '4',
    second: 4,
    logicalId: 'unlucky',
    status: 'ROLLBACK_IN_PROGRESS',
    reason: 'The following resource(s) failed to create: [ReadOnlyPolicy].',
  },
  {id: '5', second: 5, logicalId: 'unlucky', status: 'ROLLBACK_COMPLETE'},
])

/** The events so far, followed by those of a failed deletion. */
function withFailedDeletion(body: string): string {
  const members = [
    {id: '9', second: 3, logicalId: 'sticky', status: 'DELETE_FAILED'},
    {
      id: '8',
      second: 2,
      logicalId: 'ReadOnlyPolicy',
      type: POLICY,
      status: 'DELETE_FAILED',
      reason: 'Cannot delete a policy attached to entities.',
    },
    {id: '7', second: 1, logicalId: 'sticky', status: 'DELETE_IN_PROGRESS'},
  ].map(eventXml)
  return body.replace('<StackEvents>', `<StackEvents>${members.join('')}`)
}
