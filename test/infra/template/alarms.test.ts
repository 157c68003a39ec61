import {describe, expect, it} from 'vitest'
import {embeddedMetrics, noCounts} from '../../../src/lib/aggregator/metrics.js'
import type {TemplateNode} from '../../../src/lib/files/template-yaml.js'
import {stackWith} from './stack-model.js'

const off = 'false'
const TOPIC = 'arn:aws:sns:eu-west-1:123456789012:ops'
const TABLE_AND_INDEXES = [
  'TableName=prod',
  ...['GSI1', 'GSI2', 'GSI3', 'GSI4'].map(index => `TableName=prod GlobalSecondaryIndexName=${index}`),
]

describe('alarms', () => {
  it('C-41 all notify the topic when they go off and when they clear; without a topic they have no actions', () => {
    const alarms = (parameters = {}) => {
      const {Resources} = stackWith(parameters)
      return Object.values(Resources).filter(({Type}) => Type === 'AWS::CloudWatch::Alarm')
    }
    const names = alarms({AlarmSNSTopicArn: TOPIC}).map(({Properties: {AlarmName, AlarmActions, OKActions}}) => {
      expect([AlarmActions, OKActions]).toEqual([[TOPIC], [TOPIC]])
      return AlarmName
    })
    expect(names).toEqual([
      ...['prod-aggregator-errors', 'prod-aggregator-failed-records'],
      ...['prod-aggregator-uncounted-records', 'prod-aggregator-archive', 'prod-aggregator-duration'],
      ...['prod-stream-iterator-age', 'prod-aggregator-dlq', 'prod-read-throttle', 'prod-write-throttle'],
    ])
    expect(alarms().every(({Properties}) => !('AlarmActions' in Properties || 'OKActions' in Properties))).toBe(true)
    expect(alarms({EnableAggregator: off}).length).toBe(2)
    expect(alarms({EnableAlarms: off})).toEqual([])
  })

  it.each([
    ['AggregatorFailedRecordAlarm', 'zael FailedRecords Sum', ['Stack=prod']],
    ['AggregatorUncountedRecordAlarm', 'zael UncountedRecords Sum', ['Stack=prod']],
    ['AggregatorArchiveAlarm', 'zael UnarchivedEvents Sum', ['Stack=prod']],
    ['AggregatorDurationAlarm', 'AWS/Lambda Duration Maximum', ['FunctionName=ref:AggregatorFunction']],
    ['StreamIteratorAgeAlarm', 'AWS/Lambda IteratorAge Maximum', ['FunctionName=ref:AggregatorFunction']],
    [
      ...(['AggregatorDLQAlarm', 'AWS/SQS ApproximateNumberOfMessagesVisible Maximum'] as const),
      ['QueueName=QueueName:AggregatorDLQ'],
    ],
    ['ReadThrottleAlarm', 'AWS/DynamoDB ReadThrottleEvents Sum', TABLE_AND_INDEXES],
    ['WriteThrottleAlarm', 'AWS/DynamoDB WriteThrottleEvents Sum', TABLE_AND_INDEXES],
  ])('%s measures %s of %j', (id, metric, subjects) => {
    const watched = watchedBy(stackWith().Resources[id].Properties)
    expect(watched).toEqual(subjects.map(subject => `${metric} ${subject}`))
  })

  it('count failed runs of the function and errors that fail no run, such as those of refills', () => {
    const {Metrics, Threshold} = stackWith().Resources.AggregatorErrorAlarm.Properties
    expect(watchedBy({Metrics})).toEqual([
      'AWS/Lambda Errors Sum FunctionName=ref:AggregatorFunction',
      'zael Errors Sum Stack=prod',
    ])
    expect(Metrics.filter(({ReturnData}: TemplateNode) => ReturnData !== false)).toMatchObject([
      {Expression: 'SUM(FILL(METRICS(), 0))'},
    ])
    expect(Threshold).toBe(1)
  })

  it('watch metrics that the function prints', () => {
    const printed = Object.keys(embeddedMetrics(noCounts(), 'prod', 0))
    const {Resources} = stackWith()
    const watched = Object.values(Resources).flatMap(({Type, Properties}) =>
      Type === 'AWS::CloudWatch::Alarm' ? watchedBy(Properties) : [],
    )
    const own = watched.flatMap(text => (text.startsWith('zael ') ? (text.split(' ')[1] as string) : []))
    expect(own).toEqual(['Errors', 'FailedRecords', 'UncountedRecords', 'UnarchivedEvents'])
    expect(printed).toEqual(expect.arrayContaining(own))
  })

  it('add up the throttled requests of the table and of all indexes, most of which have no data', () => {
    for (const id of ['ReadThrottleAlarm', 'WriteThrottleAlarm']) {
      const {Metrics, Threshold} = stackWith().Resources[id].Properties
      const returned = Metrics.filter(({ReturnData}: TemplateNode) => ReturnData !== false)
      expect(returned).toMatchObject([{Expression: 'SUM(FILL(METRICS(), 0))'}])
      expect(Threshold).toBe(1)
    }
  })

  it('compare the duration with the timeout, and the lag with the batch window', () => {
    const {Resources} = stackWith({LambdaTimeout: '30', StreamBatchWindow: '60', LambdaDurationAlarmPercent: '50'})
    const {Metrics: duration, Threshold} = Resources.AggregatorDurationAlarm.Properties
    // ms / (s × 10) = %
    expect([duration[0].Expression, Threshold]).toEqual(['measured / (30 * 10)', '50'])
    const {Metrics: age, Threshold: seconds} = Resources.StreamIteratorAgeAlarm.Properties
    expect([age[0].Expression, seconds]).toEqual(['measured / 1000 - 60', 60])
  })

  it('C-41 includes a dashboard, with or without the aggregator', () => {
    const widgets = (parameters = {}) => {
      const {Resources} = stackWith(parameters)
      return JSON.parse(Resources.Dashboard.Properties.DashboardBody).widgets.map(
        ({properties}: TemplateNode) => properties.title,
      )
    }
    expect(widgets().length).toBe(9)
    expect(widgets({EnableAggregator: off})).toEqual(['Capacity used', 'Turned away', 'Latency of writes (ms)'])
    expect(stackWith({EnableDashboard: off}).Resources).not.toHaveProperty('Dashboard')
  })

  it('gives a stack of the same name in another region another dashboard name, unique in the account', () => {
    const nameIn = (region: string) =>
      stackWith({}, {'AWS::Region': region}).Resources.Dashboard.Properties.DashboardName
    expect([nameIn('eu-west-1'), nameIn('us-east-2')]).toEqual(['prod-eu-west-1', 'prod-us-east-2'])
  })

  it('shows all indexes on the dashboard besides the table, whose metrics do not include them', () => {
    const {widgets} = JSON.parse(stackWith().Resources.Dashboard.Properties.DashboardBody)
    const shown = ['Capacity used', 'Turned away'].flatMap(title => {
      const {metrics} = widgets.find(({properties}: TemplateNode) => properties.title === title).properties
      return spelledOut(metrics)
    })
    const metrics = ['ConsumedWriteCapacityUnits', 'ConsumedReadCapacityUnits', 'WriteThrottleEvents']
    expect(shown).toEqual(
      [...metrics, 'ReadThrottleEvents'].flatMap(metric =>
        TABLE_AND_INDEXES.map(subject => `AWS/DynamoDB ${metric} ${subject}`),
      ),
    )
  })
})

/** The metrics of an alarm with their statistics. */
function watchedBy({Metrics, Namespace, MetricName, Dimensions, Statistic}: TemplateNode): string[] {
  const format = (metric: TemplateNode, statistic: string) => {
    const dimensions = metric.Dimensions.map(({Name, Value}: TemplateNode) => `${Name}=${Value}`)
    return `${metric.Namespace} ${metric.MetricName} ${statistic} ${dimensions.join(' ')}`
  }
  if (!Metrics) return [format({Namespace, MetricName, Dimensions}, Statistic)]
  return Metrics.flatMap(({MetricStat}: TemplateNode) => (MetricStat ? format(MetricStat.Metric, MetricStat.Stat) : []))
}

/** The metrics of a widget; in its shorthand a dot repeats the value above. */
function spelledOut(metrics: string[][]): string[] {
  let above: string[] = []
  return metrics.map(metric => {
    above = metric.map((word, at) => (word === '.' ? (above[at] ?? '') : word))
    const [namespace, name, ...dimensions] = above
    const pairs = dimensions.flatMap((word, at) => (at % 2 === 0 ? `${word}=${dimensions[at + 1]}` : []))
    return [namespace, name, ...pairs].join(' ')
  })
}
