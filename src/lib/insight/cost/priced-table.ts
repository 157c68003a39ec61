import {WINDOWS, type Window} from '../../core/window.js'
import {Denied, isRetryableWhenIdempotent, RequestFailed, ValidationFailed} from '../../dynamo/errors.js'
import {retrying} from '../../dynamo/retry.js'
import {parameterText} from '../../infra/stack/option.js'
import {STACK_OPTIONS} from '../../infra/stack/options.js'
import type {Table} from '../../repository/table/table.js'
import {indexes} from '../../schema/attributes.js'

export interface PricedTable {
  /** DynamoDB counts them about every six hours. */
  readonly tableBytes: number
  readonly indexBytes: number
  /** `null`: not known. */
  readonly hasRecovery: boolean | null
  /** Units per second of table and indexes that are paid for whether or not they are used; `null`: on demand. */
  readonly provisioned: {readonly reads: number; readonly writes: number} | null
  readonly isInfrequentAccess: boolean
  readonly indexes: readonly string[]
  /** Whether every write of a bucket or a usage record is repeated in the index of resources. */
  readonly copiesToIndex: boolean
  readonly hasStream: boolean
  /** Other regions, which have bills of their own. */
  readonly replicas: readonly string[]
}

/** Describes the table; throws when there is none. */
export async function readPricedTable(table: Table): Promise<PricedTable> {
  const [description, hasRecovery] = await Promise.all([describe(table), recoveryOf(table)])
  const secondary = description.GlobalSecondaryIndexes ?? []
  const all = [description, ...secondary]
  const units = (name: 'ReadCapacityUnits' | 'WriteCapacityUnits') =>
    all.reduce((sum, {ProvisionedThroughput: each}) => sum + (each?.[name] ?? 0), 0)
  const capacity = {reads: units('ReadCapacityUnits'), writes: units('WriteCapacityUnits')}
  const isOnDemand = description.BillingModeSummary?.BillingMode === 'PAY_PER_REQUEST' || capacity.writes === 0
  const own = description.TableArn?.split(':')[3]
  return {
    tableBytes: description.TableSizeBytes ?? 0,
    indexBytes: secondary.reduce((sum, {IndexSizeBytes = 0}) => sum + IndexSizeBytes, 0),
    hasRecovery,
    provisioned: isOnDemand ? null : capacity,
    isInfrequentAccess: description.TableClassSummary?.TableClass === 'STANDARD_INFREQUENT_ACCESS',
    indexes: secondary.map(({IndexName = ''}) => IndexName).sort(),
    copiesToIndex: secondary.some(
      each => each.IndexName === indexes.resource && each.Projection?.ProjectionType === 'ALL',
    ),
    hasStream: description.StreamSpecification?.StreamEnabled === true,
    replicas: (description.Replicas ?? [])
      .flatMap(({RegionName = ''}) => (RegionName === own ? [] : RegionName))
      .sort(),
  }
}

async function describe({transport, name: TableName, backoff}: Table) {
  const send = () => transport.send('DescribeTable', {TableName})
  const {Table: description = {}} = await retrying(send, {...backoff, retryable: isRetryableWhenIdempotent})
  return description
}

/** `null` when a local engine does not support the question, or the caller may not ask it. */
async function recoveryOf({transport, name: TableName, backoff}: Table): Promise<boolean | null> {
  const send = () => transport.send('DescribeContinuousBackups', {TableName})
  try {
    const {ContinuousBackupsDescription: backups} = await retrying(send, {
      ...backoff,
      retryable: isRetryableWhenIdempotent,
    })
    return backups?.PointInTimeRecoveryDescription?.PointInTimeRecoveryStatus === 'ENABLED'
  } catch (error) {
    if (error instanceof Denied || error instanceof ValidationFailed || error instanceof RequestFailed) return null
    throw error
  }
}

export interface CostSettings {
  readonly hasAggregator: boolean
  readonly batchSeconds: number
  readonly batchRecords: number
  readonly usageWindows: readonly Window[]
  readonly memoryMb: number
  readonly architecture: 'arm64' | 'x86_64'
  readonly hasAlarms: boolean
  readonly hasDashboard: boolean
}

/** The settings in the parameters of a stack; what it does not have, as on a local engine, is the template's default. */
export function costSettings(parameters: Readonly<Record<string, string>>): CostSettings {
  const text = (name: string): string => {
    const option = STACK_OPTIONS.find(each => each.name === name)
    if (!option) throw new Error(`A stack has no option ${name}`)
    return parameters[option.parameter] ?? parameterText(option, option.default)
  }
  const windows = text('usageWindows').split(',')
  return {
    hasAggregator: text('aggregator') === 'true',
    batchSeconds: Number(text('batchWindow')),
    batchRecords: Number(text('batchSize')),
    usageWindows: WINDOWS.filter(window => windows.includes(window)),
    memoryMb: Number(text('lambdaMemory')),
    architecture: text('lambdaArchitecture') === 'x86_64' ? 'x86_64' : 'arm64',
    hasAlarms: text('alarms') === 'true',
    hasDashboard: text('dashboard') === 'true',
  }
}
