import {CreateRoleCommand} from '@aws-sdk/client-iam'
import {GetQueueUrlCommand, SendMessageCommand} from '@aws-sdk/client-sqs'
import {afterAll, beforeAll, expect, it} from 'vitest'
import type {Check} from '../../src/lib/infra/doctor/machine-checks.js'
import {AGGREGATOR_MARK} from '../../src/lib/repository/table/version-compatibility.js'
import {encodeVersion} from '../../src/lib/schema/version-record.js'
import {schemaProblems} from '../e2e/schemas.js'
import type {AwsRequest, Intervention} from './aws-proxy.js'
import {denial, type IamProxy, iamProxy} from './iam-proxy.js'
import {describeWithPython, emptyMoto, type Moto} from './moto.js'
import {deploySmallStack, type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

// moto cannot simulate policies, so the proxy responds for IAM. By default it allows everything.

describeWithPython('C-42 zael doctor', {timeout: 300_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let proxy: IamProxy
  let user: StackUser

  beforeAll(async () => {
    moto = await emptyMoto()
    account = openMoto(moto)
    proxy = await iamProxy(moto.endpoint)
    user = stackUser(proxy.endpoint)
    for (const name of ['healthy', 'broken']) {
      const filters = name === 'healthy' ? {} : {filters: ['{"eventName":["MODIFY"]}']}
      await deploySmallStack(account, {name, owner: 'zael', ...filters})
      const version = {schemaVersion: '0.9.0', lambdaVersion: AGGREGATOR_MARK, clientMinVersion: '0.0.0'}
      const Item = encodeVersion({...version, updatedAt: '2026-01-01T00:00:00Z', updatedBy: 'zael:0.1.0'})
      await account.transport.send('PutItem', {TableName: name, Item})
    }
    const sqs = await account.aws.sqs()
    const {QueueUrl} = await sqs.send(new GetQueueUrlCommand({QueueName: 'broken-aggregator-dlq'}))
    await sqs.send(new SendMessageCommand({QueueUrl, MessageBody: '{}'}))
  }, 300_000)

  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]()
    await account?.[Symbol.asyncDispose]()
  })

  /** Exit code and checks of a run, with IAM's simulation. */
  async function examine(
    command: string,
    intervene: (action: string, request: AwsRequest) => Intervention | undefined = () => undefined,
    who = user,
  ): Promise<{code: number | null; checks: Check[]; states: Record<string, string>}> {
    const rule = (action: string, request: AwsRequest) =>
      intervene(action, request) ??
      (action === 'iam:SimulatePrincipalPolicy' ? simulation(request.body, []) : undefined)
    const {code, stdout} = await proxy.during(rule, () => who.run(`${command} --json`))
    const result = JSON.parse(stdout)
    expect(schemaProblems('doctor', result)).toEqual([])
    const checks: Check[] = result.checks.map(withoutSpeed)
    return {code, checks, states: Object.fromEntries(checks.map(({name, state}) => [name, state]))}
  }

  it('finds nothing wrong with a healthy stack', async () => {
    const {code, checks} = await examine('doctor --stack healthy')
    expect(checks.filter(({state}) => state !== 'ok')).toEqual([])
    expect(checks.map(({name}) => name)).toEqual([
      ...['node', 'local engine', 'clock', 'region', 'credentials', 'endpoint'],
      ...['may read', 'may operate', 'may deploy'],
      ...['deployed', 'table', 'stream', 'aggregator', 'mapping', 'filters', 'dead letters', 'layout'],
    ])
    expect(code).toBe(0)
  })

  it('finds the problems of a broken stack, with fixes', async () => {
    const {code, states} = await examine('doctor --stack broken')
    expect(code).toBe(6)
    expect(states).toMatchObject({filters: 'fail', 'dead letters': 'fail', stream: 'ok', mapping: 'ok'})
    const {stdout} = await user.run('doctor --stack broken')
    expect(stdout).toMatch(/fail {2}filters .*\n +Try: zael deploy --stack broken\n/)
    expect(stdout).toMatch(/\n\d+ ok, \d+ warn, 2 fail\n$/)
  })

  it('names missing permissions, by simulation', async () => {
    const refused = ['dynamodb:PutItem', 'iam:CreateRole']
    const {code, checks} = await examine('doctor --stack healthy', (action, {body}) =>
      action === 'iam:SimulatePrincipalPolicy' ? simulation(body, refused) : undefined,
    )
    expect(code).toBe(0)
    expect(checks.filter(({state}) => state !== 'ok')).toMatchObject([
      {name: 'may operate', state: 'warn', message: 'refused by simulation: dynamodb:PutItem'},
      {name: 'may deploy', state: 'warn', message: 'refused by simulation: iam:CreateRole'},
    ])
  })

  it('does not report actions as refused that depend on the call, as in a policy for one namespace', async () => {
    const keys = ['dynamodb:LeadingKeys', 'kms:ViaService']
    const {code, checks} = await examine('doctor --stack healthy', (action, {body}) =>
      action === 'iam:SimulatePrincipalPolicy'
        ? simulation(body, ['dynamodb:Query', 'dynamodb:PutItem', 'lambda:UpdateFunctionCode'], keys)
        : undefined,
    )
    expect(code).toBe(0)
    expect(checks.filter(({state}) => state !== 'ok')).toMatchObject([
      {name: 'may read', state: 'warn', message: 'unknown, depends on dynamodb:LeadingKeys: dynamodb:Query'},
      {name: 'may operate', state: 'warn', message: 'unknown, depends on dynamodb:LeadingKeys: dynamodb:PutItem'},
      // A condition key of another service does not apply to it.
      {name: 'may deploy', state: 'warn', message: 'refused by simulation: lambda:UpdateFunctionCode'},
    ])
  })

  it('simulates resources by their actual or default names', async () => {
    const asked = new Set<string>()
    await examine('doctor --stack healthy', (action, {body}) => {
      if (action === 'cloudformation:DescribeStacks') return {response: withChosenNames}
      if (action !== 'iam:SimulatePrincipalPolicy') return undefined
      for (const [name, value] of new URLSearchParams(body)) if (name.startsWith('ResourceArns.')) asked.add(value)
      return simulation(body, [])
    })
    expect([...asked]).toEqual(
      expect.arrayContaining([
        'arn:aws:s3:::healthy-auditarchivebucket-x1y2z3',
        'arn:aws:iam::123456789012:role/team-healthy-aggr',
        'arn:aws:iam::123456789012:policy/healthy-acq',
      ]),
    )
  })

  it('simulates the role behind a session, including its path', async () => {
    const trust = {Effect: 'Allow', Principal: {AWS: '*'}, Action: 'sts:AssumeRole'}
    const AssumeRolePolicyDocument = JSON.stringify({Version: '2012-10-17', Statement: [trust]})
    const role = new CreateRoleCommand({RoleName: 'ops', Path: '/teams/', AssumeRolePolicyDocument})
    await (await account.aws.iam()).send(role)
    const sources: (string | null)[] = []
    await examine('doctor --stack healthy', (action, {body}) => {
      if (action === 'sts:GetCallerIdentity') {
        return {
          response: text => text.replace(/<Arn>.*<\/Arn>/, '<Arn>arn:aws:sts::123456789012:assumed-role/ops/me</Arn>'),
        }
      }
      if (action !== 'iam:SimulatePrincipalPolicy') return undefined
      sources.push(new URLSearchParams(body).get('PolicySourceArn'))
      return simulation(body, [])
    })
    expect([...new Set(sources)]).toEqual(['arn:aws:iam::123456789012:role/teams/ops'])
  })

  it('simulates the service role of the stack for the actions of CloudFormation, and the caller for the rest', async () => {
    const role = 'arn:aws:iam::123456789012:role/cloudformation'
    const asked = new Map<string, string[]>()
    const {checks} = await examine('doctor --stack healthy', (action, {body}) => {
      if (action === 'cloudformation:DescribeStacks')
        return {response: text => text.replace('<StackName>', `<RoleARN>${role}</RoleARN><StackName>`)}
      if (action !== 'iam:SimulatePrincipalPolicy') return undefined
      const input = new URLSearchParams(body)
      const source = input.get('PolicySourceArn') === role ? 'role' : 'caller'
      const names = [...input].flatMap(([name, value]) => (name.startsWith('ActionNames.') ? [value] : []))
      asked.set(source, [...(asked.get(source) ?? []), ...names])
      return source === 'role' ? simulation(body, ['iam:GetRolePolicy']) : simulation(body, [])
    })
    expect(asked.get('role')).toEqual(expect.arrayContaining(['dynamodb:CreateTable', 'sqs:ListQueueTags']))
    expect(asked.get('caller')).toContain('iam:PassRole')
    expect(asked.get('caller')).not.toContain('dynamodb:CreateTable')
    expect(checks.filter(({state}) => state !== 'ok')).toMatchObject([
      {name: 'role may deploy', state: 'warn', message: 'refused by simulation: iam:GetRolePolicy'},
    ])
  })

  it('checks reads where simulation is refused, and reports that', async () => {
    const {code, states, checks} = await examine('doctor --stack healthy', (action, request) =>
      /^iam:|^cloudwatch:/.test(action) ? denial(request) : undefined,
    )
    expect(code).toBe(6)
    expect(states).toMatchObject({permissions: 'warn', 'may read': 'fail'})
    expect(checks.find(({name}) => name === 'permissions')?.message).toContain('only reads were checked')
    expect(checks.find(({name}) => name === 'may read')?.message).toContain('cloudwatch:')
  })

  it('works without a stack, and fails for a named one that does not exist', async () => {
    const {code, checks} = await examine('doctor')
    expect(code).toBe(0)
    expect(checks.map(({group}) => group)).not.toContain('stack')
    const missing = await examine('doctor --stack helthy')
    expect(missing).toMatchObject({code: 6, states: {stack: 'fail'}})
  })

  it('stops at invalid credentials, and at a missing region', async () => {
    const invalid = await examine('doctor --stack healthy', (action, request) =>
      action === 'sts:GetCallerIdentity' ? denial(request) : undefined,
    )
    expect(invalid.code).toBe(6)
    expect(invalid.checks.at(-1)).toMatchObject({name: 'credentials', state: 'fail'})
    const nowhere = await examine('doctor', undefined, stackUser(proxy.endpoint, {AWS_REGION: '', AWS_PROFILE: 'none'}))
    expect(nowhere.checks.at(-1)).toMatchObject({state: 'fail', group: 'account'})
  })

  it('finds a wrong clock by the dates of responses', async () => {
    const {states} = await examine('doctor --stack healthy', action =>
      action === 'dynamodb:ListTables' ? {date: new Date(Date.now() - 60_000)} : undefined,
    )
    expect(states).toMatchObject({clock: 'warn'})
  })

  it('L8 changes nothing', async () => {
    proxy.takeActions()
    await examine('doctor --stack healthy')
    const writing = proxy.takeActions().filter(action => !/:(Get|List|Describe|BatchGet|Simulate)/.test(action))
    expect(writing).toEqual([])
  })
})

/** The latency of moto depends on this machine. */
function withoutSpeed(check: Check): Check {
  return check.name === 'endpoint' && check.message.includes(' responds in ') ? {...check, state: 'ok'} : check
}

/** The stack with a role name format and an archive. */
function withChosenNames(body: string): string {
  const parameter = '<ParameterKey>RoleNameFormat</ParameterKey><ParameterValue>team-{}</ParameterValue>'
  const bucket =
    '<OutputKey>AuditArchiveBucketName</OutputKey><OutputValue>healthy-auditarchivebucket-x1y2z3</OutputValue>'
  return body
    .replace(/<Parameters>[\s\S]*?<\/Parameters>|<Parameters ?\/>/, '')
    .replace('<StackName>', `<Parameters><member>${parameter}</member></Parameters><StackName>`)
    .replace('<Outputs>', `<Outputs><member>${bucket}</member>`)
}

/** IAM's response: everything is allowed except `refused`, because of missing context keys if there are any. */
function simulation(body: string, refused: readonly string[], missing: readonly string[] = []): Intervention {
  const asked = [...new URLSearchParams(body)].filter(([name]) => name.startsWith('ActionNames.member.'))
  const keys = missing.map(key => `<member>${key}</member>`).join('')
  const members = asked.map(([, action]) => {
    const decision = refused.includes(action) ? 'implicitDeny' : 'allowed'
    // The request names resources, so AWS reports missing keys per resource.
    const each = `<EvalResourceDecision>${decision}</EvalResourceDecision><MissingContextValues>${keys}</MissingContextValues>`
    const results = `<ResourceSpecificResults><member>${each}</member></ResourceSpecificResults>`
    return `<member><EvalActionName>${action}</EvalActionName><EvalDecision>${decision}</EvalDecision>${results}</member>`
  })
  const results = `<IsTruncated>false</IsTruncated><EvaluationResults>${members.join('')}</EvaluationResults>`
  const result = `<SimulatePrincipalPolicyResult>${results}</SimulatePrincipalPolicyResult>`
  return {instead: {status: 200, body: `<SimulatePrincipalPolicyResponse>${result}</SimulatePrincipalPolicyResponse>`}}
}
