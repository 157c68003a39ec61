import {CreateRoleCommand} from '@aws-sdk/client-iam'
import {GetQueueUrlCommand, SendMessageCommand} from '@aws-sdk/client-sqs'
import {afterAll, beforeAll, expect, it} from 'vitest'
import type {Check} from '../../src/lib/infra/doctor/check.js'
import {encodeVersion} from '../../src/lib/schema/version-record.js'
import {schemaProblems} from '../e2e/schemas.js'
import type {AwsRequest, Meddling} from './aws-proxy.js'
import {describeWithPython, type Moto, startMoto} from './moto.js'
import {denial, type RefusingProxy, refusingProxy} from './refusing.js'
import {deploySmallStack, type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

// moto cannot simulate policies, so the proxy answers for IAM: whatever is asked is allowed unless a test says otherwise.

describeWithPython('C-42 zael doctor', {timeout: 300_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let proxy: RefusingProxy
  let user: StackUser

  beforeAll(async () => {
    moto = await startMoto()
    account = openMoto(moto)
    proxy = await refusingProxy(moto.endpoint)
    user = stackUser(proxy.endpoint)
    for (const name of ['fit', 'sick']) {
      const filters = name === 'fit' ? {} : {filters: ['{"eventName":["MODIFY"]}']}
      await deploySmallStack(account, {name, owner: 'zael', ...filters})
      const version = {schemaVersion: '0.9.0', lambdaVersion: undefined, clientMinVersion: '0.0.0'}
      const Item = encodeVersion({...version, updatedAt: '2026-01-01T00:00:00Z', updatedBy: 'zael:0.1.0'})
      await account.transport.send('PutItem', {TableName: name, Item})
    }
    const sqs = await account.aws.sqs()
    const {QueueUrl} = await sqs.send(new GetQueueUrlCommand({QueueName: 'sick-aggregator-dlq'}))
    await sqs.send(new SendMessageCommand({QueueUrl, MessageBody: '{}'}))
  }, 300_000)

  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]()
    await account?.[Symbol.asyncDispose]()
    await moto?.[Symbol.asyncDispose]()
  })

  /** Exit code and checks of a run, with IAM simulating. */
  async function examine(
    command: string,
    meddle: (action: string, request: AwsRequest) => Meddling | undefined = () => undefined,
    who = user,
  ): Promise<{code: number | null; checks: Check[]; states: Record<string, string>}> {
    const answer = (action: string, request: AwsRequest) =>
      meddle(action, request) ?? (action === 'iam:SimulatePrincipalPolicy' ? simulation(request.body, []) : undefined)
    const {code, stdout} = await proxy.during(answer, () => who.run(`${command} --json`))
    const told = JSON.parse(stdout)
    expect(schemaProblems('doctor', told)).toEqual([])
    const checks: Check[] = told.checks.map(withoutSpeed)
    return {code, checks, states: Object.fromEntries(checks.map(({name, state}) => [name, state]))}
  }

  it('finds nothing wrong with a fit stack', async () => {
    const {code, checks} = await examine('doctor --stack fit')
    expect(checks.filter(({state}) => state !== 'ok')).toEqual([])
    expect(checks.map(({name}) => name)).toEqual([
      ...['node', 'local engine', 'clock', 'region', 'credentials', 'endpoint'],
      ...['may look', 'may operate', 'may deploy'],
      ...['deployed', 'table', 'stream', 'aggregator', 'mapping', 'filters', 'dead letters', 'layout'],
    ])
    expect(code).toBe(0)
  })

  it('finds what is wrong with a sick one, and what to do', async () => {
    const {code, states} = await examine('doctor --stack sick')
    expect(code).toBe(6)
    expect(states).toMatchObject({filters: 'fail', 'dead letters': 'fail', stream: 'ok', mapping: 'ok'})
    const {stdout} = await user.run('doctor --stack sick')
    expect(stdout).toMatch(/fail {2}filters .*\n +Try: zael deploy --stack sick\n/)
    expect(stdout).toMatch(/\n\d+ ok, \d+ warn, 2 fail\n$/)
  })

  it('names the permissions that are missing, by simulation', async () => {
    const refused = ['dynamodb:PutItem', 'iam:CreateRole']
    const {code, checks} = await examine('doctor --stack fit', (action, {body}) =>
      action === 'iam:SimulatePrincipalPolicy' ? simulation(body, refused) : undefined,
    )
    expect(code).toBe(0)
    expect(checks.filter(({state}) => state !== 'ok')).toMatchObject([
      {name: 'may operate', state: 'warn', message: 'refused by simulation: dynamodb:PutItem'},
      {name: 'may deploy', state: 'warn', message: 'refused by simulation: iam:CreateRole'},
    ])
  })

  it('does not call refused what depends on the call, as in a policy for one namespace', async () => {
    const keys = ['dynamodb:LeadingKeys', 'kms:ViaService']
    const {code, checks} = await examine('doctor --stack fit', (action, {body}) =>
      action === 'iam:SimulatePrincipalPolicy'
        ? simulation(body, ['dynamodb:Query', 'dynamodb:PutItem', 'lambda:UpdateFunctionCode'], keys)
        : undefined,
    )
    expect(code).toBe(0)
    expect(checks.filter(({state}) => state !== 'ok')).toMatchObject([
      {name: 'may look', state: 'warn', message: 'not known, depends on dynamodb:LeadingKeys: dynamodb:Query'},
      {name: 'may operate', state: 'warn', message: 'not known, depends on dynamodb:LeadingKeys: dynamodb:PutItem'},
      // No key of another service decides about it.
      {name: 'may deploy', state: 'warn', message: 'refused by simulation: lambda:UpdateFunctionCode'},
    ])
  })

  it('asks about things by the names that they have, or would have', async () => {
    const asked = new Set<string>()
    await examine('doctor --stack fit', (action, {body}) => {
      if (action === 'cloudformation:DescribeStacks') return {answer: withChosenNames}
      if (action !== 'iam:SimulatePrincipalPolicy') return undefined
      for (const [name, value] of new URLSearchParams(body)) if (name.startsWith('ResourceArns.')) asked.add(value)
      return simulation(body, [])
    })
    expect([...asked]).toEqual(
      expect.arrayContaining([
        'arn:aws:s3:::fit-auditarchivebucket-x1y2z3',
        'arn:aws:iam::123456789012:role/team-fit-aggr',
        'arn:aws:iam::123456789012:policy/fit-acq',
      ]),
    )
  })

  it('asks about the role behind a session, path included', async () => {
    const trust = {Effect: 'Allow', Principal: {AWS: '*'}, Action: 'sts:AssumeRole'}
    const AssumeRolePolicyDocument = JSON.stringify({Version: '2012-10-17', Statement: [trust]})
    const role = new CreateRoleCommand({RoleName: 'ops', Path: '/teams/', AssumeRolePolicyDocument})
    await (await account.aws.iam()).send(role)
    const sources: (string | null)[] = []
    await examine('doctor --stack fit', (action, {body}) => {
      if (action === 'sts:GetCallerIdentity') {
        return {
          answer: text => text.replace(/<Arn>.*<\/Arn>/, '<Arn>arn:aws:sts::123456789012:assumed-role/ops/me</Arn>'),
        }
      }
      if (action !== 'iam:SimulatePrincipalPolicy') return undefined
      sources.push(new URLSearchParams(body).get('PolicySourceArn'))
      return simulation(body, [])
    })
    expect([...new Set(sources)]).toEqual(['arn:aws:iam::123456789012:role/teams/ops'])
  })

  it('tries reading where simulation is refused, and says so', async () => {
    const {code, states, checks} = await examine('doctor --stack fit', (action, request) =>
      /^iam:|^cloudwatch:/.test(action) ? denial(request) : undefined,
    )
    expect(code).toBe(6)
    expect(states).toMatchObject({permissions: 'warn', 'may look': 'fail'})
    expect(checks.find(({name}) => name === 'permissions')?.message).toContain('only reading was tried')
    expect(checks.find(({name}) => name === 'may look')?.message).toContain('cloudwatch:')
  })

  it('works without a stack, and fails for one that is named and not there', async () => {
    const {code, checks} = await examine('doctor')
    expect(code).toBe(0)
    expect(checks.map(({group}) => group)).not.toContain('stack')
    const missing = await examine('doctor --stack fti')
    expect(missing).toMatchObject({code: 6, states: {stack: 'fail'}})
  })

  it('stops at credentials that are no good, and at a missing region', async () => {
    const invalid = await examine('doctor --stack fit', (action, request) =>
      action === 'sts:GetCallerIdentity' ? denial(request) : undefined,
    )
    expect(invalid.code).toBe(6)
    expect(invalid.checks.at(-1)).toMatchObject({name: 'credentials', state: 'fail'})
    const nowhere = await examine('doctor', undefined, stackUser(proxy.endpoint, {AWS_REGION: '', AWS_PROFILE: 'none'}))
    expect(nowhere.checks.at(-1)).toMatchObject({state: 'fail', group: 'account'})
  })

  it('finds a clock that is off by the answers of the server', async () => {
    const {states} = await examine('doctor --stack fit', action =>
      action === 'dynamodb:ListTables' ? {date: new Date(Date.now() - 60_000)} : undefined,
    )
    expect(states).toMatchObject({clock: 'warn'})
  })

  it('L8 changes nothing', async () => {
    proxy.takeActions()
    await examine('doctor --stack fit')
    const writing = proxy.takeActions().filter(action => !/:(Get|List|Describe|BatchGet|Simulate)/.test(action))
    expect(writing).toEqual([])
  })
})

/** How fast moto answers is a matter of this machine; that it answers is what counts. */
function withoutSpeed(check: Check): Check {
  return check.name === 'endpoint' && check.message.includes(' answers in ') ? {...check, state: 'ok'} : check
}

/** The stack as one that was deployed with a format for roles and has an archive. */
function withChosenNames(body: string): string {
  const parameter = '<ParameterKey>RoleNameFormat</ParameterKey><ParameterValue>team-{}</ParameterValue>'
  const bucket = '<OutputKey>AuditArchiveBucketName</OutputKey><OutputValue>fit-auditarchivebucket-x1y2z3</OutputValue>'
  return body
    .replace(/<Parameters>[\s\S]*?<\/Parameters>|<Parameters ?\/>/, '')
    .replace('<StackName>', `<Parameters><member>${parameter}</member></Parameters><StackName>`)
    .replace('<Outputs>', `<Outputs><member>${bucket}</member>`)
}

/** IAM's answer: everything asked for is allowed, but what is refused, for want of those context keys if there are any. */
function simulation(body: string, refused: readonly string[], missing: readonly string[] = []): Meddling {
  const asked = [...new URLSearchParams(body)].filter(([name]) => name.startsWith('ActionNames.member.'))
  const keys = missing.map(key => `<member>${key}</member>`).join('')
  const members = asked.map(([, action]) => {
    const decision = refused.includes(action) ? 'implicitDeny' : 'allowed'
    // Resources were named, so AWS tells of each what is missing.
    const each = `<EvalResourceDecision>${decision}</EvalResourceDecision><MissingContextValues>${keys}</MissingContextValues>`
    const results = `<ResourceSpecificResults><member>${each}</member></ResourceSpecificResults>`
    return `<member><EvalActionName>${action}</EvalActionName><EvalDecision>${decision}</EvalDecision>${results}</member>`
  })
  const results = `<IsTruncated>false</IsTruncated><EvaluationResults>${members.join('')}</EvaluationResults>`
  const result = `<SimulatePrincipalPolicyResult>${results}</SimulatePrincipalPolicyResult>`
  return {instead: {status: 200, body: `<SimulatePrincipalPolicyResponse>${result}</SimulatePrincipalPolicyResponse>`}}
}
