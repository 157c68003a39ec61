import {
  DescribeAlarmsCommand,
  type GetMetricDataInput,
  type MetricAlarm,
  type MetricDataQuery,
  type MetricDataResult,
  paginateGetMetricData,
} from '@aws-sdk/client-cloudwatch'
import {groupBy} from '../../core/group-by.js'
import type {Aws} from '../aws/clients.js'
import {callAws, collected} from '../aws/errors.js'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000

const TRAFFIC_SECONDS = 300

/** CloudWatch keeps hourly data for 15 months. */
const DAILY_SECONDS = 3600

interface MetricSubject {
  readonly tableName: string
  readonly indexes: readonly string[]
  readonly functionName: string
}

type Dimensions = Readonly<Record<string, string>>

/** `metric` is the service's namespace and name. */
function metricQuery(Id: string, metric: `${string} ${string}`, dimensions: Dimensions, Period: number, Stat = 'Sum') {
  const [Namespace, MetricName] = metric.split(' ')
  const Dimensions = Object.entries(dimensions).map(([Name, Value]) => ({Name, Value}))
  return {Id, MetricStat: {Metric: {Namespace, MetricName, Dimensions}, Period, Stat}} satisfies MetricDataQuery
}

function readMetrics(aws: Aws, {tableName}: MetricSubject, request: GetMetricDataInput): Promise<MetricDataResult[]> {
  return callAws(`read the metrics of "${tableName}"`, async () => {
    const pages = paginateGetMetricData({client: await aws.cloudWatch()}, request)
    return collected(pages, page => page.MetricDataResults)
  })
}

/** The hour before `nowMs`, including the current minute. */
export async function readTraffic(aws: Aws, subject: MetricSubject, nowMs: number) {
  const sums = new Map<string, number>()
  let iteratorAgeMs: number | null = null
  const results = await readMetrics(aws, subject, {
    MetricDataQueries: trafficQueries(subject),
    StartTime: new Date(nowMs - HOUR_MS),
    // Exclusive.
    EndTime: new Date((Math.floor(nowMs / MINUTE_MS) + 1) * MINUTE_MS),
    ScanBy: 'TimestampDescending',
  })
  for (const {Id: id = '', Values: values = []} of results) {
    const metric = id.replace(/\d+$/, '')
    if (metric === 'iteratorAge') iteratorAgeMs ??= values[0] ?? null
    else for (const value of values) sums.set(metric, (sums.get(metric) ?? 0) + value)
  }
  return {
    /** Includes the table's indexes. */
    throttledReads: sums.get('reads') ?? 0,
    throttledWrites: sums.get('writes') ?? 0,
    aggregatorErrors: sums.get('errors') ?? 0,
    /** Stream records that no retry could have counted. */
    uncountedRecords: sums.get('uncounted') ?? 0,
    refusedRequests: sums.get('refused') ?? 0,
    /** Age of the last record when the function received it; `null`: no data. */
    iteratorAgeMs,
  }
}

/** A table's metrics do not include those of its indexes. */
function trafficQueries({tableName, indexes, functionName}: MetricSubject): MetricDataQuery[] {
  const queries: MetricDataQuery[] = []
  const add = (name: string, metric: `${string} ${string}`, dimensions: Dimensions, statistic?: 'Maximum') =>
    queries.push(metricQuery(`${name}${queries.length}`, metric, dimensions, TRAFFIC_SECONDS, statistic))
  const table = {TableName: tableName}
  for (const dimensions of [table, ...indexes.map(index => ({...table, GlobalSecondaryIndexName: index}))]) {
    add('reads', 'AWS/DynamoDB ReadThrottleEvents', dimensions)
    add('writes', 'AWS/DynamoDB WriteThrottleEvents', dimensions)
  }
  add('errors', 'AWS/Lambda Errors', {FunctionName: functionName})
  add('uncounted', 'zael UncountedRecords', {Stack: tableName})
  add('refused', 'zael RefusedRequests', {Stack: tableName})
  add('iteratorAge', 'AWS/Lambda IteratorAge', {FunctionName: functionName}, 'Maximum')
  return queries
}

/** One day (UTC), or a part of it. */
export interface MeasuredDay {
  /** Capacity units of the table, without its indexes. */
  readonly writes: number
  readonly reads: number
  readonly indexWrites: Readonly<Record<string, number>>
  readonly indexReads: number
  readonly runs: number
  readonly runMs: number
  /** Usage records written; `null`: the function does not report it, as another tool's. */
  readonly usageWrites: number | null
}

interface Asked {
  readonly kind: keyof MeasuredDay
  readonly index: string
  readonly query: MetricDataQuery
}

interface Hour extends Asked {
  readonly at: string
  readonly value: number
}

/** Days by date, without those that have no metrics of the table. */
export async function readDailyMetrics(
  aws: Aws,
  subject: MetricSubject,
  {sinceMs, untilMs}: {readonly sinceMs: number; readonly untilMs: number},
) {
  const asked = dailyQueries(subject)
  const byId = new Map(asked.map(each => [each.query.Id, each]))
  const results = await readMetrics(aws, subject, {
    MetricDataQueries: asked.map(({query}) => query),
    StartTime: new Date(sinceMs),
    EndTime: new Date(untilMs),
  })
  const points = results.flatMap(({Id, Timestamps = [], Values = []}): Hour[] => {
    const of = byId.get(Id)
    return of ? Timestamps.map((at, n) => ({...of, at: at.toISOString(), value: Values[n] ?? 0})) : []
  })
  const byDate = [...groupBy(points, ({at}) => at.slice(0, 10))]
  const known = byDate.filter(([, ofDay]) => ofDay.some(({kind}) => kind === 'writes' || kind === 'reads'))
  return {days: new Map(known.map(([date, ofDay]) => [date, dayOf(ofDay)])), metrics: asked.length}
}

function dayOf(points: readonly Hour[]): MeasuredDay {
  const sum = (wanted: keyof MeasuredDay) =>
    points.reduce((all, {kind, value}) => all + (kind === wanted ? value : 0), 0)
  const indexWrites: Record<string, number> = {}
  for (const {kind, index, value} of points)
    if (kind === 'indexWrites') indexWrites[index] = (indexWrites[index] ?? 0) + value
  return {
    writes: sum('writes'),
    reads: sum('reads'),
    indexWrites,
    indexReads: sum('indexReads'),
    runs: sum('runs'),
    runMs: sum('runMs'),
    usageWrites: points.some(({kind}) => kind === 'usageWrites') ? sum('usageWrites') : null,
  }
}

function dailyQueries({tableName, indexes, functionName}: MetricSubject): Asked[] {
  const asked: Asked[] = []
  const add = (kind: keyof MeasuredDay, metric: `${string} ${string}`, dimensions: Dimensions, index = '') =>
    asked.push({kind, index, query: metricQuery(`m${asked.length}`, metric, dimensions, DAILY_SECONDS)})
  const table = {TableName: tableName}
  add('writes', 'AWS/DynamoDB ConsumedWriteCapacityUnits', table)
  add('reads', 'AWS/DynamoDB ConsumedReadCapacityUnits', table)
  for (const index of indexes) {
    const dimensions = {...table, GlobalSecondaryIndexName: index}
    add('indexWrites', 'AWS/DynamoDB ConsumedWriteCapacityUnits', dimensions, index)
    add('indexReads', 'AWS/DynamoDB ConsumedReadCapacityUnits', dimensions, index)
  }
  add('runs', 'AWS/Lambda Invocations', {FunctionName: functionName})
  add('runMs', 'AWS/Lambda Duration', {FunctionName: functionName})
  add('usageWrites', 'zael Snapshots', {Stack: tableName})
  return asked
}

const ALARMS_PER_CALL = 100

async function describeAlarms(aws: Aws, names: readonly string[]): Promise<readonly MetricAlarm[]> {
  if (names.length === 0) return []
  const {MetricAlarms = []} = await callAws('read the alarms', async () =>
    (await aws.cloudWatch()).send(new DescribeAlarmsCommand({AlarmNames: names.slice(0, ALARMS_PER_CALL)})),
  )
  return MetricAlarms
}

export async function readAlarms(aws: Aws, names: readonly string[]) {
  const alarms = (await describeAlarms(aws, names)).map(alarm => ({
    name: alarm.AlarmName ?? '',
    state: alarm.StateValue ?? '',
    reason: alarm.StateReason || null,
    notifies: alarm.ActionsEnabled === true && (alarm.AlarmActions ?? []).length > 0,
  }))
  return alarms.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** CloudWatch charges for the metrics that alarms read. */
export async function countAlarmMetrics(aws: Aws, names: readonly string[]): Promise<number> {
  const metricsOf = (queries: readonly MetricDataQuery[] = []) => queries.filter(({MetricStat}) => MetricStat).length
  return (await describeAlarms(aws, names)).reduce((sum, {Metrics}) => sum + Math.max(1, metricsOf(Metrics)), 0)
}
