import {
  type EventSourceMappingConfiguration,
  GetFunctionCommand,
  paginateListEventSourceMappings,
} from '@aws-sdk/client-lambda'
import {GetQueueAttributesCommand, GetQueueUrlCommand} from '@aws-sdk/client-sqs'
import {ZaelError} from '../../core/errors.js'
import {TableMissing, ValidationFailed} from '../../dynamo/errors.js'
import type {OperationOutput} from '../../dynamo/transport.js'
import {sendRepeatable, type Table} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'
import {checkCompatibility, recordedRelease} from '../../repository/table/version-compatibility.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import type {Aws} from '../aws/clients.js'
import {callAws, callUnlessMissing, unlessRefused} from '../aws/errors.js'
import type {WaitOptions} from '../aws/send-change.js'
import {lambdaPackage} from '../stack/artifacts.js'
import {detectDrift} from '../stack/drift.js'
import {instantMs, notOurTable, readStack, tagOf, throughputOf} from '../stack/reader.js'
import {findingsOf, stackPart} from './findings.js'
import {readAlarms, readTraffic} from './metrics.js'
import {
  type AggregatorPart,
  alarmNames,
  assessHealth,
  type DeadLettersPart,
  type HealthFinding,
  type HealthParts,
  type MappingPart,
  PARTS,
  type PartName,
  type TablePart,
  type UnknownPart,
  type VersionPart,
} from './parts.js'

export interface StackHealth extends HealthParts {
  readonly stack: string
  readonly region: string | null
  readonly unknown: readonly UnknownPart[]
  readonly findings: readonly HealthFinding[]
  readonly isHealthy: boolean | null
}

interface HealthSources {
  readonly table: Table
  /** `undefined`: a local engine, which has only the table. */
  readonly aws: Aws | undefined
  readonly ourVersion: string
  readonly drift?: WaitOptions | undefined
}

const NO_SERVICES = {
  cloudFormation: null,
  aggregator: null,
  mapping: null,
  traffic: null,
  deadLetters: null,
  alarms: null,
}

/** Reports unreadable parts as unknown. Throws when the stack does not exist, or neither it nor its table is readable. */
export async function gatherHealth({table, aws, ourVersion, drift: wait}: HealthSources): Promise<StackHealth> {
  const unknown = new Map<PartName, ZaelError>()
  const tryRead = async <T>(part: PartName, read: () => Promise<T>): Promise<T | null> => {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof ZaelError)) throw error
      unknown.set(part, error)
      return null
    }
  }

  const markUnknownLike = (part: PartName, source: PartName) => {
    const error = unknown.get(source)
    if (error) unknown.set(part, error)
  }

  const [deployed, tablePart] = await Promise.all([
    aws && tryRead('cloudFormation', () => readStack(aws, table.name)),
    tryRead('table', () => readTablePart(table)),
  ])
  const tableError = unknown.get('table')
  if (tableError instanceof TableMissing) {
    // A limiter's stack without its table is broken; any other stack of that name is not a limiter.
    if (!deployed || deployed.owner === 'other') throw tableError
    unknown.delete('table')
  } else if (tableError && (!deployed || !aws)) throw tableError

  const [services, versions, drift] = await Promise.all([
    aws ? readServices(aws) : NO_SERVICES,
    tablePart && tryRead('versions', () => readVersionPart(table, ourVersion)),
    aws && wait && deployed ? tryRead('drift', () => detectDrift(aws, deployed.name, wait)) : null,
  ])
  // The table has another key schema, so it contains no rate limiter records.
  if (unknown.get('versions') instanceof ValidationFailed) throw notOurTable(table.name)
  const parts: HealthParts = {...services, table: tablePart, versions, drift}
  if (wait && !deployed) markUnknownLike('drift', 'cloudFormation')
  const findings = findingsOf(table.name, parts, part => !unknown.has(part))
  const unread = PARTS.flatMap(part => {
    const error = unknown.get(part)
    return error ? [{part, code: error.code, reason: error.message, fix: error.hint ?? null}] : []
  })
  const region = aws ? await aws.region() : null
  return {stack: table.name, region, ...parts, unknown: unread, findings, isHealthy: assessHealth(findings, unread)}

  async function readServices(from: Aws): Promise<Omit<HealthParts, 'table' | 'versions' | 'drift'>> {
    // Both tools use this name by default.
    const functionName = deployed?.outputs.AggregatorFunctionName ?? `${table.name}-aggregator`
    const streamArn = tablePart?.streamArn
    const indexes = tablePart?.indexes.map(({name}) => name) ?? []
    const subject = {tableName: table.name, indexes, functionName}
    const [aggregator, mapping, traffic, alarms] = await Promise.all([
      tryRead('aggregator', () => readAggregator(from, functionName)),
      streamArn ? tryRead('mapping', () => readMapping(from, functionName, streamArn)) : null,
      tryRead('traffic', () => readTraffic(from, subject, table.clock())),
      deployed ? tryRead('alarms', () => readAlarms(from, alarmNames(deployed.outputs))) : null,
    ])
    const queueArn = mapping?.failureDestination ?? deployed?.outputs.AggregatorDLQArn
    const deadLetters =
      queueArn === undefined ? null : await tryRead('deadLetters', () => readDeadLetters(from, queueArn))
    // A part that is found through an unknown part is also unknown.
    markUnknownLike('alarms', 'cloudFormation')
    markUnknownLike('mapping', 'table')
    if (queueArn === undefined) markUnknownLike('deadLetters', 'mapping')
    return {cloudFormation: deployed ? stackPart(deployed) : null, aggregator, mapping, traffic, deadLetters, alarms}
  }
}

async function readAggregator(aws: Aws, name: string): Promise<AggregatorPart | null> {
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
    isOurCode: isPython ? null : configuration.CodeSha256 === sha256Base64,
    version: tagOf(tags, 'lambda-version') ?? tagOf(tags, 'version'),
  }
}

async function readMapping(aws: Aws, functionName: string, streamArn: string): Promise<MappingPart | null> {
  const found = await callAws(`read the event source mappings of "${functionName}"`, async () => {
    const client = await aws.lambda()
    const mappings: EventSourceMappingConfiguration[] = []
    for await (const page of paginateListEventSourceMappings({client}, {EventSourceArn: streamArn})) {
      mappings.push(...(page.EventSourceMappings ?? []))
    }
    return mappings.find(({FunctionArn: arn}) => arn?.split(':')[6] === functionName)
  })
  if (!found) return null
  return {
    id: found.UUID ?? '',
    state: found.State ?? '',
    stateReason: found.StateTransitionReason ?? null,
    lastResult: found.LastProcessingResult ?? null,
    filters: (found.FilterCriteria?.Filters ?? []).flatMap(({Pattern}) => Pattern ?? []),
    failureDestination: found.DestinationConfig?.OnFailure?.Destination ?? null,
  }
}

async function readTablePart(table: Table): Promise<TablePart> {
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
    items: description?.ItemCount ?? 0,
    bytes: description?.TableSizeBytes ?? 0,
    createdAt: description?.CreationDateTime === undefined ? null : isoSeconds(instantMs(description.CreationDateTime)),
    stream: hasStream ? (description.StreamSpecification?.StreamViewType ?? null) : null,
    streamArn: hasStream ? (description.LatestStreamArn ?? null) : null,
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

async function readVersionPart(table: Table, ourVersion: string): Promise<VersionPart> {
  const {record, hasLegacyRecord} = await readVersion(table)
  const refusal = refusalOf(() => checkCompatibility(record, ourVersion, hasLegacyRecord))
  return {
    schemaVersion: record?.schemaVersion ?? null,
    lambdaVersion: record?.lambdaVersion ?? null,
    clientMinVersion: record?.clientMinVersion ?? null,
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

function refusalOf(check: () => void): ZaelError | undefined {
  try {
    check()
    return undefined
  } catch (error) {
    if (error instanceof ZaelError) return error
    throw error
  }
}

async function readDeadLetters(aws: Aws, queueArn: string): Promise<DeadLettersPart> {
  const [account, name = ''] = queueArn.split(':').slice(-2)
  return callAws(`read queue "${name}"`, async () => {
    const client = await aws.sqs()
    const owner = account ? {QueueOwnerAWSAccountId: account} : {}
    const {QueueUrl} = await client.send(new GetQueueUrlCommand({QueueName: name, ...owner}))
    const {Attributes = {}} = await client.send(
      new GetQueueAttributesCommand({
        QueueUrl,
        AttributeNames: ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'],
      }),
    )
    const {ApproximateNumberOfMessages: visible = 0, ApproximateNumberOfMessagesNotVisible: inFlight = 0} = Attributes
    return {queue: name, messages: Number(visible) + Number(inFlight)}
  })
}
