import {indexes} from '../../schema/attributes.js'
import {cloudFormationGrants} from '../permissions/cloudformation-grants.js'
import {ownGrants, ownKey} from '../permissions/own-grants.js'
import type {PolicyGrant} from '../permissions/policy.js'
import type {PermissionFacts} from '../permissions/resource-handlers.js'
import type {StackPlace} from '../permissions/template-resources.js'
import {likelyBucketName} from '../stack/option-rules.js'

/** What a user wants to do with a stack. `role`: what the service role of CloudFormation has to do. */
export type Purpose = 'look' | 'operate' | 'deploy' | 'role'

export interface NeededActions extends PolicyGrant {
  readonly purpose: Purpose
}

export interface DeployedFacts {
  /** The parameters that differ from their defaults. */
  readonly parameters: Readonly<Record<string, string>>
  /** `null` before it exists: CloudFormation generates its name. */
  readonly archiveBucket: string | null
  /** ARN of the service role of CloudFormation; `null`: it acts with the permissions of its caller. */
  readonly role: string | null
}

export const NOT_DEPLOYED: DeployedFacts = {parameters: {}, archiveBucket: null, role: null}

/**
 * All actions that the commands call, and those that CloudFormation calls with the permissions of the user or of its
 * service role: to look at a stack, to operate its table, to deploy and delete it.
 */
export function neededActions(
  {template, handlers}: PermissionFacts,
  place: StackPlace,
  {parameters, archiveBucket, role}: DeployedFacts = NOT_DEPLOYED,
): NeededActions[] {
  const unnamed = {archiveBucket: archiveBucket ?? likelyBucketName(place.stack)}
  const own = ownGrants({...place, ...unnamed, cloudFormationRole: role, key: ownKey(parameters), templateBucket: null})
  const indirect = cloudFormationGrants(template, handlers, {place, parameters, unnamed}).flatMap(({grants}) => grants)
  const since = (purpose: Purpose, grants: readonly PolicyGrant[]) => grants.map(grant => ({purpose, ...grant}))
  return [...commandActions(place), ...since('deploy', own), ...since(role === null ? 'deploy' : 'role', indirect)]
}

/** The calls of all commands except those that deploy. */
function commandActions({partition, region, account, stack}: StackPlace): NeededActions[] {
  const arn = (service: string, rest: string) => `arn:${partition}:${service}:${region}:${account}:${rest}`
  const table = [arn('dynamodb', `table/${stack}`)]
  const tableAndIndex = [...table, arn('dynamodb', `table/${stack}/index/${indexes.parent}`)]
  const anything = ['*']
  const need = (purpose: Purpose, service: string, names: string, resources: readonly string[]): NeededActions => {
    return {purpose, actions: names.split(/\s+/).map(name => `${service}:${name}`), resources}
  }
  return [
    need('look', 'dynamodb', 'Query', tableAndIndex),
    need('look', 'dynamodb', 'GetItem BatchGetItem DescribeTable DescribeTimeToLive DescribeContinuousBackups', table),
    need('look', 'cloudformation', 'DescribeStacks', [arn('cloudformation', `stack/${stack}/*`)]),
    need('look', 'lambda', 'GetFunction', [arn('lambda', `function:${stack}-aggregator`)]),
    need('look', 'lambda', 'ListEventSourceMappings', anything),
    need('look', 'cloudwatch', 'GetMetricData DescribeAlarms', anything),
    need('look', 'sqs', 'GetQueueUrl GetQueueAttributes', [arn('sqs', `${stack}-aggregator-dlq`)]),
    need('operate', 'dynamodb', 'PutItem UpdateItem DeleteItem BatchWriteItem ConditionCheckItem', table),
    need('operate', 'dynamodb', 'GetShardIterator GetRecords', [arn('dynamodb', `table/${stack}/stream/*`)]),
    need('operate', 'sqs', 'ReceiveMessage ChangeMessageVisibility DeleteMessage', [
      arn('sqs', `${stack}-aggregator-dlq`),
    ]),
  ]
}
