import {GetFunctionCommand, paginateListEventSourceMappings} from '@aws-sdk/client-lambda'
import {GetQueueUrlCommand} from '@aws-sdk/client-sqs'
import type {ZaelError} from '../../core/errors.js'
import type {OperationOutput} from '../../dynamo/transport.js'
import {sendRepeatable, type Table} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'
import {incompatibility, recordedRelease} from '../../repository/table/version-compatibility.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {type Aws, countMessages} from '../aws/clients.js'
import {callAws, callUnlessMissing, collected, unlessRefused} from '../aws/errors.js'
import {lambdaPackage} from '../stack/artifacts.js'
import {DEFAULT_PARAMETERS, OTHER_PARAMETERS} from '../stack/options.js'
import {type DeployedStack, deploymentOf, instantMs, tagOf, throughputOf} from '../stack/reader.js'

export function stackPart(stack: DeployedStack) {
  const {statusReason, role, owner, outputs, isTerminationProtected: terminationProtection} = stack
  const parameters = parameterDrift(stack.parameters)
  return {...deploymentOf(stack), statusReason, role, terminationProtection, owner, parameters, outputs}
}

export function parameterDrift(parameters: Readonly<Record<string, string>>) {
  const defaults = new Map([
    ...Object.entries(DEFAULT_PARAMETERS),
    ...OTHER_PARAMETERS.map(parameter => [parameter, ''] as const),
  ])
  const chosen = Object.entries(parameters).flatMap(([name, value]) => {
    const byDefault = defaults.get(name)
    return byDefault === undefined || byDefault === value ? [] : [{name, value, default: byDefault || null}]
  })
  return {
    /** Values that differ from the template's default. */
    chosen,
    /** In the template, but not in the stack. */
    missing: [...defaults.keys()].filter(name => !(name in parameters)),
    /** In the stack, but not in the template. */
    unknown: Object.keys(parameters).filter(name => !defaults.has(name)),
  }
}

export async function readAggregator(aws: Aws, name: string) {
  const found = await callUnlessMissing(`read function "${name}"`, async () => {
    return (await aws.lambda()).send(new GetFunctionCommand({FunctionName: name}))
  })
  if (!found) return null
  const {Configuration: configuration = {}, Tags: tags = {}} = found
  const {sha256Base64} = await lambdaPackage()
  const isPython = configuration.Runtime?.startsWith('python') ?? false
  return {
    name,
    state: configuration.State ?? 'Active',
    runtime: configuration.Runtime ?? null,
    memoryMb: configuration.MemorySize ?? null,
    codeBytes: configuration.CodeSize ?? 0,
    codeSha256: configuration.CodeSha256 ?? null,
    /** `null`: a function of the Python tool. */
    isOurCode: isPython ? null : configuration.CodeSha256 === sha256Base64,
    version: tagOf(tags, 'lambda-version') ?? tagOf(tags, 'version'),
  }
}

/** The event source mapping; its state is independent of the stream's (C-15). */
export async function readMapping(aws: Aws, functionName: string, streamArn: string) {
  const found = await callAws(`read the event source mappings of "${functionName}"`, async () => {
    const pages = paginateListEventSourceMappings({client: await aws.lambda()}, {EventSourceArn: streamArn})
    const mappings = await collected(pages, page => page.EventSourceMappings)
    return mappings.find(({FunctionArn: arn}) => arn?.split(':')[6] === functionName)
  })
  if (!found) return null
  return {
    id: found.UUID ?? '',
    state: found.State ?? '',
    stateReason: found.StateTransitionReason ?? null,
    lastResult: found.LastProcessingResult ?? null,
    filters: (found.FilterCriteria?.Filters ?? []).flatMap(({Pattern}) => Pattern ?? []),
    /** ARN; receives batches that failed permanently. */
    failureDestination: found.DestinationConfig?.OnFailure?.Destination ?? null,
  }
}

export async function readTablePart(table: Table) {
  const [{Table: description}, expiry, pointInTimeRecovery] = await Promise.all([
    describe(table, 'DescribeTable'),
    unlessRefused(async () => {
      const {TimeToLiveDescription: ttl} = await describe(table, 'DescribeTimeToLive')
      return ttl?.TimeToLiveStatus === 'ENABLED' || ttl?.TimeToLiveStatus === 'ENABLING'
    }),
    unlessRefused(async () => {
      const {ContinuousBackupsDescription: backups} = await describe(table, 'DescribeContinuousBackups')
      return backups?.PointInTimeRecoveryDescription?.PointInTimeRecoveryStatus === 'ENABLED'
    }),
  ])
  const hasStream = description?.StreamSpecification?.StreamEnabled === true
  return {
    status: description?.TableStatus ?? '',
    /** DynamoDB updates `items` and `bytes` about every six hours. */
    items: description?.ItemCount ?? 0,
    bytes: description?.TableSizeBytes ?? 0,
    createdAt: description?.CreationDateTime === undefined ? null : isoSeconds(instantMs(description.CreationDateTime)),
    /** View type; `null`: no stream. */
    stream: hasStream ? ((description.StreamSpecification?.StreamViewType as string | undefined) ?? null) : null,
    streamArn: hasStream ? (description.LatestStreamArn ?? null) : null,
    /** `expiry` and `pointInTimeRecovery`: `null` when they could not be read. */
    expiry,
    pointInTimeRecovery,
    deletionProtection: description?.DeletionProtectionEnabled ?? false,
    throughput: throughputOf(description),
    replicas: replicasOf(description),
    indexes: (description?.GlobalSecondaryIndexes ?? [])
      .map(({IndexName: name = '', IndexStatus: status = '', Projection: projection}) => {
        return {name, status, projection: projection?.ProjectionType ?? ''}
      })
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  }
}

function replicasOf(description: OperationOutput<'DescribeTable'>['Table']): string[] {
  const own = description?.TableArn?.split(':')[3]
  const regions = (description?.Replicas ?? []).map(({RegionName}) => RegionName ?? '')
  return regions.filter(region => region !== '' && region !== own).sort()
}

export async function readVersionPart(table: Table, ourVersion: string) {
  const {record, hasLegacyRecord} = await readVersion(table)
  const refusal = incompatibility(record, ourVersion, hasLegacyRecord)
  return {
    schemaVersion: record?.schemaVersion ?? null,
    lambdaVersion: record?.lambdaVersion ?? null,
    clientMinVersion: record?.clientMinVersion ?? null,
    /** The table's records require at least this release of zae-limiter. */
    release: record ? recordedRelease(record) : null,
    updatedBy: record?.updatedBy ?? null,
    isMigrationDue: refusal?.code === 'schema.needs-migration',
    problem: refusal ? {message: refusal.message, fix: fixOf(refusal)} : null,
  }
}

function fixOf({code, hint}: ZaelError): string | null {
  if (code === 'schema.needs-migration')
    return 'Migrate it with `zael migrate run`. To see the steps first: zael migrate plan'
  return hint ?? null
}

type Description = 'DescribeTable' | 'DescribeTimeToLive' | 'DescribeContinuousBackups'

function describe<O extends Description>(table: Table, operation: O): Promise<OperationOutput<O>> {
  const request = {TableName: table.name}
  return sendRepeatable<Description>(table, operation, request) as Promise<OperationOutput<O>>
}

export async function readDeadLetters(aws: Aws, queueArn: string) {
  const [account, name = ''] = queueArn.split(':').slice(-2)
  return callAws(`read queue "${name}"`, async () => {
    const client = await aws.sqs()
    const owner = account ? {QueueOwnerAWSAccountId: account} : {}
    const {QueueUrl} = await client.send(new GetQueueUrlCommand({QueueName: name, ...owner}))
    return {queue: name, messages: await countMessages(client, QueueUrl ?? '')}
  })
}
