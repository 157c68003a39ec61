import {ZaelError} from '../../core/errors.js'
import {Denied, isRetryableWhenIdempotent, RequestFailed, ValidationFailed} from '../../dynamo/errors.js'
import {retrying} from '../../dynamo/retry.js'
import type {OperationOutput} from '../../dynamo/transport.js'
import type {Table} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'
import {checkCompatibility} from '../../repository/table/version-compatibility.js'
import {isoSeconds} from '../../schema/instant.js'
import type {TablePart, VersionPart} from './parts.js'

/** What the table says about itself; throws when there is none. */
export async function readTablePart(table: Table): Promise<TablePart> {
  const [{Table: told}, expiry, pointInTimeRecovery] = await Promise.all([
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
  const hasStream = told?.StreamSpecification?.StreamEnabled === true
  return {
    status: told?.TableStatus ?? '',
    items: told?.ItemCount ?? 0,
    bytes: told?.TableSizeBytes ?? 0,
    createdAt: told?.CreationDateTime === undefined ? null : isoOf(told.CreationDateTime),
    stream: hasStream ? (told.StreamSpecification?.StreamViewType ?? null) : null,
    streamArn: hasStream ? (told.LatestStreamArn ?? null) : null,
    expiry,
    pointInTimeRecovery,
    deletionProtection: told?.DeletionProtectionEnabled ?? false,
    indexes: (told?.GlobalSecondaryIndexes ?? [])
      .map(({IndexName: name = '', IndexStatus: status = '', Projection: projection}) => {
        return {name, status, projection: projection?.ProjectionType ?? ''}
      })
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  }
}

/** What the version record says, and whether this zael may work on the table. */
export async function readVersionPart(table: Table, ourVersion: string): Promise<VersionPart> {
  const {record, hasLegacyRecord} = await readVersion(table)
  const refusal = refusalOf(() => checkCompatibility(record, ourVersion, hasLegacyRecord))
  return {
    schemaVersion: record?.schemaVersion ?? null,
    lambdaVersion: record?.lambdaVersion ?? null,
    clientMinVersion: record?.clientMinVersion ?? null,
    updatedBy: record?.updatedBy ?? null,
    isMigrationDue: refusal?.code === 'schema.needs-migration',
    problem: refusal ? {message: refusal.message, fix: refusal.hint ?? null} : null,
  }
}

type Description = 'DescribeTable' | 'DescribeTimeToLive' | 'DescribeContinuousBackups'

function describe<O extends Description>(table: Table, operation: O): Promise<OperationOutput<O>> {
  const ask = () => table.transport.send<Description>(operation, {TableName: table.name})
  return retrying(ask, {...table.backoff, retryable: isRetryableWhenIdempotent}) as Promise<OperationOutput<O>>
}

/** `null` where a local engine does not know the question, or the caller may not ask it. */
async function unlessRefused(ask: () => Promise<boolean>): Promise<boolean | null> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof Denied || error instanceof ValidationFailed || error instanceof RequestFailed) return null
    throw error
  }
}

/** The SDK makes a date of it; on the wire of a local engine it is a number of seconds. */
function isoOf(instant: Date | number): string {
  return isoSeconds(typeof instant === 'number' ? instant * 1000 : instant.getTime())
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
