import {type PolicyGrant, passedTo} from './policy.js'
import type {StackPlace} from './template-resources.js'

export interface OwnCalls extends StackPlace {
  readonly archiveBucket: string
  /** ARN of CloudFormation's service role; `null`: it uses its caller's permissions. */
  readonly cloudFormationRole: string | null
  readonly key: string | null
  /** `null`: the template is sent in the request. */
  readonly templateBucket: string | null
}

/** The calls of `deploy` and `delete` themselves. A test compares them with the observed calls. */
export function ownGrants(own: OwnCalls): PolicyGrant[] {
  const {partition, region, account, stack, archiveBucket, cloudFormationRole, key, templateBucket} = own
  const arn = (service: string, rest: string) => `arn:${partition}:${service}:${region}:${account}:${rest}`
  const bucket = `arn:${partition}:s3:::${archiveBucket}`
  return [
    on(
      'cloudformation',
      `CreateChangeSet DeleteChangeSet DeleteStack DescribeChangeSet DescribeEvents DescribeStackEvents
      DescribeStackResourceDrifts DescribeStacks DetectStackDrift DetectStackResourceDrift ExecuteChangeSet GetTemplate
      ListChangeSets ListStackResources TagResource UntagResource UpdateTerminationProtection`,
      arn('cloudformation', `stack/${stack}/*`),
    ),
    // CloudFormation calls BatchDescribeTypeConfigurations to read existing resources.
    on('cloudformation', 'BatchDescribeTypeConfigurations DescribeStackDriftDetectionStatus ListStacks', '*'),
    // For the version record, the namespace "default", the roll-up, and the checks before a table is adopted.
    on(
      'dynamodb',
      `BatchGetItem DeleteTable DescribeContinuousBackups DescribeTable DescribeTimeToLive GetItem PutItem Scan
      UpdateItem`,
      arn('dynamodb', `table/${stack}`),
    ),
    on('lambda', 'GetFunctionConfiguration UpdateFunctionCode', arn('lambda', `function:${stack}-aggregator`)),
    on('lambda', 'GetEventSourceMapping', arn('lambda', 'event-source-mapping:*')),
    // delete --empty-archive
    on('s3', 'DeleteBucket ListBucket ListBucketVersions', bucket),
    on('s3', 'DeleteObject DeleteObjectVersion', `${bucket}/*`),
    // DynamoDB uses the key with the permissions of its caller.
    ...(key === null
      ? []
      : [
          {
            ...on('kms', 'Decrypt DescribeKey Encrypt GenerateDataKey* ReEncrypt*', key),
            conditions: {StringLike: {'kms:ViaService': 'dynamodb.*'}},
          },
        ]),
    ...(templateBucket === null
      ? []
      : [on('s3', 'GetObject PutObject', `arn:${partition}:s3:::${templateBucket}/zael/${stack}/*`)]),
    ...(cloudFormationRole === null
      ? []
      : [{...on('iam', 'PassRole', cloudFormationRole), conditions: passedTo('cloudformation')}]),
  ]
}

/** `null`: AWS owns or manages the key. */
export function ownKey({TableEncryptionKey: key}: Readonly<Record<string, string>>): string | null {
  return key?.startsWith('arn:') ? key : null
}

function on(service: string, names: string, resource: string): PolicyGrant {
  return {actions: names.split(/\s+/).map(name => `${service}:${name}`), resources: [resource]}
}
