import {type PolicyGrant, passedTo} from './policy.js'
import type {StackPlace} from './template-resources.js'

export interface OwnCalls extends StackPlace {
  /** Name of the archive's bucket, or a pattern for it. */
  readonly archiveBucket: string
  /** ARN of the service role that CloudFormation acts with; `null`: it acts with the permissions of its caller. */
  readonly cloudFormationRole: string | null
  /** ARN of the user's own key of the table; `null`: the key is one of AWS. */
  readonly key: string | null
  /** Bucket for templates; `null`: they are sent in the request. */
  readonly templateBucket: string | null
}

/** The calls of `deploy` and `delete` themselves. A test compares them with the calls that the commands were seen to make. */
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
    // BatchDescribeTypeConfigurations is called by CloudFormation, to read what exists.
    on('cloudformation', 'BatchDescribeTypeConfigurations DescribeStackDriftDetectionStatus ListStacks', '*'),
    // The table's version record and the namespace "default"; whether an existing table is empty, a limiter's, and as the
    // template has it.
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

/** The ARN of the user's own key; `null` where the key is one of AWS. */
export function ownKey({TableEncryptionKey: key}: Readonly<Record<string, string>>): string | null {
  return key?.startsWith('arn:') ? key : null
}

function on(service: string, names: string, resource: string): PolicyGrant {
  return {actions: names.split(/\s+/).map(name => `${service}:${name}`), resources: [resource]}
}
