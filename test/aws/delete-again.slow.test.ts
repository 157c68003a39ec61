import {CreateStackCommand, DeleteStackCommand} from '@aws-sdk/client-cloudformation'
import {CreateBucketCommand, HeadBucketCommand, PutObjectCommand} from '@aws-sdk/client-s3'
import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import {readStack, readStackResources} from '../../src/lib/infra/stack/reader.js'
import {type AwsRequest, type Intervention, xmlRefusal} from './aws-proxy.js'
import {denial, type IamProxy, iamProxy} from './iam-proxy.js'
import {describeWithPython, emptyMoto, type Moto} from './moto.js'
import {type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

/*
 * The remains of an interrupted deletion, and of one that keeps resources. moto cannot list the resources of a deleted
 * stack (it fails), so the proxy responds to that one call as AWS documents it.
 */

describeWithPython('a deletion that is run again', {timeout: 300_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let proxy: IamProxy
  let user: StackUser
  const archives = new Map<string, string>()

  beforeAll(async () => {
    moto = await emptyMoto()
    account = openMoto(moto)
    proxy = await iamProxy(moto.endpoint)
    user = withFormerResources(stackUser(proxy.endpoint))
  }, 300_000)

  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]()
    await account?.[Symbol.asyncDispose]()
  })

  type Rule = (action: string, request: AwsRequest) => Intervention | undefined

  /** Applies a rule while `work` runs, and lists the retained resources of deleted stacks. */
  const during = <T>(rule: Rule, work: () => Promise<T>) =>
    proxy.during((action, request) => rule(action, request) ?? formerResources(action, request, archives), work)

  /** A user who always gets the retained resources of deleted stacks. */
  function withFormerResources({env, run, json, fail}: StackUser): StackUser {
    const always =
      <T>(work: (command: string) => Promise<T>) =>
      (command: string) =>
        during(
          () => undefined,
          () => work(command),
        )
    return {env, run: always(run), json: always(json), fail: always(fail)}
  }

  /** The error of a command under a rule. */
  const failing = (command: string, rule: Rule) => during(rule, () => stackUser(proxy.endpoint).fail(command))

  /** Deploys a stack and archives one event; returns the name of the bucket. */
  async function deployWithArchive(name: string): Promise<string> {
    await user.json(`deploy --stack ${name} --yes`)
    const resources = await readStackResources(account.aws, name)
    const Bucket = resources.find(({logicalId}) => logicalId === 'AuditArchiveBucket')?.physicalId ?? ''
    await (await account.aws.s3()).send(new PutObjectCommand({Bucket, Key: 'audit/a', Body: 'a'}))
    archives.set(name, Bucket)
    return Bucket
  }

  const bucketExists = async (Bucket: string) =>
    (await account.aws.s3()).send(new HeadBucketCommand({Bucket})).then(
      () => true,
      () => false,
    )

  it('finds the archive of the deleted stack, and continues where it stopped', async () => {
    const bucket = await deployWithArchive('again')
    const everything = 'delete --stack again --delete-table --empty-archive --confirm again'
    const stopped = await failing(everything, (action, request) =>
      action === 'dynamodb:DeleteTable' ? denial(request) : undefined,
    )
    expect(stopped).toMatchObject({
      code: 4,
      error: {
        code: 'delete.unfinished',
        details: {stack: 'again', done: ['stack'], left: ['table', 'archive'], cause: 'dynamo.denied'},
      },
    })
    expect(stopped.error.message).toMatch(
      /^Stack "again" is deleted, but not the table again, the audit archive \S+: Not allowed to DeleteTable/,
    )
    expect(stopped.error.hint).toMatch(/\nThen continue: zael delete --stack again --delete-table --empty-archive$/)
    expect(await readStack(account.aws, 'again')).toBeUndefined()

    const again = await user.json(everything)
    expect(again).toMatchObject({status: null, region: 'eu-west-1', archive: {bucket, delete: true}})
    expect(again.result).toEqual({stackDeleted: false, tableDeleted: true, tableLeft: false, archivedObjectsDeleted: 1})
    expect(await bucketExists(bucket)).toBe(false)

    expect(await user.fail(everything)).toMatchObject({
      code: 3,
      error: {
        code: 'stack.missing',
        message: 'Stack "again" not found, and neither a table with this name nor an audit archive.',
      },
    })
  })

  it('continues also after the table is gone', async () => {
    const bucket = await deployWithArchive('half')
    const everything = 'delete --stack half --delete-table --empty-archive --confirm half'
    const stopped = await failing(everything, (_, {service, operation}) =>
      service === 's3' && operation.startsWith('POST') ? xmlRefusal('AccessDenied', 'no', 403) : undefined,
    )
    expect(stopped).toMatchObject({
      code: 4,
      error: {code: 'delete.unfinished', details: {done: ['stack', 'table'], left: ['archive'], cause: 'aws.denied'}},
    })
    expect(stopped.error.message).toMatch(/^Stack "half" and the table half are deleted, but not the audit archive /)
    expect((await user.json(everything)).result).toMatchObject({tableDeleted: false, archivedObjectsDeleted: 1})
    expect(await bucketExists(bucket)).toBe(false)
  })

  describe('C-12 when the archive is kept', () => {
    let bucket = ''
    beforeAll(async () => {
      bucket = await deployWithArchive('kept')
      await user.json('delete --stack kept --confirm kept')
    }, 300_000)

    it('is listed with the table', async () => {
      const {stdout} = await user.run('delete --stack kept --delete-table --dry-run')
      expect(stdout.replaceAll(bucket, 'BUCKET').replace(/about \d+/, 'about N')).toBe(
        [
          'Table "kept" in eu-west-1, which belongs to no stack',
          '  deleted:',
          '    - the table kept with about N items',
          '  kept:',
          '    the audit archive BUCKET',
          '',
        ].join('\n'),
      )
    })

    it('need not be readable, unless it is to be deleted', async () => {
      const denied: Rule = (action, request) => (action === 'cloudformation:ListStacks' ? denial(request) : undefined)
      const result = await during(denied, () =>
        stackUser(proxy.endpoint).json('delete --stack kept --delete-table --dry-run'),
      )
      expect(result).toMatchObject({archive: null, table: {delete: true}})
      proxy.takeOperations()
      const refused = await failing('delete --stack kept --delete-table --empty-archive --confirm kept', denied)
      expect(refused).toMatchObject({
        code: 4,
        error: {code: 'aws.denied', details: {action: 'cloudformation:ListStacks'}},
      })
      expect(proxy.takeOperations().filter(each => /^Delete/.test(each))).toEqual([])
    })

    it('can be deleted later, before the table or after it', async () => {
      await user.json('delete --stack kept --delete-table --confirm kept')
      expect(await bucketExists(bucket)).toBe(true)
      const {code, error} = await user.fail('delete --stack kept --delete-table --confirm kept')
      expect({code, error}).toMatchObject({code: 3, error: {code: 'stack.missing'}})
      expect(error.message).toBe(`Stack "kept" not found; only its audit archive ${bucket} exists.`)
      expect(error.hint).toBe('To delete the archive: zael delete --stack kept --empty-archive')
      const {stdout} = await user.run('delete --stack kept --empty-archive --confirm kept')
      expect(stdout.replaceAll(bucket, 'BUCKET')).toBe(
        [
          'Resources that an earlier deletion of stack "kept" in eu-west-1 kept',
          '  deleted:',
          '    - the audit archive BUCKET',
          '',
          'Deleted audit archive BUCKET of 1 objects',
          '',
        ].join('\n'),
      )
      expect(await bucketExists(bucket)).toBe(false)
    })
  })

  it('does not delete the bucket of a deleted stack that was not zael’s', async () => {
    const client = await account.aws.cloudFormation()
    const bucket = {Type: 'AWS::S3::Bucket', DeletionPolicy: 'Retain', Properties: {BucketName: 'theirs-archive'}}
    const TemplateBody = JSON.stringify({Resources: {AuditArchiveBucket: bucket}})
    const Tags = [{Key: 'team', Value: 'billing'}]
    await client.send(new CreateStackCommand({StackName: 'theirs', TemplateBody, Tags}))
    await client.send(new DeleteStackCommand({StackName: 'theirs'}))
    // moto may not retain it.
    if (!(await bucketExists('theirs-archive'))) {
      await (await account.aws.s3()).send(new CreateBucketCommand({Bucket: 'theirs-archive'}))
    }
    archives.set('theirs', 'theirs-archive')
    expect(await user.fail('delete --stack theirs --empty-archive --confirm theirs')).toMatchObject({code: 3})
    expect(await bucketExists('theirs-archive')).toBe(true)
  })

  it('reports that there is no archive to delete', async () => {
    await user.json('deploy --stack plain --no-audit-archive --no-aggregator --yes')
    const {code, stdout} = await user.run('delete --stack plain --empty-archive --dry-run')
    expect(code).toBe(0)
    expect(stdout).toContain('\n  --empty-archive: no audit archive found\n')
  })
})

/** The resources of a deleted stack, which is read by its ARN: deleted ones and retained ones. */
function formerResources(action: string, {body}: AwsRequest, archives: ReadonlyMap<string, string>) {
  const [arn, name = ''] = new URLSearchParams(body).get('StackName')?.split('/') ?? []
  const bucket = archives.get(name)
  if (action !== 'cloudformation:ListStackResources' || !arn?.startsWith('arn:') || bucket === undefined)
    return undefined
  const resources = [
    ['Table', name, 'AWS::DynamoDB::Table', 'DELETE_SKIPPED'],
    ['AuditArchiveBucket', bucket, 'AWS::S3::Bucket', 'DELETE_SKIPPED'],
    ['AggregatorFunction', `${name}-aggregator`, 'AWS::Lambda::Function', 'DELETE_COMPLETE'],
  ].map(
    ([logicalId, physicalId, type, status]) =>
      `<member><LogicalResourceId>${logicalId}</LogicalResourceId><PhysicalResourceId>${physicalId}</PhysicalResourceId>
      <ResourceType>${type}</ResourceType><ResourceStatus>${status}</ResourceStatus></member>`,
  )
  const summaries = `<StackResourceSummaries>${resources.join('')}</StackResourceSummaries>`
  return {
    instead: {
      status: 200,
      body: `<ListStackResourcesResponse><ListStackResourcesResult>${summaries}</ListStackResourcesResult></ListStackResourcesResponse>`,
    },
  }
}
