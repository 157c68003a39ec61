import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {ListChangeSetsCommand} from '@aws-sdk/client-cloudformation'
import {GetFunctionCommand} from '@aws-sdk/client-lambda'
import {HeadBucketCommand, PutObjectCommand} from '@aws-sdk/client-s3'
import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import {commandGrants} from '../../src/lib/infra/permissions/permissions.js'
import {lambdaPackage} from '../../src/lib/infra/stack/artifacts.js'
import {readStack, readStackResources} from '../../src/lib/infra/stack/reader.js'
import {openTable} from '../../src/lib/repository/table/open-table.js'
import {readVersion} from '../../src/lib/repository/table/version.js'
import {readRollups} from '../../src/lib/repository/usage/sum.js'
import {type IamProxy, iamProxy} from './iam-proxy.js'
import {describeWithPython, emptyMoto, type Moto} from './moto.js'
import {type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

/*
 * The built command line against moto. Cases that moto lacks, and their tests:
 * - Properties, replacements and values of a change set; failures and rollbacks; quotas; permissions; throttling; a stack
 *   that is slow: refusals.slow.test.ts, with a proxy that changes that one call.
 * - Tags and outputs of a stack after an update through a change set: moto drops them.
 * - That an update of the function's settings does not change its code: moto restores the template's code, so that the
 *   code is uploaded again here; the second deployment shows that unchanged code is not uploaded.
 */
describeWithPython('deploy and delete on moto', {timeout: 300_000}, () => {
  let moto: Moto
  let proxy: IamProxy
  let user: StackUser
  let account: MotoAccount
  let folder = ''
  /** The IAM actions of all calls that `deploy` and `delete` have made. */
  const called: string[] = []

  beforeAll(async () => {
    moto = await emptyMoto()
    account = openMoto(moto)
    proxy = await iamProxy(moto.endpoint)
    user = stackUser(proxy.endpoint)
    folder = await mkdtemp(join(tmpdir(), 'zael-deploy-'))
  })

  afterAll(async () => {
    await account?.[Symbol.asyncDispose]()
    await proxy?.[Symbol.asyncDispose]()
    await rm(folder, {recursive: true, force: true})
  })

  const tableOf = (stack: string) => openTable({stack, transport: account.transport}).table
  const stackNamed = (name: string) => readStack(account.aws, name)

  async function changeSetsLeft(): Promise<number> {
    const client = await account.aws.cloudFormation()
    const {Summaries = []} = await client.send(new ListChangeSetsCommand({StackName: 'prod'}))
    return Summaries.filter(({ExecutionStatus}) => ExecutionStatus === 'AVAILABLE').length
  }

  describe('the life of a stack', () => {
    it('shows the plan with --dry-run and leaves nothing behind', async () => {
      const result = await user.json('deploy --stack prod --dry-run')
      expect(result).toMatchObject({action: 'create', dryRun: true, complete: false, code: 'new', region: 'eu-west-1'})
      expect(result.changes).toContainEqual({
        action: 'add',
        logicalId: 'Table',
        physicalId: null,
        type: 'AWS::DynamoDB::Table',
        properties: [],
      })
      expect(await stackNamed('prod')).toBeUndefined()
      expect(await changeSetsLeft()).toBe(0)
    })

    it('creates nothing without confirmation, and leaves nothing', async () => {
      expect(await user.fail('deploy --stack prod')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
      expect(await stackNamed('prod')).toBeUndefined()
      expect(await changeSetsLeft()).toBe(0)
    })

    it('is created, with code, event source, version record and default namespace', async () => {
      const {code, stdout, stderr} = await user.run(
        'deploy --stack prod --lambda-memory 1024 --tag team=platform --yes',
      )
      expect({code, stderr: stderr.replaceAll(/\d\d:\d\d:\d\d/g, '00:00:00')}).toEqual({
        code: 0,
        stderr: [
          '  00:00:00  CREATE_IN_PROGRESS  prod',
          '  00:00:00  CREATE_COMPLETE     prod',
          '  Checking the table',
          '  Comparing the code of the aggregator',
          '  Waiting for the event source',
          '',
        ].join('\n'),
      })
      expect(stdout).toContain('Stack "prod" in eu-west-1: will be created\n  lambdaMemory: 512 -> 1024\n  + Table (')
      const {sha256Base64} = await lambdaPackage()
      expect(stdout.slice(stdout.indexOf('\nStack "prod" is'))).toBe(
        [
          '',
          'Stack "prod" is deployed',
          '  table       prod, layout 0.9.0',
          '  namespace   default, new',
          '  aggregator  prod-aggregator',
          `  code        ${sha256Base64.slice(0, 12)}, uploaded`,
          '  stream      event source enabled',
          '',
        ].join('\n'),
      )

      const stack = await stackNamed('prod')
      expect(stack).toMatchObject({status: 'CREATE_COMPLETE', owner: 'zael', parameters: {LambdaMemorySize: '1024'}})
      expect(stack?.tags).toMatchObject({team: 'platform', 'zael:name': 'prod', 'zael:type': 'limiter'})
      const lambda = await account.aws.lambda()
      const {Configuration} = await lambda.send(new GetFunctionCommand({FunctionName: 'prod-aggregator'}))
      expect(Configuration).toMatchObject({CodeSha256: sha256Base64, MemorySize: 1024})
      expect((await readVersion(tableOf('prod'))).record).toMatchObject({schemaVersion: '0.9.0'})
      const {switches} = await readRollups(tableOf('prod'))
      expect([switches.daily.length, switches.monthly.length]).toEqual([1, 1])
    })

    it('reports "no changes" for a second deployment, and writes nothing', async () => {
      proxy.takeOperations()
      const {code, stdout} = await user.run('deploy --stack prod')
      expect({code, stdout}).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('Stack "prod" in eu-west-1: no changes'),
      })
      expect(stdout).toContain('Stack "prod" is up to date')
      // CreateChangeSet is how CloudFormation compares.
      const writes = /^(Create|Update|Delete|Put|Transact|Execute|Batch|PUT|POST \/20)/
      const written = proxy
        .takeOperations()
        .filter(each => writes.test(each) && !/^(CreateChangeSet|BatchGet)/.test(each))
      expect(written).toEqual([])
    })

    it('C-6 changes only the given option in a second deployment', async () => {
      const result = await user.json('deploy --stack prod --lambda-timeout 30 --yes')
      expect(result).toMatchObject({action: 'update', complete: true})
      expect(result.parameters).toEqual([{option: 'lambdaTimeout', before: '60', after: '30'}])
      expect((await stackNamed('prod'))?.parameters).toMatchObject({LambdaTimeout: '30', LambdaMemorySize: '1024'})
      const lambda = await account.aws.lambda()
      const {Configuration} = await lambda.send(new GetFunctionCommand({FunctionName: 'prod-aggregator'}))
      expect(Configuration).toMatchObject({Timeout: 30, MemorySize: 1024})
    })

    it('C-7 shows the changes of an update with --dry-run, and changes nothing', async () => {
      const before = await stackNamed('prod')
      const result = await user.json('deploy --stack prod --lambda-memory 2048 --dry-run')
      expect(result.parameters).toEqual([{option: 'lambdaMemory', before: '1024', after: '2048'}])
      expect(await stackNamed('prod')).toEqual(before)
    })

    it('reads options and tags from a file; flags take precedence', async () => {
      const file = join(folder, 'prod.yaml')
      await writeFile(file, 'lambdaTimeout: 45\nlogRetentionDays: 7\ntags:\n  team: payments\n')
      const result = await user.json(`deploy --stack prod --from-file ${file} --lambda-timeout 50 --yes`)
      expect(result.parameters).toEqual([
        {option: 'lambdaTimeout', before: '30', after: '50'},
        {option: 'logRetentionDays', before: '30', after: '7'},
      ])
    })

    it('shows and sets the maxima of its throughput, and refuses bad ones first', async () => {
      const result = await user.json('deploy --stack prod --on-demand-max-writes 500 --yes')
      expect(result.parameters).toEqual([{option: 'onDemandMaxWrites', before: '', after: '500'}])
      expect((await stackNamed('prod'))?.parameters).toMatchObject({OnDemandMaxWriteUnits: '500'})
      called.push(...proxy.takeActions())
      for (const bad of ['--on-demand-max-writes 0', '--on-demand-max-reads many', '--warm-throughput-writes 3999'])
        expect(await user.fail(`deploy --stack prod ${bad} --yes`)).toMatchObject({code: 2})
      expect(proxy.takeActions()).toEqual([])
    })

    it('shows, confirms and sets termination protection, without other changes', async () => {
      // moto does not have this call.
      const requests: string[] = []
      const protect = (action: string, {body}: {body: string}) => {
        if (action !== 'cloudformation:UpdateTerminationProtection') return undefined
        requests.push(body)
        return {instead: {status: 200, body: '<UpdateTerminationProtectionResponse/>'}}
      }
      const asked = await user.run('deploy --stack prod --termination-protection')
      expect(asked).toMatchObject({code: 2, stdout: expect.stringContaining('termination protection: off -> on')})
      expect(asked.stderr).toContain('This turns on the termination protection of "prod" in eu-west-1')
      const result = await proxy.during(protect, () => user.json('deploy --stack prod --termination-protection --yes'))
      expect(result).toMatchObject({action: 'none', terminationProtection: true, complete: true})
      expect(requests).toEqual([
        expect.stringMatching(/EnableTerminationProtection=true.*StackName=prod|StackName=prod/),
      ])
      // As it is already: nothing to do.
      expect(await user.json('deploy --stack prod --no-termination-protection')).toMatchObject({
        terminationProtection: null,
      })
    })

    it('lets other commands work with its table', async () => {
      called.push(...proxy.takeActions())
      expect((await user.run('namespace create acme --stack prod')).code).toBe(0)
      expect((await user.run('limits set --stack prod --resource gpt-4 rpm=100/min')).code).toBe(0)
      const acquired = await user.run('acquire user-1 gpt-4 rpm=1 --stack prod')
      expect(acquired).toMatchObject({code: 0})
      proxy.takeActions()
    })

    it('lists the steps for the resource index, which cannot be changed in one step', async () => {
      const {code, error} = await user.fail('deploy --stack prod --resource-index all --yes')
      expect({code, error}).toMatchObject({code: 5, error: {code: 'deploy.index-rebuild', details: {asked: 'all'}}})
      expect(error.details.steps).toHaveLength(3)
      expect(await changeSetsLeft()).toBe(0)
    })

    it('refuses another starting position for an existing aggregator', async () => {
      const {code, error} = await user.fail('deploy --stack prod --stream-start latest --yes')
      expect({code, error}).toMatchObject({
        code: 5,
        error: {
          code: 'deploy.stream-start',
          message:
            'The aggregator of "prod" started at oldest. Starting it at latest takes two deployments: CloudFormation creates the new mapping before it deletes the old one, and Lambda allows only one.',
        },
      })
      expect(error.details.steps).toEqual([
        'zael deploy --stack prod --no-aggregator',
        'zael deploy --stack prod --aggregator --stream-start latest',
      ])
      expect(await changeSetsLeft()).toBe(0)
      // The deployed value changes nothing, and without an aggregator nothing is replaced.
      expect(await user.json('deploy --stack prod --stream-start oldest --dry-run')).toMatchObject({parameters: []})
      const without = await user.json('deploy --stack prod --stream-start latest --no-aggregator --dry-run')
      expect(without).toMatchObject({action: 'update'})
    })
  })

  describe('the deletion of a stack', () => {
    it('lists deleted and kept resources with --dry-run', async () => {
      const result = await user.json('delete --stack prod --dry-run')
      expect(result).toMatchObject({
        dryRun: true,
        region: 'eu-west-1',
        table: {name: 'prod', delete: false},
        archive: {delete: false},
        result: null,
      })
      expect(result.goes.map(({logicalId}: {logicalId: string}) => logicalId)).toContain('AggregatorFunction')
      expect(result.stays.map(({logicalId}: {logicalId: string}) => logicalId)).toContain('AuditArchiveBucket')
    })

    it.each([
      ['delete --stack prod', 'confirm.needed'],
      ['delete --stack prod --confirm prd', 'confirm.name'],
      // Not with --delete-table: moto lists the table of an updated stack without its name, which proves nothing.
      ['delete --stack prod --empty-archive', 'confirm.needed'],
    ])('refuses zael %s, and deletes nothing', async (command, error) => {
      expect(await user.fail(command)).toMatchObject({code: 2, error: {code: error}})
      expect((await stackNamed('prod'))?.status).toBe('UPDATE_COMPLETE')
    })

    it('C-12 keeps the table after the stack, in working order', async () => {
      const {code, stdout} = await user.run('delete --stack prod --confirm prod')
      expect(code).toBe(0)
      expect(stdout).toMatch(
        /\nDeleted stack "prod"\n {2}kept on AWS:\n {4}the table prod. Delete it: .+\n {4}the audit archive/,
      )
      expect(await stackNamed('prod')).toBeUndefined()
      called.push(...proxy.takeActions())
      const names = await user.run('namespace list --stack prod --json')
      proxy.takeActions()
      expect(JSON.parse(names.stdout).namespaces.map(({name}: {name: string}) => name)).toEqual(['acme', 'default'])
    })

    // moto's CloudFormation sets neither expiry nor recovery; test/infra/cloudformation has adoptions.
    it('refuses a new stack over a table that does not fit the template, and does not change the table', async () => {
      expect(await user.fail('deploy --stack prod --yes')).toMatchObject({
        code: 5,
        error: {code: 'deploy.adopt-misfit', details: {misfits: ['has no expiry', 'has no point-in-time recovery']}},
      })
      expect(await stackNamed('prod')).toBeUndefined()
      expect(await user.fail('delete --stack prod --confirm prod')).toMatchObject({
        code: 3,
        error: {code: 'stack.missing'},
      })
      called.push(...proxy.takeActions())
      expect((await user.run('namespace list --stack prod')).code).toBe(0)
      proxy.takeActions()
    })

    it('deletes the table with --delete-table, and leaves nothing', async () => {
      const result = await user.json('delete --stack prod --delete-table --confirm prod')
      expect(result.result).toEqual({
        stackDeleted: false,
        tableDeleted: true,
        tableLeft: false,
        archivedObjectsDeleted: null,
      })
      expect(await user.fail('delete --stack prod --delete-table --confirm prod')).toMatchObject({code: 3})
    })

    it('C-12 deletes nothing with --delete-table while the table is protected', async () => {
      await user.json('deploy --stack safe --no-aggregator --deletion-protection --yes')
      const {code, error} = await user.fail('delete --stack safe --delete-table --confirm safe')
      expect({code, error}).toMatchObject({code: 5, error: {code: 'table.protected'}})
      expect(error.hint).toContain('zael deploy --stack safe --no-deletion-protection')
      expect((await stackNamed('safe'))?.status).toBe('CREATE_COMPLETE')
    })

    it('deletes everything on request, including a non-empty archive', async () => {
      await user.json('deploy --stack gone --yes')
      const aws = account.aws
      const resources = await readStackResources(aws, 'gone')
      const Bucket = resources.find(({logicalId}) => logicalId === 'AuditArchiveBucket')?.physicalId ?? ''
      const s3 = await aws.s3()
      for (const Key of ['audit/a', 'audit/b']) await s3.send(new PutObjectCommand({Bucket, Key, Body: Key}))

      const result = await user.json('delete --stack gone --delete-table --empty-archive --confirm gone')
      expect(result.result).toEqual({
        stackDeleted: true,
        tableDeleted: true,
        tableLeft: false,
        archivedObjectsDeleted: 2,
      })
      await expect(s3.send(new HeadBucketCommand({Bucket}))).rejects.toThrow()
    })
  })

  it('leaves the remaining steps to a second run with --no-wait', async () => {
    const result = await user.json('deploy --stack later --no-wait --yes')
    expect(result).toMatchObject({action: 'create', complete: false, aggregator: null})
    expect((await readVersion(tableOf('later'))).record).toBeUndefined()
    const again = await user.json('deploy --stack later --yes')
    expect(again).toMatchObject({action: 'none', complete: true, code: 'new', defaultNamespaceCreated: true})
    expect(again.aggregator).toMatchObject({codeUpdated: true, eventSource: 'Enabled'})
  })

  // On AWS a transaction is authorised as the writes in it. Whether an endpoint on this machine is an emulator is found out
  // with a call that AWS does not get.
  it('calls only actions that the exported policy allows', async () => {
    called.push(...proxy.takeActions())
    const place = {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'prod'}
    const own = commandGrants('deploy', {
      ...{place, parameters: {}, archiveBucket: '*', cloudFormationRole: null, templateBucket: null},
    })
    const allowed = new Set(own.flatMap(({actions}) => actions))
    const used = new Set(
      called.flatMap(action => (action === 'dynamodb:TransactWriteItems' ? ['dynamodb:PutItem'] : action)),
    )
    expect([...used].filter(action => !allowed.has(action))).toEqual([])
    // For drift and early validation, which moto does not have, for tags, for a version record of an earlier version, and
    // for old versions of objects, which the archive here does not have.
    expect([...allowed].filter(action => !used.has(action)).sort()).toEqual([
      ...['cloudformation:BatchDescribeTypeConfigurations', 'cloudformation:DescribeEvents'],
      ...['cloudformation:DescribeStackDriftDetectionStatus', 'cloudformation:DescribeStackResourceDrifts'],
      ...['cloudformation:DetectStackDrift', 'cloudformation:DetectStackResourceDrift'],
      ...['cloudformation:TagResource', 'cloudformation:UntagResource', 'dynamodb:UpdateItem'],
      's3:DeleteObjectVersion',
    ])
  })
})
