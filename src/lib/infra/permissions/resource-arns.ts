import {ownKey} from './own-grants.js'
import type {StackPlace, TemplateResource} from './template-resources.js'

export type ArnsByKind = Readonly<Record<string, readonly string[]>>

export interface UnnamedResources {
  /** A name or a pattern: CloudFormation generates the name. */
  readonly archiveBucket: string
}

type ArnsOf = (resource: TemplateResource, stack: StackArns) => ArnsByKind

export class StackArns {
  readonly #place: StackPlace
  readonly #resources: readonly TemplateResource[]
  readonly #parameters: Readonly<Record<string, string>>
  readonly bucket: string

  constructor(
    place: StackPlace,
    resources: readonly TemplateResource[],
    parameters: Readonly<Record<string, string>>,
    {archiveBucket}: UnnamedResources,
  ) {
    this.#place = place
    this.#resources = resources
    this.#parameters = parameters
    this.bucket = `arn:${place.partition}:s3:::${archiveBucket}`
  }

  regional(service: string, rest: string): string {
    const {partition, region, account} = this.#place
    return `arn:${partition}:${service}:${region}:${account}:${rest}`
  }

  global(service: string, rest: string): string {
    const {partition, account} = this.#place
    return `arn:${partition}:${service}::${account}:${rest}`
  }

  role(logicalId: string): string {
    const role = this.#resources.find(each => each.logicalId === logicalId)
    return this.global('iam', `role${this.#parameters.RolePath ?? '/'}${role?.text('RoleName')}`)
  }

  get functionRole(): string {
    return this.#parameters.AggregatorRoleArn || this.role('AggregatorRole')
  }

  get keys(): readonly string[] {
    const key = ownKey(this.#parameters)
    return key === null ? [] : [key]
  }

  of(resource: TemplateResource): ArnsByKind {
    const arnsOf = ARNS[resource.type]
    if (!arnsOf) throw new Error(`no ARN is known for ${resource.type} (${resource.logicalId})`)
    return arnsOf(resource, this)
  }
}

const ARNS: Readonly<Record<string, ArnsOf>> = {
  'AWS::DynamoDB::Table': (table, arns) => {
    const arn = arns.regional('dynamodb', `table/${table.text('TableName')}`)
    return {table: [arn], index: [`${arn}/index/*`], key: arns.keys}
  },
  'AWS::S3::Bucket': (_, arns) => ({bucket: [arns.bucket]}),
  'AWS::S3::BucketPolicy': (_, arns) => ({bucket: [arns.bucket]}),
  'AWS::SQS::Queue': (queue, arns) => ({queue: [arns.regional('sqs', queue.text('QueueName'))]}),
  'AWS::Logs::LogGroup': (group, arns) => {
    const arn = arns.regional('logs', `log-group:${group.text('LogGroupName')}`)
    // IAM checks some actions against the first form, and some against the second.
    return {'log-group': [arn, `${arn}:*`]}
  },
  'AWS::IAM::Role': (role, arns) => ({role: [arns.role(role.logicalId)]}),
  'AWS::IAM::Policy': (policy, arns) => ({role: policy.references('Roles').map(id => arns.role(id))}),
  'AWS::IAM::ManagedPolicy': (policy, arns) => ({
    policy: [arns.global('iam', `policy/${policy.text('ManagedPolicyName')}`)],
  }),
  'AWS::Lambda::Function': (lambda, arns) => ({
    function: [arns.regional('lambda', `function:${lambda.text('FunctionName')}`)],
    role: [arns.functionRole],
  }),
  // Lambda generates their ids.
  'AWS::Lambda::EventSourceMapping': (_, arns) => ({
    eventSourceMapping: [arns.regional('lambda', 'event-source-mapping:*')],
  }),
  'AWS::CloudWatch::Alarm': (alarm, arns) => ({
    alarm: [arns.regional('cloudwatch', `alarm:${alarm.text('AlarmName')}`)],
  }),
  'AWS::CloudWatch::Dashboard': (dashboard, arns) => ({
    dashboard: [arns.global('cloudwatch', `dashboard/${dashboard.text('DashboardName')}`)],
  }),
}
