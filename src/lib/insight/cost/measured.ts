import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../../infra/aws/clients.js'
import {countAlarmMetrics, type MeasuredDay, readDailyMetrics} from '../../infra/health/daily-metrics.js'
import {alarmNames} from '../../infra/health/parts.js'
import {readStack} from '../../infra/stack/reader.js'
import type {Day} from './daily-counts.js'
import {ALARM_METRICS, FUNCTION_METRICS, type Monitoring} from './parts.js'
import {type CostSettings, costSettings, type PricedTable} from './priced-table.js'

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

interface MeasuredSubject {
  readonly table: string
  readonly facts: PricedTable
  readonly days: readonly Day[]
}

/** Assumes a stack's defaults for everything it cannot read. */
export async function readMeasured(
  aws: Aws | undefined,
  {table, facts, days}: MeasuredSubject,
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

function expectedMonitoring({hasAlarms, hasDashboard, hasAggregator}: CostSettings): Monitoring {
  return {
    alarmMetrics: hasAlarms ? ALARM_METRICS : 0,
    dashboards: hasDashboard ? 1 : 0,
    functionMetrics: hasAggregator ? FUNCTION_METRICS : 0,
    isMeasured: false,
  }
}
