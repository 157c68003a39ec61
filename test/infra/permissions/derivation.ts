import {readFileSync} from 'node:fs'
import type {TemplateNode} from '../../../src/lib/files/template-yaml.js'
import {ownKey, type StackDescription} from '../../../src/lib/infra/permissions/permissions.js'
import type {PolicyGrant} from '../../../src/lib/infra/permissions/policy.js'
import {stackWith, TEMPLATE} from '../template/stack-model.js'
import {isSuperfluous} from './property-actions.js'

interface ResourceHandlers {
  /** By type and handler. `tag`: CloudFormation copies the tags of the stack to the resource. */
  readonly handlers: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>
  /** Resource kinds that an action can be restricted to, such as `table`; empty: only `*`; missing: unknown to IAM. */
  readonly resourceKinds: Readonly<Record<string, readonly string[]>>
}

/** `node .ci/resource-handlers.js` writes this file. */
const FACTS: ResourceHandlers = JSON.parse(readFileSync(new URL('resource-handlers.json', import.meta.url), 'utf8'))

export const HANDLERS = FACTS.handlers

export interface DerivedGrants {
  readonly logicalId: string
  readonly type: string
  /** Paths of all properties under any parameters, such as `SSESpecification.KMSMasterKeyId`. */
  readonly paths: ReadonlySet<string>
  readonly grants: readonly PolicyGrant[]
}

/** The calls of CloudFormation for each resource of the template, by CloudFormation's own schemas. */
export function deriveGrants(stack: StackDescription, template: TemplateNode = TEMPLATE): DerivedGrants[] {
  const {partition, region, account, stack: name} = stack.place
  const pseudo = {
    ...{'AWS::Partition': partition, 'AWS::Region': region},
    ...{'AWS::AccountId': account, 'AWS::StackName': name},
  }
  const {Resources} = stackWith(stack.parameters, pseudo, template)
  const arnsOf = arnsIn(stack, Resources)
  return Object.entries(Resources).map(([logicalId, {Type: type, Properties: properties}]) => {
    const paths = new Set(pathsOf(template.Resources[logicalId].Properties, ''))
    const actions = handlerActions(type).filter(action => !isSuperfluous(type, action, paths))
    const grants = actions.map(action => grantOf(action, type, arnsOf(type, properties)))
    return {logicalId, type, paths, grants: grants.filter(({resources}) => resources.length > 0)}
  })
}

/** Actions that IAM knows, by name. */
export function handlerActions(type: string): string[] {
  const named = HANDLERS[type]
  if (!named) throw new Error(`the handlers of ${type} are not known: run "node .ci/resource-handlers.js"`)
  return [...new Set(Object.values(named).flat())].filter(action => action in FACTS.resourceKinds).sort()
}

type ArnsByKind = Readonly<Record<string, readonly string[]>>

function grantOf(action: string, type: string, arns: ArnsByKind): PolicyGrant {
  const kinds = FACTS.resourceKinds[action] ?? []
  // Only a customer-managed key needs grants.
  if (action.startsWith('kms:') && arns.key?.length === 0) return {actions: [action], resources: []}
  if (kinds.length === 0) return {actions: [action], resources: ['*']}
  const resources = kinds.flatMap(kind => arns[kind] ?? [])
  if (resources.length === 0) throw new Error(`${type} does not tell which ${kinds.join(' or ')} ${action} is for`)
  const conditions = {StringEquals: {'iam:PassedToService': 'lambda.amazonaws.com'}}
  return {actions: [action], resources, ...(action === 'iam:PassRole' ? {conditions} : {})}
}

function arnsIn({place, parameters, archiveBucket}: StackDescription, resources: Record<string, TemplateNode>) {
  const {partition, region, account} = place
  const regional = (service: string, rest: string) => [`arn:${partition}:${service}:${region}:${account}:${rest}`]
  const global = (service: string, rest: string) => [`arn:${partition}:${service}::${account}:${rest}`]
  const bucket = [`arn:${partition}:s3:::${archiveBucket}`]
  const key = [ownKey(parameters) ?? []].flat()
  const roleOf = ({RoleName, Path = '/'}: TemplateNode) => global('iam', `role${Path}${RoleName}`)
  const roleArn = (reference: string) => roleOf(resources[reference.replace('ref:', '')].Properties)

  return (type: string, own: TemplateNode): ArnsByKind => {
    switch (type) {
      case 'AWS::DynamoDB::Table': {
        const table = regional('dynamodb', `table/${own.TableName}`)
        return {table, index: [`${table}/index/*`], key}
      }
      case 'AWS::S3::Bucket':
      case 'AWS::S3::BucketPolicy':
        return {bucket}
      case 'AWS::SQS::Queue':
        return {queue: regional('sqs', own.QueueName)}
      case 'AWS::Logs::LogGroup': {
        const group = regional('logs', `log-group:${own.LogGroupName}`)
        // IAM checks some actions against the first form, and some against the second.
        return {'log-group': [...group, `${group}:*`]}
      }
      case 'AWS::IAM::Role':
        return {role: roleOf(own)}
      case 'AWS::IAM::Policy':
        return {role: own.Roles.flatMap(roleArn)}
      case 'AWS::IAM::ManagedPolicy':
        return {policy: global('iam', `policy/${own.ManagedPolicyName}`)}
      case 'AWS::Lambda::Function':
        return {
          function: regional('lambda', `function:${own.FunctionName}`),
          role: parameters.AggregatorRoleArn ? [parameters.AggregatorRoleArn] : roleArn('AggregatorRole'),
        }
      case 'AWS::Lambda::EventSourceMapping':
        // Lambda generates their ids.
        return {eventSourceMapping: regional('lambda', 'event-source-mapping:*')}
      case 'AWS::CloudWatch::Alarm':
        return {alarm: regional('cloudwatch', `alarm:${own.AlarmName}`)}
      case 'AWS::CloudWatch::Dashboard':
        return {dashboard: global('cloudwatch', `dashboard/${own.DashboardName}`)}
      default:
        throw new Error(`no ARN is known for ${type}`)
    }
  }
}

function pathsOf(node: TemplateNode, prefix: string): string[] {
  if (typeof node !== 'object' || node === null || Array.isArray(node)) return []
  return Object.entries<TemplateNode>(node).flatMap(([name, value]) => {
    if (name === 'Fn::If') return [...pathsOf(value[1], prefix), ...pathsOf(value[2], prefix)]
    if (name === 'Ref' || name.startsWith('Fn::')) return []
    return [prefix + name, ...pathsOf(value, `${prefix}${name}.`)]
  })
}
