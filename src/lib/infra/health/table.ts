import {ZaelError} from '../../core/errors.js'
import type {OperationOutput} from '../../dynamo/transport.js'
import {sendRepeatable, type Table} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'
import {checkCompatibility, recordedRelease} from '../../repository/table/version-compatibility.js'
import {isoSeconds} from '../../schema/read.js'
import {unlessRefused} from '../aws/errors.js'
import {instantMs, throughputOf} from '../stack/reader.js'
import type {TablePart, VersionPart} from './parts.js'

export async function readTablePart(table: Table): Promise<TablePart> {
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

type Described = OperationOutput<'DescribeTable'>['Table']

function replicasOf(description: Described): string[] {
  const own = description?.TableArn?.split(':')[3]
  const regions = (description?.Replicas ?? []).map(({RegionName}) => RegionName ?? '')
  return regions.filter(region => region !== '' && region !== own).sort()
}

export async function readVersionPart(table: Table, ourVersion: string): Promise<VersionPart> {
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
    return 'Upgrade it with `zael migrate run`; `zael migrate plan` shows the steps first.'
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
