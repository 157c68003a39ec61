import {mkdtemp, readFile, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {CreateBucketCommand, ListObjectsV2Command} from '@aws-sdk/client-s3'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {quotedOutput} from '../docs/quoted-output.js'
import {ROOT, run} from '../e2e/zael.js'
import type {AwsRequest} from './aws-proxy.js'
import {type IamProxy, iamProxy} from './iam-proxy.js'
import {describeWithPython, emptyMoto, type Moto} from './moto.js'
import {type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

const ROLE = 'arn:aws:iam::123456789012:role/cloudformation'

// The smallest stack: these tests are about the way to CloudFormation.
const SMALL = '--no-aggregator --no-iam --no-alarms --no-dashboard'

describeWithPython('a team with least privilege', {timeout: 300_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let proxy: IamProxy
  let user: StackUser
  let folder: string

  beforeAll(async () => {
    moto = await emptyMoto()
    account = openMoto(moto)
    proxy = await iamProxy(moto.endpoint)
    // moto finds templates in buckets only at this name.
    user = stackUser(proxy.endpoint.replace('127.0.0.1', 'localhost'))
    folder = await mkdtemp(join(tmpdir(), 'zael-policy-'))
  })

  afterAll(async () => {
    await account?.[Symbol.asyncDispose]()
    await proxy?.[Symbol.asyncDispose]()
    await rm(folder, {recursive: true, force: true})
  })

  /** The parameters of all calls of one kind while a command runs. */
  async function callsOf(operation: string, command: () => Promise<unknown>): Promise<URLSearchParams[]> {
    const calls: URLSearchParams[] = []
    const listen = (_: string, request: AwsRequest) => {
      if (request.operation === operation) calls.push(new URLSearchParams(request.body))
      return undefined
    }
    await proxy.during(listen, command)
    return calls
  }

  it("derives permissions from CloudFormation's schemas", async () => {
    const outcome = await run(process.execPath, ['.ci/resource-handlers.js', '--check'], {})
    expect(outcome).toEqual({code: 0, stdout: '', stderr: ''})
  })

  it('exports policies for its account, region and names, and asks before it overwrites them', async () => {
    const command = `deploy --stack prod --role-name-format team-{} --export-policy ${folder}`
    proxy.takeActions()
    const {files, target} = await user.json(command)
    expect(target).toBe('files')
    // DescribeStacks finds out whether the endpoint on this machine is an emulator.
    expect(new Set(proxy.takeActions())).toEqual(new Set(['sts:GetCallerIdentity', 'cloudformation:DescribeStacks']))
    const documents = await Promise.all(
      files.map(async ({path}: {path: string}) => JSON.parse(await readFile(path, 'utf8'))),
    )
    const text = JSON.stringify(documents)
    expect(text).toContain('arn:aws:iam::123456789012:role/team-prod-aggr')
    expect(text).toContain('arn:aws:dynamodb:eu-west-1:123456789012:table/prod')
    expect(await user.fail(command)).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    const {stdout} = await user.run(`${command} --yes`)
    expect(stdout).toContain('zael.json  actions that zael calls: attach to the deploying identity\n')
  })

  it('documents the exported files in the page about permissions', async () => {
    const {stdout} = await user.run(`deploy --stack prod --export-policy ${folder}/policies`)
    const quoted = quotedOutput('permissions.md', 'ls policies')
    const written = stdout.trimEnd().split('\n')
    expect(written.map(line => line.split('  ')[0]).sort()).toEqual(quoted.map(line => `${folder}/policies/${line}`))
  })

  it('gets exactly the listed permissions with every option that needs more', async () => {
    const key = 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab'
    const options = `--iam-roles --encryption-key ${key} --permission-boundary limit --lambda-concurrency 2 --tracing`
    const flags = `${options} --cloudformation-role ${ROLE} --template-bucket templates`
    const {files} = await user.json(`deploy --stack prod ${flags} --export-policy ${folder}/all`)
    const documents = await Promise.all(files.map(({path}: {path: string}) => readFile(path, 'utf8')))
    const allowed = documents.flatMap(text =>
      JSON.parse(text).Statement.flatMap(({Action}: {Action: string[]}) => Action),
    )
    const page = await readFile(join(ROOT, 'docs', 'permissions.md'), 'utf8')
    const [, tables = ''] = /<!-- permissions:.*\n([\s\S]*)<!-- \/permissions -->/.exec(page) ?? []
    const listed = [...tables.matchAll(/`([a-z0-9]+:[A-Z][A-Za-z]+\*?)`/g)].map(([, action]) => action)
    expect(new Set(allowed)).toEqual(new Set(listed))
  })

  it.each([
    ['--cloudformation-role cloudformation', 'deploy.role'],
    ['--template-bucket s3://templates', 'deploy.bucket'],
    ['--template-bucket templates-of-nobody --yes', 'deploy.template-bucket'],
  ])('is refused with %s, and nothing is created', async (flags, code) => {
    expect(await user.fail(`deploy --stack wrong ${SMALL} ${flags}`)).toMatchObject({error: {code}})
    proxy.takeActions()
    expect(await user.fail('delete --stack wrong --confirm wrong')).toMatchObject({error: {code: 'stack.missing'}})
  })

  it('lets CloudFormation act with a service role, and passes the template through a bucket', async () => {
    const s3 = await account.aws.s3()
    const location = {LocationConstraint: 'eu-west-1'} as const
    await s3.send(new CreateBucketCommand({Bucket: 'templates', CreateBucketConfiguration: location}))
    const flags = `--cloudformation-role ${ROLE} --template-bucket templates`
    const [created] = await callsOf('CreateChangeSet', async () => {
      const {stdout, code} = await user.run(`deploy --stack team ${SMALL} ${flags} --yes`)
      expect({code, stdout}).toMatchObject({
        code: 0,
        stdout: expect.stringContaining(`  CloudFormation assumes ${ROLE}\n`),
      })
    })
    const {Contents = []} = await s3.send(new ListObjectsV2Command({Bucket: 'templates'}))
    const [{Key = ''} = {}] = Contents
    expect(Key).toMatch(/^zael\/team\/[0-9a-f]{16}\.yaml$/)
    expect(created?.get('RoleARN')).toBe(ROLE)
    expect(created?.get('TemplateURL')).toBe(`${user.env.AWS_ENDPOINT_URL}/templates/${Key}`)
    expect(created?.has('TemplateBody')).toBe(false)
    const [deleted] = await callsOf('DeleteStack', () =>
      user.json(`delete --stack team --delete-table --confirm team --cloudformation-role ${ROLE}-2`),
    )
    expect(deleted?.get('RoleARN')).toBe(`${ROLE}-2`)
  })

  it('shows in the plan that a stack of an earlier version gets another runtime', async () => {
    await user.json('deploy --stack old --no-audit-archive --no-alarms --no-dashboard --runtime nodejs22.x --yes')
    const before22 = (_: string, {operation}: AwsRequest) =>
      operation === 'DescribeStacks' ? {response: withoutRuntime} : undefined
    const planned = (flags: string) => proxy.during(before22, () => user.json(`deploy --stack old${flags} --dry-run`))
    expect((await planned('')).parameters).toEqual([{option: 'runtime', before: 'nodejs22.x', after: 'nodejs24.x'}])
    expect((await planned(' --runtime nodejs22.x')).parameters).toEqual([])
  })
})

/** The description of a stack whose template had no such parameter. */
function withoutRuntime(body: string): string {
  return body.replace(/<member>\s*<ParameterKey>LambdaRuntime<\/ParameterKey>[\s\S]*?<\/member>/, '')
}
