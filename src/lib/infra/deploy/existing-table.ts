import {Denied, RequestFailed, TableMissing, ValidationFailed} from '../../dynamo/errors.js'
import type {OperationOutput} from '../../dynamo/transport.js'
import type {Table} from '../../repository/table/table.js'
import {type TableThroughput, throughputOf} from '../stack/table-throughput.js'

export interface ExistingTable {
  readonly status: string
  /** By DynamoDB's count, which is up to six hours old. */
  readonly items: number
  /** Names of the key attributes, in order. */
  readonly keys: readonly string[]
  readonly indexes: ReadonlyArray<{readonly name: string; readonly projection: string}>
  /** View type of the stream; `null`: there is no stream. */
  readonly stream: string | null
  /** `null`: could not be read, as on engines that do not have it. */
  readonly expiry: boolean | null
  /** Days that the table can be restored; 0: recovery is off, `null`: could not be read. */
  readonly recoveryDays: number | null
  readonly isProtected: boolean
  /** ARN of the KMS key, of the user or of AWS; `null`: AWS owns the key. */
  readonly key: string | null
  readonly isProvisioned: boolean
  readonly throughput: TableThroughput
}

/** What AWS sets. */
export const DEFAULT_RECOVERY_DAYS = 35

/** Reads a table; `undefined` when there is none. */
export async function readExistingTable({transport, name: TableName}: Table): Promise<ExistingTable | undefined> {
  const described = await transport.send('DescribeTable', {TableName}).catch(error => {
    if (error instanceof TableMissing) return undefined
    throw error
  })
  if (!described) return undefined
  const {Table: found = {}} = described
  const [expiry, recoveryDays] = await Promise.all([
    unlessRefused(() => transport.send('DescribeTimeToLive', {TableName})),
    unlessRefused(() => transport.send('DescribeContinuousBackups', {TableName})),
  ])
  const {BillingModeSummary: billing, ProvisionedThroughput: throughput} = found
  return {
    status: found.TableStatus ?? '',
    items: found.ItemCount ?? 0,
    keys: (found.KeySchema ?? []).map(({AttributeName = ''}) => AttributeName),
    indexes: (found.GlobalSecondaryIndexes ?? []).map(({IndexName: name = '', Projection: projection}) => {
      return {name, projection: projection?.ProjectionType ?? ''}
    }),
    stream: found.StreamSpecification?.StreamEnabled ? (found.StreamSpecification.StreamViewType ?? null) : null,
    expiry: expiry && /^ENABL/.test(expiry.TimeToLiveDescription?.TimeToLiveStatus ?? ''),
    recoveryDays: recoveryDays && daysOf(recoveryDays),
    isProtected: found.DeletionProtectionEnabled ?? false,
    key: found.SSEDescription?.KMSMasterKeyArn ?? null,
    isProvisioned:
      (billing?.BillingMode ?? 'PROVISIONED') === 'PROVISIONED' && (throughput?.ReadCapacityUnits ?? 0) > 0,
    throughput: throughputOf(found),
  }
}

function daysOf({ContinuousBackupsDescription: backups}: OperationOutput<'DescribeContinuousBackups'>): number {
  const {PointInTimeRecoveryStatus: status, RecoveryPeriodInDays: days} = backups?.PointInTimeRecoveryDescription ?? {}
  return status === 'ENABLED' ? (days ?? DEFAULT_RECOVERY_DAYS) : 0
}

async function unlessRefused<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof Denied || error instanceof ValidationFailed || error instanceof RequestFailed) return null
    throw error
  }
}
