import {createHash, randomUUID} from 'node:crypto'
import {mkdtemp, readdir, readFile, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {compactTemplate} from '../../src/lib/files/template-yaml.js'
import {lambdaPackage} from '../../src/lib/infra/stack/artifacts.js'
import {OTHER_PARAMETERS, STACK_OPTIONS} from '../../src/lib/infra/stack/options.js'
import {describeOnEngine} from '../helpers/table.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'
import {ROOT, zael} from './zael.js'

// test/aws tests deployments to AWS; these tests do not need AWS.

describeOnEngine('deploy and delete on a local engine', () => {
  const name = `deploy-${randomUUID()}`
  const cli = tableCli({name})

  /** Both have no topic, so that the schema is that of the first word. */
  async function tell(command: string) {
    const {code, stdout, stderr} = await cli.run(`${command} --json`)
    if (code !== 0) throw new Error(`${stdout}${stderr}`)
    const result = JSON.parse(stdout)
    expect(schemaProblems(command.split(' ')[0] ?? '', result)).toEqual([])
    return result
  }

  it('--dry-run creates nothing', async () => {
    expect(await tell('deploy --dry-run')).toMatchObject({target: 'engine', action: 'create', complete: false})
    expect(await cli.fail('namespace list')).toMatchObject({code: 3})
  })

  it('creates the table of the template, says that nothing else is created, and does not ask', async () => {
    const {code, stdout, stderr} = await cli.run('deploy --resource-index all --lambda-memory 1024')
    expect({code, stderr}).toEqual({
      code: 0,
      stderr: 'Warning: These options have no effect on a local engine: lambdaMemory\n',
    })
    expect(stdout.replaceAll(name, 'STACK')).toMatchInlineSnapshot(`
      "Created table "STACK" on the local engine
        template  the same as on AWS
        omitted   function, alarms, archive and policies: local engines do not support them
      "
    `)
    expect((await cli.tell('namespace list')).namespaces).toMatchObject([{name: 'default'}])
  })

  it('finds the table on a second run, and refuses another resource index', async () => {
    expect(await tell('deploy')).toMatchObject({action: 'none', complete: true})
    expect(await cli.fail('deploy --resource-index keys-only')).toMatchObject({
      code: 5,
      error: {code: 'deploy.index-rebuild'},
    })
  })

  it('delete requires the flag and the name', async () => {
    expect(await cli.fail(`delete --confirm ${name}`)).toMatchObject({code: 3, error: {code: 'stack.missing'}})
    expect(await cli.fail('delete --delete-table')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect((await cli.tell('namespace list')).namespaces).toHaveLength(1)
    const planned = await tell('delete --delete-table --empty-archive --dry-run')
    expect(planned).toMatchObject({region: null, archive: null})
    const {code, stdout} = await cli.run(`delete --delete-table --confirm ${name}`)
    expect({code, stdout: stdout.replaceAll(name, 'STACK').replace(/about \d+/, 'about N')}).toEqual({
      code: 0,
      stdout: [
        'Table "STACK", which belongs to no stack',
        '  deleted:',
        '    - the table STACK with about N items',
        '',
        'Deleted table "STACK"',
        '',
      ].join('\n'),
    })
    expect(await cli.fail(`delete --delete-table --confirm ${name}`)).toMatchObject({code: 3})
  })

  it('delete keeps a table of another program', async () => {
    const {createTransport} = await import('../../src/lib/dynamo/transports/create.js')
    const {resolveConnection} = await import('../../src/lib/dynamo/connection.js')
    const connection = resolveConnection({endpointUrl: inject('engineEndpoint')}, {})
    const transport = createTransport({connection, clock: Date.now})
    const TableName = `orders-${randomUUID()}`
    await transport.send('CreateTable', {
      TableName,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{AttributeName: 'id', AttributeType: 'S'}],
      KeySchema: [{AttributeName: 'id', KeyType: 'HASH'}],
    })
    const orders = tableCli({name: TableName})
    expect(await orders.fail(`delete --delete-table --confirm ${TableName}`)).toMatchObject({
      code: 5,
      error: {code: 'table.foreign'},
    })
    await transport.send('DeleteTable', {TableName})
    await transport.close()
  })
})

describe('deploy --export', () => {
  let folder = ''
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-export-'))
  })
  afterAll(() => rm(folder, {recursive: true}))

  const run = (...args: string[]) => zael(['deploy', '--export', join(folder, 'out'), ...args])

  it('writes template, parameters and code without asking', async () => {
    // Without credentials, region or network settings of any kind.
    const {code, stdout, stderr} = await run('--lambda-memory', '1024')
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    expect(stdout.replaceAll(folder, 'DIR')).toMatchInlineSnapshot(`
      "DIR/out/stack.yaml  CloudFormation template
      DIR/out/parameters.json  its parameters, for --parameters
      DIR/out/parameter-overrides.json  the same for --parameter-overrides
      DIR/out/aggregator.zip  code of the aggregator function
      "
    `)
    const read = (file: string) => readFile(join(folder, 'out', file))
    const template = String(await read('stack.yaml'))
    expect(template).toBe(compactTemplate(await readFile(join(ROOT, 'templates', 'stack.yaml'), 'utf8')))
    // The AWS CLI uploads larger templates through a bucket.
    expect(Buffer.byteLength(template)).toBeLessThan(51_200)
    expect(await read('aggregator.zip')).toEqual((await lambdaPackage()).zip)
    const parameters = JSON.parse(String(await read('parameters.json')))
    expect(parameters).toHaveLength(STACK_OPTIONS.length + OTHER_PARAMETERS.length)
    expect(parameters).toContainEqual({ParameterKey: 'LambdaMemorySize', ParameterValue: '1024'})
    expect(parameters).toContainEqual({ParameterKey: 'LambdaTimeout', ParameterValue: '60'})
    expect(parameters).toContainEqual({ParameterKey: 'CodeBucket', ParameterValue: ''})
    const hash = createHash('sha256')
      .update(await read('aggregator.zip'))
      .digest('hex')
      .slice(0, 16)
    expect(parameters).toContainEqual({ParameterKey: 'CodeKey', ParameterValue: `zael/aggregator-${hash}.zip`})
    // aws-cli 1.46.2 reads this form, and refuses the other one ("Invalid type for parameter").
    const overrides = JSON.parse(String(await read('parameter-overrides.json')))
    expect(overrides).toHaveLength(STACK_OPTIONS.length + OTHER_PARAMETERS.length)
    expect(overrides).toEqual(
      expect.arrayContaining(['LambdaMemorySize=1024', 'AlarmSNSTopicArn=', 'LambdaTimeout=60']),
    )
  })

  it('overwrites only after confirmation', async () => {
    expect(await run()).toMatchObject({code: 2, stderr: expect.stringContaining('This overwrites the export in')})
    const {code, stdout} = await run('--yes', '--json')
    expect(code).toBe(0)
    expect(schemaProblems('deploy', JSON.parse(stdout))).toEqual([])
  })

  it('writes no parameters that the template would refuse', async () => {
    const {code, stderr} = await zael(['deploy', '--export', join(folder, 'refused'), '--no-iam'])
    expect({code, stderr}).toEqual({
      code: 2,
      stderr:
        'Error: Without IAM, the aggregator has no role.\n' +
        'Hint: Name a role with --aggregator-role, or deploy without the aggregator: --no-aggregator.\n',
    })
    await expect(readFile(join(folder, 'refused', 'parameters.json'))).rejects.toThrow('ENOENT')
  })

  it.each([
    [join(ROOT, 'package.json', 'x'), 'a part of the path is a file'],
    // Node's own recursive mkdir never returns there.
    ['/proc/x/y', 'a folder cannot be created there'],
  ])('reports that %s cannot be written', async (path, why) => {
    const {code, stderr} = await zael(['deploy', '--export', path])
    expect({code, stderr}).toEqual({
      code: 1,
      stderr: `Error: Cannot write to ${path}: ${why}.\nHint: Choose another folder.\n`,
    })
  })
})

describe('deploy --export-policy without credentials', () => {
  let folder = ''
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-policies-'))
  })
  afterAll(() => rm(folder, {recursive: true}))

  /** Without profiles in HOME and without the EC2 metadata service. */
  const run = (name: string, ...args: string[]) =>
    zael(['deploy', '--stack', 'prod', '--export-policy', join(folder, name), ...args], {
      env: {HOME: folder, AWS_EC2_METADATA_DISABLED: 'true'},
    })

  async function accountsIn(name: string): Promise<string[]> {
    const files = await readdir(join(folder, name))
    const texts = await Promise.all(files.map(file => readFile(join(folder, name, file), 'utf8')))
    const accounts = texts.join().matchAll(/"(arn:[a-z-]+):(?:cloudformation|lambda):([^:]*):([^:]*):/g)
    return [...new Set([...accounts].map(([, partition, region, account]) => `${partition} ${region} ${account}`))]
  }

  it.each([
    ['eu-west-1', 'aws'],
    ['cn-north-1', 'aws-cn'],
    ['us-gov-west-1', 'aws-us-gov'],
    ['eusc-de-east-1', 'aws-eusc'],
    ['us-iso-east-1', 'aws-iso'],
    ['us-isob-east-1', 'aws-iso-b'],
    ['eu-isoe-west-1', 'aws-iso-e'],
    ['us-isof-south-1', 'aws-iso-f'],
  ])('writes policies for a given account in %s', async (region, partition) => {
    const {code, stdout, stderr} = await run(region, '--account-id', '123456789012', '--region', region)
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    expect(stdout).toContain('zael.json  actions that zael calls: attach to the deploying identity\n')
    expect(await accountsIn(region)).toEqual([`arn:${partition} ${region} 123456789012`])
  })

  it('leaves the account open if none is given, and says so', async () => {
    expect(await run('open', '--region', 'eu-west-1')).toMatchObject({
      code: 0,
      stderr:
        'Warning: No AWS credentials were found, so the policies name the account ACCOUNT_ID. ' +
        'Replace it with the account ID, or run the same command with --account-id.\n',
    })
    expect(await accountsIn('open')).toEqual(['arn:aws eu-west-1 ACCOUNT_ID'])
  })

  it.each([
    ['--region eu-west-1 --profile nope', 4, 'AWS profile "nope" not found (--profile).'],
    ['--account-id 123456789012', 1, 'no usable AWS region is configured (stack "prod")\nHint: Pass --region'],
    ['--region eu-west-1 --account-id prod', 2, '--account-id is "prod"; it must be an AWS account ID.'],
  ])('refuses %s, and writes nothing', async (flags, code, message) => {
    const outcome = await run('refused', ...flags.split(' '))
    expect(outcome).toMatchObject({code, stderr: expect.stringContaining(message)})
    await expect(readdir(join(folder, 'refused'))).rejects.toThrow('ENOENT')
  })
})

describe('bad input of deploy', () => {
  it.each([
    ['deploy --stack a', '"a" is not a valid stack name.'],
    ['deploy --stack prod_1', '"prod_1" is not a valid stack name.'],
    [
      'deploy --stack prod --lambda-memory 7',
      '--lambda-memory is "7"; it must be a whole number from 128 to 10240 (MB).',
    ],
    ['deploy --stack prod --tag team', '--tag "team" is not of the form KEY=VALUE.'],
    ['deploy --stack prod --export x --dry-run', '--dry-run cannot be combined with --export'],
  ])('refuses zael %s', async (command, message) => {
    // This address does not answer: zael refuses bad input before any request.
    const env = {
      AWS_ENDPOINT_URL: 'http://203.0.113.1',
      AWS_REGION: 'eu-west-1',
      AWS_ACCESS_KEY_ID: 'a',
      AWS_SECRET_ACCESS_KEY: 'b',
    }
    const {code, stderr} = await zael(command.split(' '), {env})
    expect({code, stderr}).toEqual({code: 2, stderr: expect.stringContaining(message)})
  })

  it.each(['--export', '--export-policy'])('refuses %s without a name', async flag => {
    const {code, stderr} = await zael(['deploy', '--stack', 'prod', flag, ' '])
    expect({code, stderr}).toEqual({code: 2, stderr: expect.stringContaining('The folder name is empty.')})
  })

  it('names an options file that does not exist', async () => {
    const {code, stderr} = await zael(['deploy', '--stack', 'prod', '--from-file', 'no-such.yaml'])
    expect(code).toBe(3)
    expect(stderr).toMatch(/^Error: File no-such\.yaml not found\.\nHint: /)
  })
})
