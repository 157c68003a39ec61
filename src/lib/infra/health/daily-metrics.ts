import {DescribeAlarmsCommand, type MetricDataQuery, paginateGetMetricData} from '@aws-sdk/client-cloudwatch'
import {groupBy} from '../../core/group-by.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'

/** CloudWatch keeps hourly data for 15 months. */
const PERIOD_SECONDS = 3600

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

export interface MeasuredDays {
  /** By date; days without metrics of the table are absent. */
  readonly days: ReadonlyMap<string, MeasuredDay>
  readonly metrics: number
}

interface MetricSubject {
  readonly tableName: string
  readonly indexes: readonly string[]
  readonly functionName: string
}

type Kind = 'writes' | 'reads' | 'indexWrites' | 'indexReads' | 'runs' | 'runMs' | 'usageWrites'

interface Asked {
  readonly kind: Kind
  readonly index: string
  readonly query: MetricDataQuery
}

export async function readDailyMetrics(
  aws: Aws,
  subject: MetricSubject,
  {sinceMs, untilMs}: {readonly sinceMs: number; readonly untilMs: number},
): Promise<MeasuredDays> {
  const asked = queriesFor(subject)
  const byId = new Map(asked.map(each => [each.query.Id, each]))
  const points: Hour[] = []
  await callAws(`read the metrics of "${subject.tableName}"`, async () => {
    const request = {
      MetricDataQueries: asked.map(({query}) => query),
      StartTime: new Date(sinceMs),
      EndTime: new Date(untilMs),
    }
    for await (const page of paginateGetMetricData({client: await aws.cloudWatch()}, request)) {
      for (const {Id, Timestamps = [], Values = []} of page.MetricDataResults ?? []) {
        const of = byId.get(Id)
        for (const [at, instant] of of ? Timestamps.entries() : []) {
          points.push({...(of as Asked), at: instant.toISOString(), value: Values[at] ?? 0})
        }
      }
    }
  })
  const byDate = [...groupBy(points, ({at}) => at.slice(0, 10))]
  const known = byDate.filter(([, ofDay]) => ofDay.some(({kind}) => kind === 'writes' || kind === 'reads'))
  return {days: new Map(known.map(([date, ofDay]) => [date, dayOf(ofDay)])), metrics: asked.length}
}

interface Hour extends Asked {
  readonly at: string
  readonly value: number
}

function dayOf(points: readonly Hour[]): MeasuredDay {
  const sum = (...kinds: Kind[]) => points.reduce((all, {kind, value}) => all + (kinds.includes(kind) ? value : 0), 0)
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

/** A table's metrics do not include those of its indexes. */
function queriesFor({tableName, indexes, functionName}: MetricSubject): Asked[] {
  const asked: Asked[] = []
  const add = (kind: Kind, namespace: string, name: string, dimensions: Record<string, string>, index = '') => {
    const Dimensions = Object.entries(dimensions).map(([Name, Value]) => ({Name, Value}))
    const Metric = {Namespace: namespace, MetricName: name, Dimensions}
    const query = {Id: `m${asked.length}`, MetricStat: {Metric, Period: PERIOD_SECONDS, Stat: 'Sum'}}
    asked.push({kind, index, query})
  }
  const table = {TableName: tableName}
  add('writes', 'AWS/DynamoDB', 'ConsumedWriteCapacityUnits', table)
  add('reads', 'AWS/DynamoDB', 'ConsumedReadCapacityUnits', table)
  for (const index of indexes) {
    const dimensions = {...table, GlobalSecondaryIndexName: index}
    add('indexWrites', 'AWS/DynamoDB', 'ConsumedWriteCapacityUnits', dimensions, index)
    add('indexReads', 'AWS/DynamoDB', 'ConsumedReadCapacityUnits', dimensions, index)
  }
  add('runs', 'AWS/Lambda', 'Invocations', {FunctionName: functionName})
  add('runMs', 'AWS/Lambda', 'Duration', {FunctionName: functionName})
  add('usageWrites', 'zael', 'Snapshots', {Stack: tableName})
  return asked
}

const ALARMS_PER_CALL = 100

/** CloudWatch charges for the metrics that alarms read. */
export async function countAlarmMetrics(aws: Aws, names: readonly string[]): Promise<number> {
  if (names.length === 0) return 0
  const {MetricAlarms = []} = await callAws('read the alarms', async () =>
    (await aws.cloudWatch()).send(new DescribeAlarmsCommand({AlarmNames: names.slice(0, ALARMS_PER_CALL)})),
  )
  const metricsOf = (queries: readonly MetricDataQuery[] = []) => queries.filter(({MetricStat}) => MetricStat).length
  return MetricAlarms.reduce((sum, {Metrics}) => sum + Math.max(1, metricsOf(Metrics)), 0)
}
