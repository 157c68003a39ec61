import {readdirSync, readFileSync} from 'node:fs'
import {describe, expect, it} from 'vitest'
import type {TemplateNode} from '../../../src/lib/files/template-yaml.js'
import {
  cloudFormationGrants,
  commandGrants,
  type StackDescription,
} from '../../../src/lib/infra/permissions/permissions.js'
import {TEMPLATE} from '../template/stack-model.js'
import {deriveGrants, HANDLERS, handlerActions} from './derivation.js'
import {isSuperfluous, PROPERTY_ACTIONS} from './property-actions.js'

const KEY = 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab'
const GIVEN_ROLE = 'arn:aws:iam::123456789012:role/teams/given'

function stackOf(parameters: Record<string, string> = {}): StackDescription {
  return {
    place: {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'prod'},
    parameters,
    archiveBucket: 'prod-auditarchivebucket-*',
    cloudFormationRole: null,
    templateBucket: null,
  }
}

const grantsWith = (parameters: Record<string, string> = {}) =>
  cloudFormationGrants(stackOf(parameters)).flatMap(({grants}) => grants)

const actionsWith = (parameters: Record<string, string> = {}) =>
  [...new Set(grantsWith(parameters).flatMap(({actions}) => actions))].sort()

/** All combinations of the parts that a stack can have or lack. */
function* everyStack(): Generator<Record<string, string>> {
  const parts = ['EnableAggregator', 'EnableAuditArchival', 'EnableAlarms', 'EnableDashboard', 'EnableIAM']
  const names = [...parts, 'EnableIAMRoles']
  for (let mask = 0; mask < 2 ** names.length; mask++)
    yield Object.fromEntries(names.map((name, at) => [name, String(((mask >> at) & 1) === 1)]))
}

describe('permissions of CloudFormation', () => {
  it.each([
    ['defaults', {}],
    ['an own key', {TableEncryptionKey: KEY}],
    ["AWS's key", {TableEncryptionKey: 'aws-managed'}],
    ['a given role', {AggregatorRoleArn: GIVEN_ROLE}],
    [
      'other names',
      {RolePath: '/teams/a/', RoleNameFormat: 'team-{}-v1', PolicyNameFormat: 'p-{}', TableName: 'other'},
    ],
  ])('are exactly the permissions that the template needs, with any parts and %s', (_, parameters) => {
    for (const parts of everyStack()) {
      const stack = stackOf({...parts, ...parameters})
      const derived = deriveGrants(stack).map(({type, grants}) => ({type, grants}))
      expect(cloudFormationGrants(stack)).toEqual(derived)
    }
  })

  it('include the actions that the handwritten list lacked', () => {
    expect(actionsWith()).toEqual(
      expect.arrayContaining([
        ...['s3:GetBucketPolicy', 'sqs:ListQueueTags', 'iam:GetRolePolicy', 'lambda:GetFunctionCodeSigningConfig'],
        ...['lambda:GetRuntimeManagementConfig', 'dynamodb:DescribeContributorInsights'],
      ]),
    )
  })

  it('follow the options: parts that are not created, a given role, an own key', () => {
    const services = (parameters: Record<string, string>) =>
      new Set(actionsWith(parameters).map(action => action.split(':')[0]))
    expect(services({})).toEqual(new Set(['cloudwatch', 'dynamodb', 'iam', 'lambda', 'logs', 's3', 'sqs']))
    expect(services({EnableAuditArchival: 'false'})).not.toContain('s3')
    const off = {EnableAggregator: 'false', EnableIAM: 'false', EnableAlarms: 'false', EnableDashboard: 'false'}
    expect(services(off)).toEqual(new Set(['dynamodb']))
    const given = {EnableIAM: 'false', AggregatorRoleArn: GIVEN_ROLE}
    expect(actionsWith(given).filter(action => action.startsWith('iam:'))).toEqual(['iam:PassRole'])
    const passed = grantsWith(given).find(({actions}) => actions.includes('iam:PassRole'))
    expect(passed).toEqual({
      actions: ['iam:PassRole'],
      resources: [GIVEN_ROLE],
      conditions: {StringEquals: {'iam:PassedToService': 'lambda.amazonaws.com'}},
    })
    expect(services({TableEncryptionKey: 'aws-managed'})).not.toContain('kms')
    const key = grantsWith({TableEncryptionKey: KEY}).filter(({actions: [action]}) => action === 'kms:CreateGrant')
    expect(key).toEqual([{actions: ['kms:CreateGrant'], resources: [KEY]}])
  })

  it('are restricted to the resources of the stack, wherever IAM can do that', () => {
    const all = grantsWith({EnableIAMRoles: 'true', RoleNameFormat: 'team-{}'})
    const unrestricted = new Set(all.filter(({resources}) => resources.includes('*')).flatMap(({actions}) => actions))
    expect([...unrestricted].filter(action => !/:(List|Describe)/.test(action))).toEqual([
      'lambda:CreateEventSourceMapping',
    ])
    const named = [...new Set(all.flatMap(({resources}) => resources))].filter(arn => !/\bprod\b/.test(arn))
    expect(named.sort()).toEqual(['*', 'arn:aws:lambda:eu-west-1:123456789012:event-source-mapping:*'])
    expect(all.flatMap(({resources}) => resources)).toContain('arn:aws:iam::123456789012:role/team-prod-admin')
    const roles = grantsWith({RolePath: '/teams/a/'}).flatMap(({resources}) => resources)
    expect(new Set(roles.filter(arn => arn.includes(':role/')))).toEqual(
      new Set(['arn:aws:iam::123456789012:role/teams/a/prod-aggr']),
    )
  })
})

/** Actions whose names differ from the call. */
const ACTIONS_OF: Readonly<Record<string, readonly string[]>> = {
  's3:HeadBucket': ['s3:ListBucket'],
  's3:ListObjectVersions': ['s3:ListBucketVersions'],
  's3:DeleteObjects': ['s3:DeleteObject', 's3:DeleteObjectVersion'],
}

/** Calls of functions that several folders share. */
const SHARED: readonly (readonly [RegExp, string])[] = [[/\bcountMessages\(/, 'sqs:GetQueueAttributes']]

/** Actions of the SDK's commands that the files of a folder send. */
function sentFrom(folder: string): string[] {
  const path = new URL(`../../../src/lib/infra/${folder}/`, import.meta.url)
  const texts = readdirSync(path).map(file => readFileSync(new URL(file, path), 'utf8'))
  const sent = texts.flatMap(text =>
    [...text.matchAll(/import \{([^}]*)\} from '@aws-sdk\/client-(\w+)'/g)].flatMap(([, names = '', service = '']) =>
      [...names.matchAll(/\bpaginate(\w+)|\b(\w+)Command\b/g)].map(
        ([, paged, single]) => `${service}:${paged ?? single}`,
      ),
    ),
  )
  for (const [call, action] of SHARED) if (texts.some(text => call.test(text))) sent.push(action)
  return [...new Set(sent.flatMap(action => ACTIONS_OF[action] ?? action))].sort()
}

describe('permissions of the commands', () => {
  const all = {...stackOf({TableEncryptionKey: KEY}), cloudFormationRole: GIVEN_ROLE, templateBucket: 'templates'}

  // Calls to the table do not go through the SDK; test/infra/template and test/aws compare these.
  const granted = (purpose: 'look' | 'operate' | 'deploy') =>
    commandGrants(purpose, all)
      .flatMap(({actions}) => actions)
      .filter(action => !action.startsWith('dynamodb:'))
      .sort()

  it('to deploy and delete match exactly the calls that are sent', () => {
    const sent = [...sentFrom('deploy'), ...sentFrom('stack')]
    // AWS checks these besides: for tags and types of resources, drift, the role, the uploaded template, and the key.
    const implied = [
      ...['BatchDescribeTypeConfigurations', 'DetectStackResourceDrift', 'TagResource', 'UntagResource'].map(
        name => `cloudformation:${name}`,
      ),
      ...['iam:PassRole', 's3:GetObject'],
      ...['Decrypt', 'DescribeKey', 'Encrypt', 'GenerateDataKey*', 'ReEncrypt*'].map(name => `kms:${name}`),
    ]
    expect(granted('deploy')).toEqual([...new Set([...sent, ...implied])].sort())
  })

  it('to look and to operate match exactly the calls that are sent', () => {
    expect(granted('look')).toEqual(['cloudformation:DescribeStacks', ...sentFrom('health')])
    expect(sentFrom('stack')).toContain('cloudformation:DescribeStacks')
    const look = granted('look')
    expect(granted('operate')).toEqual(sentFrom('dead-letters').filter(action => !look.includes(action)))
  })
})

describe('the derivation of permissions', () => {
  const ALL = {TableEncryptionKey: KEY, EnableIAMRoles: 'true'}

  /** The template with another property of a resource. */
  function withProperty(logicalId: string, properties: object): TemplateNode {
    const {Resources} = TEMPLATE
    const resource = {...Resources[logicalId], Properties: {...Resources[logicalId].Properties, ...properties}}
    return {...TEMPLATE, Resources: {...Resources, [logicalId]: resource}}
  }

  const actionsOf = (logicalId: string, template: TemplateNode) =>
    deriveGrants(stackOf(), template).flatMap(each =>
      each.logicalId === logicalId ? each.grants.flatMap(({actions}) => actions) : [],
    )

  it('has every action of every handler, except for properties that the template does not have', () => {
    for (const {type, paths, logicalId, grants} of deriveGrants(stackOf(ALL))) {
      const granted = grants.flatMap(({actions}) => actions)
      const left = handlerActions(type).filter(action => !granted.includes(action))
      expect([logicalId, left.filter(action => !isSuperfluous(type, action, paths))]).toEqual([logicalId, []])
    }
  })

  it('follows the properties of the template', () => {
    expect(actionsOf('AuditArchiveBucket', TEMPLATE)).not.toContain('s3:PutBucketVersioning')
    const versioned = withProperty('AuditArchiveBucket', {VersioningConfiguration: {Status: 'Enabled'}})
    expect(actionsOf('AuditArchiveBucket', versioned)).toContain('s3:PutBucketVersioning')
  })

  it('fails for a resource type whose handlers are not known, and for a resource that an action does not name', () => {
    const topic = {Type: 'AWS::SNS::Topic', Properties: {TopicName: 'ops'}}
    const withTopic = {...TEMPLATE, Resources: {...TEMPLATE.Resources, Topic: topic}}
    expect(() => deriveGrants(stackOf(), withTopic)).toThrow('the handlers of AWS::SNS::Topic are not known')
    const layered = withProperty('AggregatorFunction', {Layers: ['arn:aws:lambda:eu-west-1:1:layer:x:1']})
    const unnamed = 'does not tell which layerVersion lambda:GetLayerVersion is for'
    expect(() => deriveGrants(stackOf(), layered)).toThrow(unnamed)
  })
})

describe('actions for single properties', () => {
  it('are actions of a handler of their type', () => {
    const stray = PROPERTY_ACTIONS.flatMap(({type, actions}) => {
      const known = Object.values(HANDLERS[type] ?? {}).flat()
      return actions.filter(action => !known.includes(action))
    })
    expect(stray).toEqual([])
  })

  // A handler reads everything about a resource, whatever its properties are.
  it('excludes reads that the handler makes anyway', () => {
    const wrong = PROPERTY_ACTIONS.flatMap(({type, actions}) => {
      const [, service = ''] = type.toLowerCase().split('::')
      const {read = [], list = []} = HANDLERS[type] ?? {}
      return actions.filter(action => action.startsWith(`${service}:`) && [...read, ...list].includes(action))
    })
    expect(wrong).toEqual([])
  })
})
