import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {ListChangeSetsCommand} from '@aws-sdk/client-cloudformation'
import {GetFunctionCommand} from '@aws-sdk/client-lambda'
import {HeadBucketCommand, PutObjectCommand} from '@aws-sdk/client-s3'
import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import {lambdaPackage} from '../../src/lib/infra/lambda/package.js'
import {readStack, readStackResources} from '../../src/lib/infra/stacks/reader.js'
import {openTable} from '../../src/lib/repository/table/open-table.js'
import {readVersion} from '../../src/lib/repository/table/version.js'
import {type AwsProxy, awsProxy} from './aws-proxy.js'
import {describeWithPython, type Moto, startMoto} from './moto.js'
import {type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

/*
 * The built command line against moto. What moto cannot show, and where it is shown instead:
 * - Properties, replacements and values of a change set; failures and rollbacks; quotas; permissions; throttling; a stack
 *   that takes its time: refusals.slow.test.ts, with a proxy that changes that one call.
 * - Tags and outputs of a stack after an update through a change set: moto drops them.
 * - That an update of the function's settings leaves its code alone: moto puts the template's code back, so that here the
 *   code is uploaded again; the second deployment shows that equal code is not.
 */
describeWithPython('deploy and delete on moto', {timeout: 300_000}, () => {
  let moto: Moto
  let proxy: AwsProxy
  let user: StackUser
  let account: MotoAccount
  let folder = ''

  beforeAll(async () => {
    moto = await startMoto()
    account = openMoto(moto)
    proxy = await awsProxy(moto.endpoint)
    user = stackUser(proxy.endpoint)
    folder = await mkdtemp(join(tmpdir(), 'zael-deploy-'))
  })

  afterAll(async () => {
    await account?.[Symbol.asyncDispose]()
    await proxy?.[Symbol.asyncDispose]()
    await moto?.[Symbol.asyncDispose]()
    await rm(folder, {recursive: true, force: true})
  })

  const tableOf = (stack: string) => openTable({stack, transport: account.transport}).table
  const stackNamed = (name: string) => readStack(account.aws, name)

  async function changeSetsLeft(): Promise<number> {
    const client = await account.aws.cloudFormation()
    const {Summaries = []} = await client.send(new ListChangeSetsCommand({StackName: 'prod'}))
    return Summaries.filter(({ExecutionStatus}) => ExecutionStatus === 'AVAILABLE').length
  }

  describe('a stack from its first day on', () => {
    it('--dry-run shows the plan and leaves nothing behind', async () => {
      const told = await user.tell('deploy --stack prod --dry-run')
      expect(told).toMatchObject({action: 'create', dryRun: true, complete: false, code: 'new', region: 'eu-west-1'})
      expect(told.changes).toContainEqual({
        action: 'add',
        logicalId: 'Table',
        physicalId: null,
        type: 'AWS::DynamoDB::Table',
        properties: [],
      })
      expect(await stackNamed('prod')).toBeUndefined()
      expect(await changeSetsLeft()).toBe(0)
    })

    it('without consent nothing is made, and nothing is left', async () => {
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
      expect(stdout).toContain('Stack "prod" in eu-west-1: to be created\n  lambdaMemory: 512 -> 1024\n  + Table (')
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
    })

    it('a second deployment says "no changes", and writes nothing anywhere', async () => {
      proxy.takeOperations()
      const {code, stdout} = await user.run('deploy --stack prod')
      expect({code, stdout}).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('Stack "prod" in eu-west-1: no changes'),
      })
      expect(stdout).toContain('Stack "prod" is up to date')
      // The attempt at a change set is how CloudFormation is asked.
      const writes = /^(Create|Update|Delete|Put|Transact|Execute|Batch|PUT|POST \/20)/
      const wrote = proxy
        .takeOperations()
        .filter(each => writes.test(each) && !/^(CreateChangeSet|BatchGet)/.test(each))
      expect(wrote).toEqual([])
    })

    it('a changed option is changed, and no other', async () => {
      const told = await user.tell('deploy --stack prod --lambda-timeout 30 --yes')
      expect(told).toMatchObject({action: 'update', complete: true})
      expect(told.parameters).toEqual([{option: 'lambdaTimeout', before: '60', after: '30'}])
      expect((await stackNamed('prod'))?.parameters).toMatchObject({LambdaTimeout: '30', LambdaMemorySize: '1024'})
    })

    it('options and tags come from a file; flags win', async () => {
      const file = join(folder, 'prod.yaml')
      await writeFile(file, 'lambdaTimeout: 45\nlogRetentionDays: 7\ntags:\n  team: payments\n')
      const told = await user.tell(`deploy --stack prod --from-file ${file} --lambda-timeout 50 --yes`)
      expect(told.parameters).toEqual([
        {option: 'lambdaTimeout', before: '30', after: '50'},
        {option: 'logRetentionDays', before: '30', after: '7'},
      ])
    })

    it('other commands work with its table', async () => {
      expect((await user.run('namespace create acme --stack prod')).code).toBe(0)
      expect((await user.run('limits set --stack prod --resource gpt-4 rpm=100/min')).code).toBe(0)
      const acquired = await user.run('acquire user-1 gpt-4 rpm=1 --stack prod')
      expect(acquired).toMatchObject({code: 0})
    })

    it('the resource index cannot be changed in one step; the steps are told', async () => {
      const {code, error} = await user.fail('deploy --stack prod --resource-index all --yes')
      expect({code, error}).toMatchObject({code: 5, error: {code: 'deploy.index-rebuild', details: {asked: 'all'}}})
      expect(error.details.steps).toHaveLength(3)
      expect(await changeSetsLeft()).toBe(0)
    })

    it('nor where the aggregator starts, while there is one', async () => {
      const {code, error} = await user.fail('deploy --stack prod --stream-start latest --yes')
      expect({code, error}).toMatchObject({
        code: 5,
        error: {
          code: 'deploy.stream-start',
          message:
            'The aggregator of "prod" started at oldest; starting it at latest takes two changes: CloudFormation makes the new mapping before it deletes the old one, and Lambda allows one.',
        },
      })
      expect(error.details.steps).toEqual([
        'zael deploy --stack prod --no-aggregator',
        'zael deploy --stack prod --aggregator --stream-start latest',
      ])
      expect(await changeSetsLeft()).toBe(0)
      // What it was already is no change, and without an aggregator there is nothing to replace.
      expect(await user.tell('deploy --stack prod --stream-start oldest --dry-run')).toMatchObject({parameters: []})
      const without = await user.tell('deploy --stack prod --stream-start latest --no-aggregator --dry-run')
      expect(without).toMatchObject({action: 'update'})
    })
  })

  describe('the end of a stack', () => {
    it('--dry-run tells what goes and what stays', async () => {
      const told = await user.tell('delete --stack prod --dry-run')
      expect(told).toMatchObject({
        dryRun: true,
        region: 'eu-west-1',
        table: {name: 'prod', delete: false},
        archive: {delete: false},
        result: null,
      })
      expect(told.goes.map(({logicalId}: {logicalId: string}) => logicalId)).toContain('AggregatorFunction')
      expect(told.stays.map(({logicalId}: {logicalId: string}) => logicalId)).toContain('AuditArchiveBucket')
    })

    it.each([
      ['delete --stack prod', 'confirm.needed'],
      ['delete --stack prod --confirm prd', 'confirm.name'],
      ['delete --stack prod --delete-table --empty-archive', 'confirm.needed'],
    ])('zael %s is refused, and everything is still there', async (command, error) => {
      expect(await user.fail(command)).toMatchObject({code: 2, error: {code: error}})
      expect((await stackNamed('prod'))?.status).toBe('UPDATE_COMPLETE')
    })

    it('the table outlives its stack, and works', async () => {
      const {code, stdout} = await user.run('delete --stack prod --confirm prod')
      expect(code).toBe(0)
      expect(stdout).toMatch(
        /\nStack "prod" is deleted\n {2}left on AWS:\n {4}the table prod; to delete it too: .+\n {4}the archive/,
      )
      expect(await stackNamed('prod')).toBeUndefined()
      const names = await user.run('namespace list --stack prod --json')
      expect(JSON.parse(names.stdout).namespaces.map(({name}: {name: string}) => name)).toEqual(['acme', 'default'])
    })

    it('a table without a stack is in the way of a new one, and is not touched', async () => {
      expect(await user.fail('deploy --stack prod --yes')).toMatchObject({
        code: 5,
        error: {code: 'deploy.table-exists'},
      })
      expect(await user.fail('delete --stack prod --confirm prod')).toMatchObject({
        code: 3,
        error: {code: 'stack.missing'},
      })
      expect((await user.run('namespace list --stack prod')).code).toBe(0)
    })

    it('goes with --delete-table, and then there is nothing', async () => {
      const told = await user.tell('delete --stack prod --delete-table --confirm prod')
      expect(told.result).toEqual({
        stackDeleted: false,
        tableDeleted: true,
        tableLeft: false,
        archivedObjectsDeleted: null,
      })
      expect(await user.fail('delete --stack prod --delete-table --confirm prod')).toMatchObject({code: 3})
    })

    it('a protected table keeps --delete-table from deleting anything', async () => {
      await user.tell('deploy --stack safe --no-aggregator --deletion-protection --yes')
      const {code, error} = await user.fail('delete --stack safe --delete-table --confirm safe')
      expect({code, error}).toMatchObject({code: 5, error: {code: 'table.protected'}})
      expect(error.hint).toContain('zael deploy --stack safe --no-deletion-protection')
      expect((await stackNamed('safe'))?.status).toBe('CREATE_COMPLETE')
    })

    it('everything goes when everything is asked for, a full archive too', async () => {
      await user.tell('deploy --stack gone --yes')
      const aws = account.aws
      const resources = await readStackResources(aws, 'gone')
      const Bucket = resources.find(({logicalId}) => logicalId === 'AuditArchiveBucket')?.physicalId ?? ''
      const s3 = await aws.s3()
      for (const Key of ['audit/a', 'audit/b']) await s3.send(new PutObjectCommand({Bucket, Key, Body: Key}))

      const told = await user.tell('delete --stack gone --delete-table --empty-archive --confirm gone')
      expect(told.result).toEqual({stackDeleted: true, tableDeleted: true, tableLeft: false, archivedObjectsDeleted: 2})
      await expect(s3.send(new HeadBucketCommand({Bucket}))).rejects.toThrow()
    })
  })

  it('--no-wait leaves the rest to a second run', async () => {
    const told = await user.tell('deploy --stack later --no-wait --yes')
    expect(told).toMatchObject({action: 'create', complete: false, aggregator: null})
    expect((await readVersion(tableOf('later'))).record).toBeUndefined()
    const again = await user.tell('deploy --stack later --yes')
    expect(again).toMatchObject({action: 'none', complete: true, code: 'new', defaultNamespaceCreated: true})
    expect(again.aggregator).toMatchObject({codeUpdated: true, eventSource: 'Enabled'})
  })
})
