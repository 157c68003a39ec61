import {indexes} from '../../schema/attributes.js'
import {DEFAULT_PARAMETERS} from '../stack/options.js'
import type {GrantConditions, PolicyGrant} from './policy.js'

/*
 * Required permissions as data. `{name}` in an ARN is a value of `valuesOf`. Tests derive the same lists: CloudFormation's
 * from the template and CloudFormation's schemas, the others from observed calls. The policies for users of the table and
 * for the aggregator are in templates/stack.yaml.
 */

interface Statement {
  readonly actions: readonly string[]
  readonly on: readonly string[]
  /** Default: always. */
  readonly when?: StackFeature
  readonly conditions?: GrantConditions
}

const TABLE = regional('dynamodb', 'table/{stack}')
const STACK = regional('cloudformation', 'stack/{stack}/*')
const FUNCTION = regional('lambda', 'function:{stack}-aggregator')
const EVENT_SOURCE_MAPPINGS = regional('lambda', 'event-source-mapping:*')
const QUEUE = regional('sqs', '{stack}-aggregator-dlq')
const BUCKET = 'arn:{partition}:s3:::{archiveBucket}'

/** `look` and `operate`: the commands. `deploy`: the calls of `deploy` and `delete` themselves. */
const COMMANDS: Readonly<Record<'look' | 'operate' | 'deploy', readonly Statement[]>> = {
  look: [
    allow(`dynamodb: Query on ${TABLE} ${TABLE}/index/${indexes.parent}`),
    allow(`dynamodb: GetItem BatchGetItem DescribeTable DescribeTimeToLive DescribeContinuousBackups on ${TABLE}`),
    allow(`cloudformation: DescribeStacks on ${STACK}`),
    allow(`lambda: GetFunction on ${FUNCTION}`),
    allow('lambda: ListEventSourceMappings on *'),
    allow('cloudwatch: GetMetricData DescribeAlarms on *'),
    allow(`sqs: GetQueueUrl GetQueueAttributes on ${QUEUE}`),
  ],
  operate: [
    allow(`dynamodb: PutItem UpdateItem DeleteItem BatchWriteItem ConditionCheckItem on ${TABLE}`),
    allow(`dynamodb: GetShardIterator GetRecords on ${TABLE}/stream/*`),
    allow(`sqs: ReceiveMessage ChangeMessageVisibility DeleteMessage on ${QUEUE}`),
  ],
  deploy: [
    allow(`cloudformation: CreateChangeSet DeleteChangeSet DeleteStack DescribeChangeSet DescribeEvents
      DescribeStackEvents DescribeStackResourceDrifts DescribeStacks DetectStackDrift DetectStackResourceDrift
      ExecuteChangeSet GetTemplate ListChangeSets ListStackResources TagResource UntagResource
      UpdateTerminationProtection on ${STACK}`),
    // CloudFormation calls BatchDescribeTypeConfigurations to read existing resources.
    allow('cloudformation: BatchDescribeTypeConfigurations DescribeStackDriftDetectionStatus ListStacks on *'),
    // For the version record, the namespace "default", the roll-up, and the checks before a table is adopted.
    allow(`dynamodb: BatchGetItem DeleteTable DescribeContinuousBackups DescribeTable DescribeTimeToLive GetItem
      PutItem Scan UpdateItem on ${TABLE}`),
    allow(`lambda: GetFunctionConfiguration UpdateFunctionCode on ${FUNCTION}`),
    allow(`lambda: GetEventSourceMapping on ${EVENT_SOURCE_MAPPINGS}`),
    // delete --empty-archive
    allow(`s3: DeleteBucket ListBucket ListBucketVersions on ${BUCKET}`),
    allow(`s3: DeleteObject DeleteObjectVersion on ${BUCKET}/*`),
    // DynamoDB uses the key with the permissions of its caller.
    {
      ...allow('kms: Decrypt DescribeKey Encrypt GenerateDataKey* ReEncrypt* on {key}'),
      when: 'ownKey',
      conditions: {StringLike: {'kms:ViaService': 'dynamodb.*'}},
    },
    {
      ...allow('s3: GetObject PutObject on arn:{partition}:s3:::{templateBucket}/zael/{stack}/*'),
      when: 'templateBucket',
    },
    {
      ...allow('iam: PassRole on {cloudFormationRole}'),
      when: 'cloudFormationRole',
      conditions: {StringEquals: {'iam:PassedToService': 'cloudformation.amazonaws.com'}},
    },
  ],
}

/** Calls of CloudFormation for one resource of a type, whose ARN is `{arn}`. */
const RESOURCE_CALLS: Readonly<Record<string, readonly Statement[]>> = {
  'AWS::DynamoDB::Table': [
    allow(`dynamodb: CreateTable DeleteTable DescribeContinuousBackups DescribeKinesisStreamingDestination
      DescribeTable DescribeTimeToLive GetResourcePolicy ListTagsOfResource TagResource UntagResource
      UpdateContinuousBackups UpdateTable UpdateTimeToLive on {arn}`),
    allow('dynamodb: DescribeContributorInsights on {arn}/index/* {arn}'),
    allow('dynamodb: ListTables on *'),
    {...allow('kms: CreateGrant Decrypt DescribeKey Encrypt RevokeGrant on {key}'), when: 'ownKey'},
    {...allow('kms: ListAliases on *'), when: 'ownKey'},
  ],
  'AWS::S3::Bucket': [
    allow(`s3: CreateBucket DeleteBucket GetAccelerateConfiguration GetAnalyticsConfiguration GetBucketAbac
      GetBucketCORS GetBucketLogging GetBucketMetadataTableConfiguration GetBucketNotification
      GetBucketObjectLockConfiguration GetBucketOwnershipControls GetBucketPublicAccessBlock GetBucketTagging
      GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration GetIntelligentTieringConfiguration
      GetInventoryConfiguration GetLifecycleConfiguration GetMetricsConfiguration GetReplicationConfiguration
      ListBucket ListTagsForResource PutBucketOwnershipControls PutBucketPublicAccessBlock PutBucketTagging
      PutEncryptionConfiguration PutLifecycleConfiguration TagResource UntagResource on {arn}`),
    allow('s3: ListAllMyBuckets on *'),
  ],
  'AWS::S3::BucketPolicy': [
    allow('s3: DeleteBucketPolicy GetBucketPolicy PutBucketPolicy on {arn}'),
    allow('s3: ListAllMyBuckets on *'),
  ],
  'AWS::SQS::Queue': [
    allow(`sqs: CreateQueue DeleteQueue GetQueueAttributes GetQueueUrl ListQueueTags SetQueueAttributes TagQueue
      UntagQueue on {arn}`),
    allow('sqs: ListQueues on *'),
  ],
  'AWS::Logs::LogGroup': [
    // IAM checks some actions against the first form, and some against the second.
    allow(`logs: CreateLogGroup DeleteDataProtectionPolicy DeleteLogGroup DeleteRetentionPolicy
      GetDataProtectionPolicy ListTagsForResource PutRetentionPolicy TagResource UntagResource on {arn} {arn}:*`),
    allow('logs: DescribeIndexPolicies DescribeLogGroups DescribeResourcePolicies on *'),
  ],
  'AWS::IAM::Role': [
    allow(`iam: AttachRolePolicy CreateRole DeleteRole DeleteRolePermissionsBoundary DeleteRolePolicy DetachRolePolicy
      GetRole GetRolePolicy ListAttachedRolePolicies ListRolePolicies ListRoleTags PutRolePermissionsBoundary
      PutRolePolicy TagRole UntagRole UpdateAssumeRolePolicy UpdateRole UpdateRoleDescription on {arn}`),
    allow('iam: ListRoles on *'),
  ],
  'AWS::IAM::Policy': [allow('iam: DeleteRolePolicy GetRolePolicy PutRolePolicy on {arn}')],
  'AWS::Lambda::Function': [
    {
      ...allow('iam: PassRole on {functionRole}'),
      conditions: {StringEquals: {'iam:PassedToService': 'lambda.amazonaws.com'}},
    },
    allow(`lambda: CreateFunction DeleteFunction DeleteFunctionConcurrency GetFunction GetFunctionCodeSigningConfig
      GetFunctionRecursionConfig GetFunctionScalingConfig GetRuntimeManagementConfig ListTags PutFunctionConcurrency
      TagResource UntagResource UpdateFunctionCode UpdateFunctionConfiguration on {arn}`),
    allow('lambda: ListFunctions on *'),
  ],
  'AWS::Lambda::EventSourceMapping': [
    allow('lambda: CreateEventSourceMapping ListEventSourceMappings on *'),
    allow(`lambda: DeleteEventSourceMapping GetEventSourceMapping ListTags TagResource UntagResource
      UpdateEventSourceMapping on {arn}`),
  ],
  'AWS::CloudWatch::Alarm': [
    allow(`cloudwatch: DeleteAlarms DescribeAlarms ListTagsForResource PutMetricAlarm TagResource
      UntagResource on {arn}`),
  ],
  'AWS::CloudWatch::Dashboard': [
    allow(`cloudwatch: DeleteDashboards GetDashboard ListTagsForResource PutDashboard TagResource
      UntagResource on {arn}`),
    allow('cloudwatch: ListDashboards on *'),
  ],
  'AWS::IAM::ManagedPolicy': [
    allow(`iam: CreatePolicy CreatePolicyVersion DeletePolicy DeletePolicyVersion GetPolicy GetPolicyVersion
      ListEntitiesForPolicy ListPolicyVersions on {arn}`),
    allow('iam: ListPolicies on *'),
  ],
}

const RESOURCES: ReadonlyArray<Pick<Statement, 'when'> & {readonly type: string; readonly arns: readonly string[]}> = [
  {type: 'AWS::DynamoDB::Table', arns: [regional('dynamodb', 'table/{table}')]},
  {type: 'AWS::S3::Bucket', arns: [BUCKET], when: 'archive'},
  {type: 'AWS::S3::BucketPolicy', arns: [BUCKET], when: 'archive'},
  {type: 'AWS::SQS::Queue', arns: [QUEUE], when: 'aggregator'},
  {
    type: 'AWS::Logs::LogGroup',
    arns: [regional('logs', 'log-group:/aws/lambda/{stack}-aggregator')],
    when: 'aggregator',
  },
  {type: 'AWS::IAM::Role', arns: [role('aggr')], when: 'aggregatorRole'},
  {type: 'AWS::IAM::Policy', arns: [role('aggr')], when: 'archivePolicy'},
  {type: 'AWS::Lambda::Function', arns: [FUNCTION], when: 'aggregator'},
  // Lambda generates their ids.
  {type: 'AWS::Lambda::EventSourceMapping', arns: [EVENT_SOURCE_MAPPINGS], when: 'aggregator'},
  {
    type: 'AWS::CloudWatch::Alarm',
    arns: [
      ...['aggregator-errors', 'aggregator-failed-records', 'aggregator-uncounted-records', 'aggregator-archive'],
      ...['aggregator-duration', 'stream-iterator-age', 'aggregator-dlq'],
    ].map(alarm),
    when: 'aggregatorAlarms',
  },
  {type: 'AWS::CloudWatch::Alarm', arns: ['read-throttle', 'write-throttle'].map(alarm), when: 'alarms'},
  {
    type: 'AWS::CloudWatch::Dashboard',
    arns: ['arn:{partition}:cloudwatch::{account}:dashboard/{stack}-{region}'],
    when: 'dashboard',
  },
  {
    type: 'AWS::IAM::ManagedPolicy',
    arns: ['acq', 'full', 'read', 'ns-acq', 'ns-full', 'ns-read'].map(
      name => `arn:{partition}:iam::{account}:policy/{policyPrefix}{stack}-${name}{policySuffix}`,
    ),
    when: 'iam',
  },
  {type: 'AWS::IAM::Role', arns: ['app', 'admin', 'read'].map(role), when: 'roles'},
]

function regional(service: string, name: string): string {
  return `arn:{partition}:${service}:{region}:{account}:${name}`
}

function role(name: string): string {
  return `arn:{partition}:iam::{account}:role{rolePath}{rolePrefix}{stack}-${name}{roleSuffix}`
}

function alarm(name: string): string {
  return regional('cloudwatch', `alarm:{stack}-${name}`)
}

/** `service: Action Action on resource resource` */
function allow(text: string): Statement {
  const [service = '', actions = '', on = ''] = text.split(/: | on /)
  return {actions: actions.split(/\s+/).map(name => `${service}:${name}`), on: on.split(/\s+/)}
}

export interface StackPlace {
  readonly partition: string
  readonly region: string
  readonly account: string
  readonly stack: string
}

export interface StackDescription {
  readonly place: StackPlace
  /** Only parameters that differ from the template's defaults. */
  readonly parameters: Readonly<Record<string, string>>
  /** A name or a pattern: CloudFormation generates the name. */
  readonly archiveBucket: string
  /** ARN of CloudFormation's service role; `null`: it uses its caller's permissions. */
  readonly cloudFormationRole: string | null
  /** `null`: the template is sent in the request. */
  readonly templateBucket: string | null
}

export function commandGrants(purpose: keyof typeof COMMANDS, stack: StackDescription): PolicyGrant[] {
  return grantsOf(COMMANDS[purpose], featuresOf(stack), valuesOf(stack))
}

/** CloudFormation makes these calls with the permissions of its caller or of its service role. */
export function cloudFormationGrants(stack: StackDescription) {
  const features = featuresOf(stack)
  const values = valuesOf(stack)
  const made = RESOURCES.filter(({when}) => when === undefined || features[when])
  return made.flatMap(({type, arns}) =>
    arns.map(arn => {
      const grants = grantsOf(RESOURCE_CALLS[type] ?? [], features, {...values, arn: filledIn(arn, values)})
      const single = grants.flatMap(grant => grant.actions.map(action => ({...grant, actions: [action]})))
      return {type, grants: single.sort((a, b) => (`${a.actions}` < `${b.actions}` ? -1 : 1))}
    }),
  )
}

function grantsOf(statements: readonly Statement[], features: StackFeatures, values: StackValues): PolicyGrant[] {
  return statements
    .filter(({when}) => when === undefined || features[when])
    .map(({actions, on, conditions}) => {
      return {actions, resources: on.map(arn => filledIn(arn, values)), ...(conditions ? {conditions} : {})}
    })
}

type StackFeatures = ReturnType<typeof featuresOf>
type StackFeature = keyof StackFeatures

function featuresOf({parameters, cloudFormationRole, templateBucket}: StackDescription) {
  const given = {...DEFAULT_PARAMETERS, ...parameters}
  const has = (parameter: string) => given[parameter] === 'true'
  const hasGivenRole = given.AggregatorRoleArn !== ''
  const aggregator = has('EnableAggregator') && (has('EnableIAM') || hasGivenRole)
  const archive = aggregator && has('EnableAuditArchival')
  return {
    aggregator,
    aggregatorRole: aggregator && !hasGivenRole,
    archive,
    archivePolicy: archive && !hasGivenRole,
    alarms: has('EnableAlarms'),
    aggregatorAlarms: aggregator && has('EnableAlarms'),
    dashboard: has('EnableDashboard'),
    iam: has('EnableIAM'),
    roles: has('EnableIAM') && has('EnableIAMRoles'),
    ownKey: ownKey(parameters) !== null,
    templateBucket: templateBucket !== null,
    cloudFormationRole: cloudFormationRole !== null,
  }
}

type StackValues = Readonly<Record<string, string>>

function valuesOf({place, parameters, archiveBucket, ...own}: StackDescription): StackValues {
  const given: Readonly<Record<string, string>> = {...DEFAULT_PARAMETERS, ...parameters}
  const [rolePrefix = '', roleSuffix = ''] = given.RoleNameFormat?.split('{}') ?? []
  const [policyPrefix = '', policySuffix = ''] = given.PolicyNameFormat?.split('{}') ?? []
  const roles = {rolePath: given.RolePath ?? '', rolePrefix, roleSuffix}
  return {
    ...place,
    ...roles,
    policyPrefix,
    policySuffix,
    archiveBucket,
    table: given.TableName || place.stack,
    functionRole: given.AggregatorRoleArn || filledIn(role('aggr'), {...place, ...roles}),
    key: ownKey(parameters) ?? '',
    cloudFormationRole: own.cloudFormationRole ?? '',
    templateBucket: own.templateBucket ?? '',
  }
}

function filledIn(text: string, values: StackValues): string {
  return text.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`a permission names {${name}}, which has no value`)
    return value
  })
}

/** `null`: AWS owns or manages the key. */
export function ownKey({TableEncryptionKey: key}: Readonly<Record<string, string>>): string | null {
  return key?.startsWith('arn:') ? key : null
}
