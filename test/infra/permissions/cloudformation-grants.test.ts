import {describe, expect, it} from 'vitest'
import type {TemplateNode} from '../../../src/lib/files/template-yaml.js'
import {cloudFormationGrants, loadPermissionFacts} from '../../../src/lib/infra/permissions/cloudformation-grants.js'
import {PROPERTY_ACTIONS} from '../../../src/lib/infra/permissions/property-actions.js'

const facts = await loadPermissionFacts()
const place = {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'prod'}
const unnamed = {archiveBucket: 'prod-auditarchivebucket-*'}
const KEY = 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab'

function grantsWith(parameters: Record<string, string> = {}, template: TemplateNode = facts.template) {
  return cloudFormationGrants(template, facts.handlers, {place, parameters, unnamed})
}

/** Actions of one resource, or of all. */
function actionsWith(parameters: Record<string, string> = {}, logicalId?: string, template?: TemplateNode): string[] {
  const chosen = grantsWith(parameters, template).filter(
    ({resource}) => (logicalId ?? resource.logicalId) === resource.logicalId,
  )
  return [...new Set(chosen.flatMap(({grants}) => grants.flatMap(({actions}) => actions)))].sort()
}

/** The template with another property of a resource. */
function withProperty(logicalId: string, properties: object): TemplateNode {
  const {Resources} = facts.template
  const resource = {...Resources[logicalId], Properties: {...Resources[logicalId].Properties, ...properties}}
  return {...facts.template, Resources: {...Resources, [logicalId]: resource}}
}

describe('permissions of CloudFormation', () => {
  it('have what was missing when the list was written by hand', () => {
    expect(actionsWith()).toEqual(
      expect.arrayContaining([
        ...['s3:GetBucketPolicy', 'sqs:ListQueueTags', 'iam:GetRolePolicy', 'lambda:GetFunctionCodeSigningConfig'],
        ...['lambda:GetRuntimeManagementConfig', 'dynamodb:DescribeContributorInsights'],
      ]),
    )
  })

  it('have every action of every handler, except for properties that the template does not have', () => {
    const {handlers, resourceKinds} = facts.handlers
    for (const {resource} of grantsWith({TableEncryptionKey: KEY, EnableIAMRoles: 'true'})) {
      const {type, paths, logicalId} = resource
      const granted = actionsWith({TableEncryptionKey: KEY, EnableIAMRoles: 'true'}, logicalId)
      const left = Object.values(handlers[type] ?? {})
        .flat()
        .filter(action => action in resourceKinds && !granted.includes(action))
      const unexplained = left.filter(
        action =>
          !PROPERTY_ACTIONS.some(
            each =>
              each.type === type &&
              each.actions.includes(action) &&
              (each.property === null || !paths.has(each.property)),
          ),
      )
      expect([logicalId, unexplained]).toEqual([logicalId, []])
    }
  })

  it('follow the properties of the template', () => {
    expect(actionsWith({}, 'AuditArchiveBucket')).not.toContain('s3:PutBucketVersioning')
    const versioned = withProperty('AuditArchiveBucket', {VersioningConfiguration: {Status: 'Enabled'}})
    expect(actionsWith({}, 'AuditArchiveBucket', versioned)).toContain('s3:PutBucketVersioning')
  })

  it('fail for a resource type whose handlers are not known, and for a resource that an action does not name', () => {
    const topic = {Type: 'AWS::SNS::Topic', Properties: {TopicName: 'ops'}}
    const withTopic = {...facts.template, Resources: {...facts.template.Resources, Topic: topic}}
    expect(() => grantsWith({}, withTopic)).toThrow('the handlers of AWS::SNS::Topic are not known')
    const layered = withProperty('AggregatorFunction', {Layers: ['arn:aws:lambda:eu-west-1:1:layer:x:1']})
    expect(() => grantsWith({}, layered)).toThrow('does not tell which layerVersion lambda:GetLayerVersion is for')
  })

  it('follow the options: parts that are not created, a given role, an own key', () => {
    const services = (parameters: Record<string, string>) =>
      new Set(actionsWith(parameters).map(action => action.split(':')[0]))
    expect(services({})).toEqual(new Set(['cloudwatch', 'dynamodb', 'iam', 'lambda', 'logs', 's3', 'sqs']))
    expect(services({EnableAuditArchival: 'false'})).not.toContain('s3')
    const off = {EnableAggregator: 'false', EnableIAM: 'false', EnableAlarms: 'false', EnableDashboard: 'false'}
    expect(services(off)).toEqual(new Set(['dynamodb']))
    const AggregatorRoleArn = 'arn:aws:iam::123456789012:role/teams/given'
    const given = {EnableIAM: 'false', AggregatorRoleArn}
    expect(actionsWith(given).filter(action => action.startsWith('iam:'))).toEqual(['iam:PassRole'])
    const [passed] = grantsWith(given).flatMap(({grants}) =>
      grants.filter(({actions}) => actions.includes('iam:PassRole')),
    )
    expect(passed).toEqual({
      actions: ['iam:PassRole'],
      resources: [AggregatorRoleArn],
      conditions: {StringEquals: {'iam:PassedToService': 'lambda.amazonaws.com'}},
    })
    expect(services({TableEncryptionKey: 'aws-managed'})).not.toContain('kms')
    const key = grantsWith({TableEncryptionKey: KEY}).flatMap(({grants}) =>
      grants.filter(({actions: [action]}) => action === 'kms:CreateGrant'),
    )
    expect(key).toEqual([{actions: ['kms:CreateGrant'], resources: [KEY]}])
  })

  it('are restricted to the resources of the stack, wherever IAM can do that', () => {
    const all = grantsWith({EnableIAMRoles: 'true', RoleNameFormat: 'team-{}'}).flatMap(({grants}) => grants)
    const unrestricted = new Set(all.filter(({resources}) => resources.includes('*')).flatMap(({actions}) => actions))
    expect([...unrestricted].filter(action => !/:(List|Describe)/.test(action))).toEqual([
      'lambda:CreateEventSourceMapping',
    ])
    const named = [...new Set(all.flatMap(({resources}) => resources))].filter(arn => !/\bprod\b/.test(arn))
    expect(named.sort()).toEqual(['*', 'arn:aws:lambda:eu-west-1:123456789012:event-source-mapping:*'])
    expect(all.flatMap(({resources}) => resources)).toContain('arn:aws:iam::123456789012:role/team-prod-admin')
    const roles = grantsWith({RolePath: '/teams/a/'}).flatMap(({grants}) => grants.flatMap(({resources}) => resources))
    expect(new Set(roles.filter(arn => arn.includes(':role/')))).toEqual(
      new Set(['arn:aws:iam::123456789012:role/teams/a/prod-aggr']),
    )
  })
})

describe('actions for single properties', () => {
  it('are actions of a handler of their type', () => {
    const {handlers} = facts.handlers
    const stray = PROPERTY_ACTIONS.flatMap(({type, actions}) => {
      const known = Object.values(handlers[type] ?? {}).flat()
      return actions.filter(action => !known.includes(action))
    })
    expect(stray).toEqual([])
  })

  // A handler reads everything about a resource, whatever its properties are.
  it('are no reads of the service of the resource', () => {
    const wrong = PROPERTY_ACTIONS.flatMap(({type, actions}) => {
      const [, service = ''] = type.toLowerCase().split('::')
      const {read, list} = facts.handlers.handlers[type] ?? {read: [], list: []}
      return actions.filter(action => action.startsWith(`${service}:`) && [...read, ...list].includes(action))
    })
    expect(wrong).toEqual([])
  })
})
