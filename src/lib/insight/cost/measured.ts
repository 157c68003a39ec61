import type {DeepReadonly} from '../../core/deep-readonly.js'
import {ZaelError} from '../../core/errors.js'
import {WINDOWS} from '../../core/window.js'
import type {Aws} from '../../infra/aws/clients.js'
import {unlessRefused} from '../../infra/aws/errors.js'
import {countAlarmMetrics, type MeasuredDay, readDailyMetrics} from '../../infra/health/metrics.js'
import {alarmNames} from '../../infra/health/parts.js'
import {DEFAULT_PARAMETERS} from '../../infra/stack/options.js'
import {readStack} from '../../infra/stack/reader.js'
import {sendRepeatable, type Table} from '../../repository/table/table.js'
import {indexes} from '../../schema/attributes.js'
import type {Day} from './daily-counts.js'

/** Per stack. Tests verify both counts. */
export const ALARM_METRICS = 18
export const FUNCTION_METRICS = 12

export interface UnreadSource {
  readonly source: 'stack' | 'metrics' | 'alarms'
  readonly error: ZaelError
}

export interface MeasuredStack {
  readonly region: string | null
  readonly settings: CostSettings
  readonly monitoring: Monitoring
  readonly days: ReadonlyMap<string, MeasuredDay>
  readonly metrics: number
  readonly unread: readonly UnreadSource[]
}

/** Assumes a stack's defaults for everything it cannot read. */
export async function readMeasured(
  aws: Aws | undefined,
  {table, facts, days}: {readonly table: string; readonly facts: PricedTable; readonly days: readonly Day[]},
): Promise<MeasuredStack> {
  if (!aws) {
    const settings = costSettings({})
    const none = {days: new Map(), metrics: 0, unread: []}
    return {region: null, settings, monitoring: expectedMonitoring(settings), ...none}
  }
  const unread: UnreadSource[] = []
  const tryRead = async <T>(source: UnreadSource['source'], read: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof ZaelError) || error.kind === 'interrupted') throw error
      unread.push({source, error})
      return undefined
    }
  }
  const stack = await tryRead('stack', () => readStack(aws, table))
  const settings = costSettings(stack?.parameters ?? {})
  // Without a stack, assume the default name, which is the same in both tools.
  const functionName = stack?.outputs.AggregatorFunctionName ?? `${table}-aggregator`
  const range = {sinceMs: days[0]?.startMs ?? 0, untilMs: days.at(-1)?.endMs ?? 0}
  const [measured, alarmMetrics] = await Promise.all([
    tryRead('metrics', () => readDailyMetrics(aws, {tableName: table, indexes: facts.indexes, functionName}, range)),
    stack && tryRead('alarms', () => countAlarmMetrics(aws, alarmNames(stack.outputs))),
  ])
  const expected = expectedMonitoring(settings)
  const monitoring = alarmMetrics === undefined ? expected : {...expected, alarmMetrics, isMeasured: true}
  const {days: found, metrics} = measured ?? {days: new Map(), metrics: 0}
  return {region: await aws.region(), settings, monitoring, days: found, metrics, unread}
}

export type Monitoring = Readonly<ReturnType<typeof expectedMonitoring>>

function expectedMonitoring({hasAlarms, hasDashboard, hasAggregator}: CostSettings) {
  return {
    alarmMetrics: hasAlarms ? ALARM_METRICS : 0,
    dashboards: hasDashboard ? 1 : 0,
    functionMetrics: hasAggregator ? FUNCTION_METRICS : 0,
    isMeasured: false,
  }
}

export type PricedTable = DeepReadonly<Awaited<ReturnType<typeof readPricedTable>>>

export async function readPricedTable(table: Table) {
  const [{Table: description = {}}, hasRecovery] = await Promise.all([
    sendRepeatable(table, 'DescribeTable', {TableName: table.name}),
    recoveryOf(table),
  ])
  const secondary = description.GlobalSecondaryIndexes ?? []
  const all = [description, ...secondary]
  const units = (name: 'ReadCapacityUnits' | 'WriteCapacityUnits') =>
    all.reduce((sum, {ProvisionedThroughput: each}) => sum + (each?.[name] ?? 0), 0)
  const capacity = {reads: units('ReadCapacityUnits'), writes: units('WriteCapacityUnits')}
  const isOnDemand = description.BillingModeSummary?.BillingMode === 'PAY_PER_REQUEST' || capacity.writes === 0
  const own = description.TableArn?.split(':')[3]
  return {
    /** DynamoDB updates both sizes about every six hours. */
    tableBytes: description.TableSizeBytes ?? 0,
    indexBytes: secondary.reduce((sum, {IndexSizeBytes = 0}) => sum + IndexSizeBytes, 0),
    hasRecovery,
    /** Paid units per second of the table and its indexes. `null`: on demand. */
    provisioned: isOnDemand ? null : capacity,
    isInfrequentAccess: description.TableClassSummary?.TableClass === 'STANDARD_INFREQUENT_ACCESS',
    indexes: secondary.map(({IndexName = ''}) => IndexName).sort(),
    /** Whether the resource index copies every write of a bucket or usage record. */
    copiesToIndex: secondary.some(
      each => each.IndexName === indexes.resource && each.Projection?.ProjectionType === 'ALL',
    ),
    hasStream: description.StreamSpecification?.StreamEnabled === true,
    replicas: (description.Replicas ?? [])
      .flatMap(({RegionName = ''}) => (RegionName === own ? [] : RegionName))
      .sort(),
  }
}

/** `null` if a local engine does not support the request or the caller lacks permission. */
async function recoveryOf(table: Table): Promise<boolean | null> {
  return unlessRefused(async () => {
    const request = {TableName: table.name}
    const {ContinuousBackupsDescription: backups} = await sendRepeatable(table, 'DescribeContinuousBackups', request)
    return backups?.PointInTimeRecoveryDescription?.PointInTimeRecoveryStatus === 'ENABLED'
  })
}

export type CostSettings = Readonly<ReturnType<typeof costSettings>>

/** Missing parameters, as on a local engine, take the template's defaults. */
export function costSettings(parameters: Readonly<Record<string, string>>) {
  const all: Readonly<Record<string, string>> = {...DEFAULT_PARAMETERS, ...parameters}
  const windows = all.SnapshotWindows?.split(',')
  return {
    hasAggregator: all.EnableAggregator === 'true',
    batchSeconds: Number(all.StreamBatchWindow),
    batchRecords: Number(all.StreamBatchSize),
    usageWindows: WINDOWS.filter(window => windows?.includes(window)),
    memoryMb: Number(all.LambdaMemorySize),
    architecture: all.LambdaArchitecture === 'x86_64' ? ('x86_64' as const) : ('arm64' as const),
    hasAlarms: all.EnableAlarms === 'true',
    hasDashboard: all.EnableDashboard === 'true',
  }
}
