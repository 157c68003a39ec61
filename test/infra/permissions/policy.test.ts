import {describe, expect, it} from 'vitest'
import {deployPolicies, type PolicyRequest} from '../../../src/lib/infra/deploy/export.js'
import {
  MAX_POLICY_LENGTH,
  type PolicyGrant,
  policiesOf,
  policyLength,
} from '../../../src/lib/infra/permissions/policy.js'
import {isAllowed, type PolicyDocument} from '../template/iam.js'
import {deriveGrants} from './derivation.js'

const place = {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'prod'}
const REQUEST: PolicyRequest = {place, options: {}, cloudFormationRole: undefined, templateBucket: undefined}

/** The grants that policies do not allow. */
function refused(policies: readonly PolicyDocument[], grants: readonly PolicyGrant[]): string[] {
  return grants.flatMap(({actions, resources, conditions}) => {
    const context = Object.fromEntries(
      Object.values(conditions ?? {}).flatMap(keys => Object.entries(keys).map(([key, value]) => [key, [value]])),
    )
    return resources.flatMap(resource => actions.filter(action => !isAllowed(policies, {action, resource, context})))
  })
}

describe('exported policies', () => {
  it('allow everything that CloudFormation calls, each within the length that IAM allows', () => {
    for (const stack of ['prod', 'x'.repeat(53)]) {
      const there = {...place, stack}
      const files = deployPolicies({...REQUEST, place: there, options: {iamRoles: true}})
      for (const {name, policy} of files)
        expect([name, policyLength(policy) <= MAX_POLICY_LENGTH]).toEqual([name, true])
      const archiveBucket = `${stack.slice(0, 20)}-auditarchivebucket-0123456789ab`
      const parameters = {EnableIAMRoles: 'true'}
      const grants = deriveGrants({
        ...{place: there, parameters, archiveBucket, cloudFormationRole: null, templateBucket: null},
      }).flatMap(each => each.grants)
      const policies = files.filter(({name}) => name.startsWith('cloudformation')).map(({policy}) => policy)
      expect(refused(policies, grants)).toEqual([])
      // Without one of them something is missing.
      for (const left of policies)
        expect(
          refused(
            policies.filter(each => each !== left),
            grants,
          ),
        ).not.toEqual([])
    }
  })

  it('name their purpose; with a service role the caller may only pass it on', () => {
    const role = 'arn:aws:iam::123456789012:role/cloudformation'
    const plain = deployPolicies(REQUEST)
    expect(plain.map(({name, purpose}) => [name, purpose])).toEqual([
      ['zael.json', 'actions that zael calls: attach to the deploying identity'],
      ['cloudformation-1.json', 'actions that CloudFormation calls: attach to the deploying identity'],
      ['cloudformation-2.json', 'actions that CloudFormation calls: attach to the deploying identity'],
    ])
    const [own, ofRole] = deployPolicies({...REQUEST, cloudFormationRole: role, templateBucket: 'templates'})
    expect(ofRole?.purpose).toBe(`actions that CloudFormation calls: attach to the role ${role}`)
    const policies = own ? [own.policy] : []
    const pass = (resource: string, service: string) =>
      isAllowed(policies, {action: 'iam:PassRole', resource, context: {'iam:PassedToService': [service]}})
    expect(pass(role, 'cloudformation.amazonaws.com')).toBe(true)
    expect(pass(role, 'lambda.amazonaws.com')).toBe(false)
    expect(pass('arn:aws:iam::123456789012:role/prod-aggr', 'lambda.amazonaws.com')).toBe(false)
    const may = (action: string, resource: string) => isAllowed(policies, {action, resource, context: {}})
    expect(may('s3:PutObject', 'arn:aws:s3:::templates/zael/prod/0123.yaml')).toBe(true)
    expect(may('s3:PutObject', 'arn:aws:s3:::templates/zael/other/0123.yaml')).toBe(false)
    const key = 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd'
    const [withKey] = deployPolicies({...REQUEST, options: {encryptionKey: key}})
    const uses = (service: string) =>
      isAllowed(withKey ? [withKey.policy] : [], {
        ...{action: 'kms:Decrypt', resource: key, context: {'kms:ViaService': [`${service}.eu-west-1.amazonaws.com`]}},
      })
    expect([uses('dynamodb'), uses('s3')]).toEqual([true, false])
    expect(may('dynamodb:CreateTable', 'arn:aws:dynamodb:eu-west-1:123456789012:table/prod')).toBe(false)
  })

  it('combine actions with the same resources into one statement', () => {
    const table = ['arn:t']
    expect(
      policiesOf([
        {actions: ['dynamodb:PutItem'], resources: table},
        {actions: ['dynamodb:GetItem'], resources: table},
        {actions: ['dynamodb:GetItem'], resources: ['arn:u']},
        {actions: ['dynamodb:ListTables'], resources: ['*']},
      ]),
    ).toEqual([
      {
        Version: '2012-10-17',
        Statement: [
          {Effect: 'Allow', Action: ['dynamodb:GetItem'], Resource: ['arn:t', 'arn:u']},
          {Effect: 'Allow', Action: ['dynamodb:ListTables'], Resource: ['*']},
          {Effect: 'Allow', Action: ['dynamodb:PutItem'], Resource: ['arn:t']},
        ],
      },
    ])
  })
})
