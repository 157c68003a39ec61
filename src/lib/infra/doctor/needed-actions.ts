import {indexes} from '../../schema/attributes.js'
import {DEFAULT_NAMES, formattedName, likelyBucketName, type ResourceNames} from '../options/resource-names.js'

/** What a user wants to do with a stack. */
export type Purpose = 'look' | 'operate' | 'deploy'

/** The IAM actions that one purpose needs on one kind of resource. */
export interface NeededActions {
  readonly purpose: Purpose
  readonly actions: readonly string[]
  readonly resources: readonly string[]
}

/** Account and region of a stack. */
interface StackPlace {
  /** `aws`, `aws-cn`, `aws-us-gov`. */
  readonly partition: string
  readonly region: string
  readonly account: string
  readonly stack: string
}

/**
 * All actions that the commands call, and those that CloudFormation calls with the user's permissions: to look at a stack,
 * to operate its table, to deploy and delete it. docs/deploying.md has the same list, and a test compares them.
 */
export function neededActions(
  {partition, region, account, stack}: StackPlace,
  names: ResourceNames = DEFAULT_NAMES,
): NeededActions[] {
  const arn = (service: string, rest: string) => `arn:${partition}:${service}:${region}:${account}:${rest}`
  const table = [arn('dynamodb', `table/${stack}`)]
  const tableAndIndex = [...table, arn('dynamodb', `table/${stack}/index/${indexes.parent}`)]
  const stacks = [arn('cloudformation', `stack/${stack}/*`)]
  const functions = [arn('lambda', `function:${stack}-aggregator`)]
  const queues = [arn('sqs', `${stack}-aggregator-dlq`)]
  const logs = [arn('logs', `log-group:/aws/lambda/${stack}-aggregator`)]
  const buckets = [`arn:${partition}:s3:::${names.archiveBucket ?? likelyBucketName(stack)}`]
  const roles = [`arn:${partition}:iam::${account}:role/${formattedName(names.roleNameFormat, `${stack}-aggr`)}`]
  const policies = [`arn:${partition}:iam::${account}:policy/${formattedName(names.policyNameFormat, `${stack}-acq`)}`]
  const passed = names.aggregatorRole === null ? roles : [names.aggregatorRole]
  const anything = ['*']
  const need = (purpose: Purpose, service: string, names: string, resources: readonly string[]): NeededActions => {
    return {purpose, actions: names.split(/\s+/).map(name => `${service}:${name}`), resources}
  }
  return [
    need('look', 'dynamodb', 'Query', tableAndIndex),
    need('look', 'dynamodb', 'GetItem BatchGetItem DescribeTable DescribeTimeToLive DescribeContinuousBackups', table),
    need('look', 'cloudformation', 'DescribeStacks', stacks),
    need('look', 'lambda', 'GetFunction', functions),
    need('look', 'lambda', 'ListEventSourceMappings', anything),
    need('look', 'cloudwatch', 'GetMetricData DescribeAlarms', anything),
    need('look', 'sqs', 'GetQueueUrl GetQueueAttributes', queues),
    need('operate', 'dynamodb', 'PutItem UpdateItem DeleteItem BatchWriteItem ConditionCheckItem', table),
    need('deploy', 'cloudformation', 'CreateChangeSet DescribeChangeSet ExecuteChangeSet DeleteChangeSet', stacks),
    need('deploy', 'cloudformation', 'DescribeStackEvents ListStackResources GetTemplate DeleteStack', stacks),
    need('deploy', 'cloudformation', 'ListStacks', anything),
    need('deploy', 'dynamodb', 'CreateTable UpdateTable UpdateTimeToLive UpdateContinuousBackups Scan', table),
    need('deploy', 'dynamodb', 'TagResource ListTagsOfResource', table),
    need('deploy', 'lambda', 'CreateFunction GetFunctionConfiguration UpdateFunctionConfiguration', functions),
    need('deploy', 'lambda', 'UpdateFunctionCode PutFunctionConcurrency TagResource', functions),
    need('deploy', 'lambda', 'CreateEventSourceMapping UpdateEventSourceMapping GetEventSourceMapping', anything),
    need('deploy', 'logs', 'CreateLogGroup PutRetentionPolicy DescribeLogGroups TagResource', logs),
    need('deploy', 'sqs', 'CreateQueue SetQueueAttributes TagQueue', queues),
    need('deploy', 's3', 'CreateBucket PutEncryptionConfiguration PutBucketPublicAccessBlock', buckets),
    need(
      'deploy',
      's3',
      'PutBucketOwnershipControls PutLifecycleConfiguration PutBucketPolicy PutBucketTagging',
      buckets,
    ),
    need('deploy', 'cloudwatch', 'PutMetricAlarm PutDashboard GetDashboard TagResource', anything),
    need('deploy', 'iam', 'PassRole', passed),
    need('deploy', 'iam', 'CreateRole GetRole PutRolePolicy AttachRolePolicy TagRole', roles),
    need('deploy', 'iam', 'PutRolePermissionsBoundary', roles),
    need('deploy', 'iam', 'CreatePolicy CreatePolicyVersion DeletePolicyVersion GetPolicy', policies),
    need('deploy', 'iam', 'ListPolicyVersions TagPolicy', policies),
  ]
}
