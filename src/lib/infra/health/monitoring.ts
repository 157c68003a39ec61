import {DescribeAlarmsCommand, type MetricDataQuery, paginateGetMetricData} from '@aws-sdk/client-cloudwatch'
import {GetQueueAttributesCommand, GetQueueUrlCommand} from '@aws-sdk/client-sqs'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import type {AlarmPart, DeadLettersPart, TrafficPart} from './parts.js'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
const PERIOD_SECONDS = 300

const ALARMS_PER_CALL = 100

interface TrafficSubject {
  readonly tableName: string
  readonly indexes: readonly string[]
  readonly functionName: string
}

/** The hour before `nowMs`, including the current minute. */
export async function readTraffic(aws: Aws, subject: TrafficSubject, nowMs: number): Promise<TrafficPart> {
  const queries = trafficQueries(subject)
  const sums = new Map<string, number>()
  let iteratorAgeMs: number | null = null
  await callAws(`read the metrics of "${subject.tableName}"`, async () => {
    const request = {
      MetricDataQueries: queries,
      StartTime: new Date(nowMs - HOUR_MS),
      // Exclusive.
      EndTime: new Date((Math.floor(nowMs / MINUTE_MS) + 1) * MINUTE_MS),
      ScanBy: 'TimestampDescending' as const,
    }
    for await (const page of paginateGetMetricData({client: await aws.cloudWatch()}, request)) {
      for (const {Id: id = '', Values: values = []} of page.MetricDataResults ?? []) {
        const metric = id.replace(/\d+$/, '')
        if (metric === 'iteratorAge') iteratorAgeMs ??= values[0] ?? null
        else
          sums.set(
            metric,
            values.reduce((sum, value) => sum + value, sums.get(metric) ?? 0),
          )
      }
    }
  })
  return {
    throttledReads: sums.get('reads') ?? 0,
    throttledWrites: sums.get('writes') ?? 0,
    aggregatorErrors: sums.get('errors') ?? 0,
    uncountedRecords: sums.get('uncounted') ?? 0,
    refusedRequests: sums.get('refused') ?? 0,
    iteratorAgeMs,
  }
}

/** A table's metrics do not include those of its indexes. */
function trafficQueries({tableName, indexes, functionName}: TrafficSubject): MetricDataQuery[] {
  const queries: MetricDataQuery[] = []
  const add = (metric: string, statistic: 'Sum' | 'Maximum', namespace: string, name: string, dimensions: object) => {
    const Dimensions = Object.entries(dimensions).map(([Name, Value]) => ({Name, Value}))
    const Metric = {Namespace: namespace, MetricName: name, Dimensions}
    queries.push({Id: `${metric}${queries.length}`, MetricStat: {Metric, Period: PERIOD_SECONDS, Stat: statistic}})
  }
  const table = {TableName: tableName}
  for (const dimensions of [table, ...indexes.map(index => ({...table, GlobalSecondaryIndexName: index}))]) {
    add('reads', 'Sum', 'AWS/DynamoDB', 'ReadThrottleEvents', dimensions)
    add('writes', 'Sum', 'AWS/DynamoDB', 'WriteThrottleEvents', dimensions)
  }
  add('errors', 'Sum', 'AWS/Lambda', 'Errors', {FunctionName: functionName})
  add('uncounted', 'Sum', 'zael', 'UncountedRecords', {Stack: tableName})
  add('refused', 'Sum', 'zael', 'RefusedRequests', {Stack: tableName})
  add('iteratorAge', 'Maximum', 'AWS/Lambda', 'IteratorAge', {FunctionName: functionName})
  return queries
}

export async function readAlarms(aws: Aws, names: readonly string[]): Promise<AlarmPart[]> {
  if (names.length === 0) return []
  const AlarmNames = names.slice(0, ALARMS_PER_CALL)
  const {MetricAlarms = []} = await callAws('read the alarms', async () =>
    (await aws.cloudWatch()).send(new DescribeAlarmsCommand({AlarmNames})),
  )
  return MetricAlarms.map(alarm => ({
    name: alarm.AlarmName ?? '',
    state: alarm.StateValue ?? '',
    reason: alarm.StateReason || null,
    notifies: alarm.ActionsEnabled === true && (alarm.AlarmActions ?? []).length > 0,
  })).sort((a, b) => (a.name < b.name ? -1 : 1))
}

export async function readDeadLetters(aws: Aws, queueArn: string): Promise<DeadLettersPart> {
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
