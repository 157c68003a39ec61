import {CreateStackCommand} from '@aws-sdk/client-cloudformation'
import {PutMetricAlarmCommand} from '@aws-sdk/client-cloudwatch'
import {CreateRoleCommand} from '@aws-sdk/client-iam'
import {UpdateFunctionCodeCommand} from '@aws-sdk/client-lambda'
import {resolveConnection} from '../../src/lib/dynamo/connection.js'
import {loadTableDefinition} from '../../src/lib/dynamo/table-definition.js'
import type {ClosableTransport} from '../../src/lib/dynamo/transport.js'
import {createTransport} from '../../src/lib/dynamo/transports/create.js'
import {type Aws, openAws} from '../../src/lib/infra/aws/clients.js'
import {templateFilters} from '../../src/lib/infra/doctor/stack-checks.js'
import {lambdaPackage, loadStackTemplate} from '../../src/lib/infra/stack/artifacts.js'
import {MOTO_IDENTITY, type Moto} from './moto.js'

/** Clients with which a test prepares an account on moto. */
export interface MotoAccount extends AsyncDisposable {
  readonly aws: Aws
  readonly transport: ClosableTransport
}

/** Opens clients that use moto, independent of the environment. */
export function openMoto(
  {endpoint: endpointUrl}: Pick<Moto, 'endpoint'>,
  region: string = MOTO_IDENTITY.AWS_REGION,
): MotoAccount {
  const aws = openAws({endpointUrl, region}, {})
  const transport = createTransport({connection: resolveConnection({endpointUrl, region}, {}), clock: Date.now})
  return {
    aws,
    transport,
    async [Symbol.asyncDispose]() {
      aws[Symbol.dispose]()
      await transport.close()
    },
  }
}

/** A stack with one of each resource that `status` reads, without the policies and options of the real one. */
export interface SmallStack {
  readonly name: string
  readonly owner: 'zael' | 'zae-limiter' | 'other'
  /** Code of the aggregator. */
  readonly code?: 'packaged' | 'placeholder'
  readonly filters?: readonly string[]
}

/** Deploys a small stack. moto's CloudFormation supports neither expiry nor alarms, so these are created by hand. */
export async function deploySmallStack({aws, transport}: MotoAccount, stack: SmallStack): Promise<void> {
  const {name, owner, code = 'packaged'} = stack
  const role = await ensureRole(aws)
  const tags = owner === 'other' ? {team: 'else'} : {ManagedBy: owner, ...tagsOf(owner, name)}
  await (await aws.cloudFormation()).send(
    new CreateStackCommand({
      StackName: name,
      TemplateBody: JSON.stringify(await smallTemplate(stack, role)),
      Tags: Object.entries(tags).map(([Key, Value]) => ({Key, Value})),
    }),
  )
  if (code === 'packaged' && owner === 'zael') {
    const {zip} = await lambdaPackage()
    const update = new UpdateFunctionCodeCommand({FunctionName: `${name}-aggregator`, ZipFile: zip})
    await (await aws.lambda()).send(update)
  }
  for (const suffix of ['aggregator-errors', 'aggregator-dlq']) {
    await (await aws.cloudWatch()).send(
      new PutMetricAlarmCommand({
        AlarmName: `${name}-${suffix}`,
        Namespace: 'AWS/Lambda',
        MetricName: 'Errors',
        Statistic: 'Sum',
        Period: 300,
        EvaluationPeriods: 1,
        Threshold: 1,
        ComparisonOperator: 'GreaterThanThreshold',
        ActionsEnabled: true,
        AlarmActions: ['arn:aws:sns:eu-west-1:123456789012:ops'],
      }),
    )
  }
  const TimeToLiveSpecification = {Enabled: true, AttributeName: 'ttl'}
  await transport.send('UpdateTimeToLive', {TableName: name, TimeToLiveSpecification})
}

function tagsOf(owner: string, name: string): Record<string, string> {
  const tags = {name, type: 'limiter', version: '0.1.0', 'schema-version': '0.9.0'}
  return Object.fromEntries(Object.entries(tags).map(([key, value]) => [`${owner}:${key}`, value]))
}

async function smallTemplate({name, owner, filters}: SmallStack, role: string): Promise<object> {
  const {create} = await loadTableDefinition({tableName: name})
  const patterns = filters ?? templateFilters(await loadStackTemplate())
  const {StreamEnabled: _, ...StreamSpecification} = create.StreamSpecification ?? {}
  return {
    Resources: {
      Table: {Type: 'AWS::DynamoDB::Table', Properties: {...create, StreamSpecification}},
      AggregatorDLQ: {Type: 'AWS::SQS::Queue', Properties: {QueueName: `${name}-aggregator-dlq`}},
      AggregatorFunction: {
        Type: 'AWS::Lambda::Function',
        Properties: {
          FunctionName: `${name}-aggregator`,
          Runtime: owner === 'zae-limiter' ? 'python3.12' : 'nodejs24.x',
          MemorySize: 512,
          Handler: 'index.handler',
          Role: role,
          Code: {ZipFile: 'throw new Error("no code yet")'},
        },
      },
      AggregatorEventSourceMapping: {
        Type: 'AWS::Lambda::EventSourceMapping',
        Properties: {
          FunctionName: {Ref: 'AggregatorFunction'},
          EventSourceArn: {'Fn::GetAtt': ['Table', 'StreamArn']},
          StartingPosition: 'LATEST',
          FilterCriteria: {Filters: patterns.map(Pattern => ({Pattern}))},
          DestinationConfig: {OnFailure: {Destination: {'Fn::GetAtt': ['AggregatorDLQ', 'Arn']}}},
        },
      },
    },
    Outputs: {
      AggregatorFunctionName: {Value: {Ref: 'AggregatorFunction'}},
      LambdaErrorRateAlarmName: {Value: `${name}-aggregator-errors`},
      DLQAlarmName: {Value: `${name}-aggregator-dlq`},
      AggregatorDLQArn: {Value: {'Fn::GetAtt': ['AggregatorDLQ', 'Arn']}},
      AcquireOnlyPolicyArn: {Value: `arn:aws:iam::123456789012:policy/${name}-acq`},
    },
  }
}

async function ensureRole(aws: Aws): Promise<string> {
  const RoleName = 'small-stack-aggregator'
  const trust = {Effect: 'Allow', Principal: {Service: 'lambda.amazonaws.com'}, Action: 'sts:AssumeRole'}
  const AssumeRolePolicyDocument = JSON.stringify({Version: '2012-10-17', Statement: [trust]})
  const client = await aws.iam()
  await client.send(new CreateRoleCommand({RoleName, AssumeRolePolicyDocument})).catch(error => {
    if (error.name !== 'EntityAlreadyExistsException') throw error
  })
  return `arn:aws:iam::123456789012:role/${RoleName}`
}
