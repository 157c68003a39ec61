import {describe, expect, it} from 'vitest'
import {
  type DeployedFacts,
  deployedFacts,
  NOT_DEPLOYED,
  neededActions,
  simulationChecks,
} from '../../../src/lib/infra/doctor/permission-checks.js'
import {parameterDrift} from '../../../src/lib/infra/health/read-parts.js'
import {bucketPattern, likelyBucketName} from '../../../src/lib/infra/stack/option-rules.js'

const PLACE = {partition: 'aws-cn', region: 'cn-north-1', account: '123456789012', stack: 'prod'}

describe('permissions', () => {
  const needed = neededActions(PLACE)

  it('name resources by partition, region and account', () => {
    const resources = new Set(needed.flatMap(each => each.resources))
    expect([...resources].filter(name => name !== '*' && !name.startsWith('arn:aws-cn:'))).toEqual([])
    expect(resources).toContain('arn:aws-cn:dynamodb:cn-north-1:123456789012:table/prod')
    expect(resources).toContain('arn:aws-cn:iam::123456789012:role/prod-aggr')
  })

  it('name roles, policies and the archive by the options of the stack', () => {
    const place = {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'Prod'}
    const resourcesOf = (action: string, deployed?: DeployedFacts) => {
      const all = neededActions(place, deployed).filter(({actions}) => actions.includes(action))
      return [...new Set(all.flatMap(({resources}) => resources))]
    }
    expect(resourcesOf('s3:CreateBucket')).toEqual(['arn:aws:s3:::prod-auditarchivebucket-0123456789ab'])

    const chosen = parameterDrift({RoleNameFormat: 'team-{}-v1', PolicyNameFormat: 'p-{}'})
    const outputs = {AuditArchiveBucketName: 'prod-auditarchivebucket-x1y2z3'}
    const deployed = deployedFacts({parameters: chosen, outputs, role: null})
    expect(resourcesOf('s3:CreateBucket', deployed)).toEqual(['arn:aws:s3:::prod-auditarchivebucket-x1y2z3'])
    for (const action of ['iam:CreateRole', 'iam:PassRole']) {
      expect(resourcesOf(action, deployed)).toEqual(['arn:aws:iam::123456789012:role/team-Prod-aggr-v1'])
    }
    expect(resourcesOf('iam:CreatePolicy', deployed)).toContain('arn:aws:iam::123456789012:policy/p-Prod-acq')

    const AggregatorRoleArn = 'arn:aws:iam::123456789012:role/teams/given'
    const given = deployedFacts({parameters: parameterDrift({AggregatorRoleArn}), outputs: {}, role: null})
    expect(resourcesOf('iam:PassRole', given)).toEqual([AggregatorRoleArn])
  })

  it('are divided between the caller and the service role of the stack', () => {
    const role = 'arn:aws:iam::123456789012:role/cloudformation'
    const divided = neededActions(PLACE, {...NOT_DEPLOYED, role})
    const actions = (purpose: string) => divided.flatMap(each => (each.purpose === purpose ? each.actions : []))
    expect(actions('role')).toEqual(
      expect.arrayContaining(['dynamodb:CreateTable', 'iam:CreateRole', 's3:GetBucketPolicy']),
    )
    expect(actions('deploy')).not.toContain('dynamodb:CreateTable')
    expect(divided).toContainEqual({
      purpose: 'deploy',
      actions: ['iam:PassRole'],
      resources: [role],
      conditions: {StringEquals: {'iam:PassedToService': 'cloudformation.amazonaws.com'}},
    })
  })

  it('use a valid bucket name', () => {
    for (const stack of ['a-b', 'X'.repeat(55)]) expect(likelyBucketName(stack)).toMatch(/^[a-z][a-z0-9-]{2,62}$/)
    expect([bucketPattern('Prod'), bucketPattern('X'.repeat(31)), bucketPattern('X'.repeat(32))]).toEqual([
      'prod-auditarchivebucket-*',
      `${'x'.repeat(31)}-auditarchivebucket-*`,
      `${'x'.repeat(20)}*`,
    ])
  })

  const checksWith = (refused: string[], conditional: Record<string, string[]> = {}) =>
    simulationChecks(needed, {refused: new Set(refused), conditional: new Map(Object.entries(conditional))})

  it('are ok when complete; missing ones are named, and missing read permissions are a failure', () => {
    const states = (refused: string[]) => checksWith(refused).map(({state}) => state)
    expect(states([])).toEqual(['ok', 'ok', 'ok'])
    expect(states(['lambda:UpdateFunctionCode', 'dynamodb:PutItem'])).toEqual(['ok', 'warn', 'warn'])
    expect(states(['dynamodb:Query'])).toEqual(['fail', 'ok', 'ok'])
    expect(checksWith(['dynamodb:PutItem'])[1]?.message).toContain('dynamodb:PutItem')
    const [, , none] = checksWith(needed.flatMap(({actions}) => actions))
    expect(none?.message).toMatch(/^refused by simulation: (\S+, ){11}\S+ and \d+ more$/)
    expect(none?.fix).toContain('zael deploy --export-policy DIR')
  })

  it('are unknown, not a failure, when they depend on the call', () => {
    const conditional = {'dynamodb:Query': ['dynamodb:LeadingKeys'], 'dynamodb:GetItem': ['dynamodb:LeadingKeys']}
    const [look, ...others] = checksWith([], conditional)
    expect(look).toMatchObject({
      state: 'warn',
      message: 'unknown, depends on dynamodb:LeadingKeys: dynamodb:Query, dynamodb:GetItem',
    })
    expect(others.map(({state}) => state)).toEqual(['ok', 'ok'])
    expect(checksWith(['lambda:GetFunction'], conditional)[0]).toMatchObject({
      state: 'fail',
      message: expect.stringMatching(/^refused by simulation: lambda:GetFunction; unknown, depends on /),
    })
    // Refused for one thing, whatever it depends on for another.
    expect(checksWith(['dynamodb:Query'], conditional)[0]?.message).toContain('refused by simulation: dynamodb:Query;')
  })
})
