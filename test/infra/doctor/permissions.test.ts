import {readFile} from 'node:fs/promises'
import {describe, expect, it} from 'vitest'
import {neededActions} from '../../../src/lib/infra/doctor/needed-actions.js'
import {simulationChecks} from '../../../src/lib/infra/doctor/permission-checks.js'
import {parameterDrift} from '../../../src/lib/infra/health/stack.js'
import {likelyBucketName, type ResourceNames, resourceNames} from '../../../src/lib/infra/options/resource-names.js'

describe('permissions', () => {
  const needed = neededActions({partition: 'aws-cn', region: 'cn-north-1', account: '123456789012', stack: 'prod'})

  it('name resources by partition, region and account', () => {
    const resources = new Set(needed.flatMap(each => each.resources))
    expect([...resources].filter(name => name !== '*' && !name.startsWith('arn:aws-cn:'))).toEqual([])
    expect(resources).toContain('arn:aws-cn:dynamodb:cn-north-1:123456789012:table/prod')
    expect(resources).toContain('arn:aws-cn:iam::123456789012:role/prod-aggr')
  })

  it('are those that docs/deploying.md lists', async () => {
    const text = await readFile(new URL('../../../docs/deploying.md', import.meta.url), 'utf8')
    const section = /## Permissions needed to deploy\n([\s\S]*?)\n## /.exec(text)?.[1] ?? ''
    const documented = new Set<string>()
    for (const row of section.matchAll(/^\| ([^|]+) \|(.*)\|$/gm)) {
      let service = row[1]?.trim().toLowerCase() ?? ''
      for (const [, word = ''] of row[2]?.matchAll(/`([\w:]+)`/g) ?? []) {
        const [name = '', prefix] = word.split(':').reverse()
        service = prefix ?? service
        documented.add(`${service}:${name}`)
      }
    }
    const own = (purpose: string) => needed.flatMap(each => (each.purpose === purpose ? each.actions : []))
    // Actions on a KMS key are needed only with a customer managed key, and `default` is the name of a namespace.
    const known = new Set([
      ...needed.flatMap(each => each.actions),
      'kms:CreateGrant',
      'kms:DescribeKey',
      'dynamodb:default',
    ])
    expect([...documented].filter(action => !known.has(action))).toEqual([])
    expect(own('deploy').filter(action => !documented.has(action))).toEqual([])
  })

  it('name roles, policies and the archive by the options of the stack', () => {
    const place = {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'Prod'}
    const resourcesOf = (action: string, names?: ResourceNames) =>
      neededActions(place, names).flatMap(({actions, resources}) => (actions.includes(action) ? resources : []))
    expect(resourcesOf('s3:CreateBucket')).toEqual(['arn:aws:s3:::prod-auditarchivebucket-0123456789ab'])

    const chosen = parameterDrift({RoleNameFormat: 'team-{}-v1', PolicyNameFormat: 'p-{}'})
    const outputs = {AuditArchiveBucketName: 'prod-auditarchivebucket-x1y2z3'}
    const deployed = resourceNames({parameters: chosen, outputs})
    expect(resourcesOf('s3:CreateBucket', deployed)).toEqual(['arn:aws:s3:::prod-auditarchivebucket-x1y2z3'])
    for (const action of ['iam:CreateRole', 'iam:PassRole']) {
      expect(resourcesOf(action, deployed)).toEqual(['arn:aws:iam::123456789012:role/team-Prod-aggr-v1'])
    }
    expect(resourcesOf('iam:CreatePolicy', deployed)).toEqual(['arn:aws:iam::123456789012:policy/p-Prod-acq'])

    const AggregatorRoleArn = 'arn:aws:iam::123456789012:role/teams/given'
    const given = resourceNames({parameters: parameterDrift({AggregatorRoleArn}), outputs: {}})
    expect(resourcesOf('iam:PassRole', given)).toEqual([AggregatorRoleArn])
  })

  it('use a valid bucket name', () => {
    for (const stack of ['a-b', 'X'.repeat(55)]) expect(likelyBucketName(stack)).toMatch(/^[a-z][a-z0-9-]{2,62}$/)
  })

  const checksWith = (refused: string[], conditional: Record<string, string[]> = {}) =>
    simulationChecks(needed, {refused: new Set(refused), conditional: new Map(Object.entries(conditional))})

  it('that are complete are ok; missing ones are named, and missing read permissions are a failure', () => {
    const states = (refused: string[]) => checksWith(refused).map(({state}) => state)
    expect(states([])).toEqual(['ok', 'ok', 'ok'])
    expect(states(['lambda:UpdateFunctionCode', 'dynamodb:PutItem'])).toEqual(['ok', 'warn', 'warn'])
    expect(states(['dynamodb:Query'])).toEqual(['fail', 'ok', 'ok'])
    expect(checksWith(['dynamodb:PutItem'])[1]?.message).toContain('dynamodb:PutItem')
  })

  it('that depend on the call are unknown, which is no failure', () => {
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
