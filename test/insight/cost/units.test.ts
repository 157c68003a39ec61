import {expect, it} from 'vitest'
import {parse} from 'yaml'
import {embeddedMetrics} from '../../../src/lib/aggregator/metrics.js'
import {loadStackTemplate} from '../../../src/lib/infra/stack/artifacts.js'
import {daysUntil} from '../../../src/lib/insight/cost/daily-counts.js'
import {
  ALARM_METRICS,
  costSettings,
  FUNCTION_METRICS,
  type PricedTable,
} from '../../../src/lib/insight/cost/measured.js'
import {averageParts, estimateDay, fixedParts, trafficParts} from '../../../src/lib/insight/cost/parts.js'

interface Resource {
  readonly Type: string
  readonly Properties: {readonly Metrics?: readonly {readonly MetricStat?: object}[]}
}

const SETTINGS = {...costSettings({}), copiesToIndex: false}
const DAY_SECONDS = 86_400
const TABLE: PricedTable = {
  tableBytes: 2_000_000_000,
  indexBytes: 1_000_000_000,
  hasRecovery: true,
  provisioned: null,
  isInfrequentAccess: false,
  indexes: ['GSI2'],
  copiesToIndex: false,
  hasStream: true,
  replicas: [],
}
const MONITORING = {alarmMetrics: 18, dashboards: 1, functionMetrics: 12, isMeasured: true}

/** 100 requests per second over 1,000 buckets, as in docs/cost.md. */
const BUSY = {admitted: 8_640_000, refused: 432_000, perBucket: Array.from({length: 1000}, () => 8640)}

it('matches the usage cost in docs/cost.md: 394 writes of a batch of 5 s, 920 of one of 25.3 s', () => {
  const perBatch = (batchSeconds: number, batchRecords: number) => {
    const {usage} = estimateDay(BUSY, DAY_SECONDS, {...SETTINGS, batchSeconds, batchRecords})
    // Days that are rolled up are one write per bucket.
    return ((usage ?? 0) - 1000) / (DAY_SECONDS / batchSeconds)
  }
  expect(Math.abs(perBatch(5, 1000) - 394)).toBeLessThan(1)
  expect(Math.abs(perBatch(25.3, 2600) - 920)).toBeLessThan(1)
})

it('closes a full batch before its window ends', () => {
  const {usage, runs} = estimateDay(BUSY, DAY_SECONDS, {...SETTINGS, batchSeconds: 60, batchRecords: 1000})
  const tenSeconds = estimateDay(BUSY, DAY_SECONDS, {...SETTINGS, batchSeconds: 10, batchRecords: 1000})
  expect({usage, runs}).toEqual({usage: tenSeconds.usage, runs: tenSeconds.runs})
})

it('counts one usage record for a single request, however short the day is so far', () => {
  const once = {admitted: 1, refused: 0, perBucket: [1]}
  expect(estimateDay(once, 60, SETTINGS)).toMatchObject({
    ...{usage: expect.closeTo(2, 9), indexes: expect.closeTo(4, 9)},
    ...{reads: 4, runs: expect.closeTo(1, 9)},
  })
  // Nothing is rolled up without hours: each window is counted with every batch.
  expect(estimateDay(once, 60, {...SETTINGS, usageWindows: ['daily', 'monthly']})).toMatchObject({
    usage: expect.closeTo(2, 9),
    reads: 0,
  })
})

it('repeats every admission and usage record for an index with whole records', () => {
  const units = (copiesToIndex: boolean) => estimateDay(BUSY, DAY_SECONDS, {...SETTINGS, copiesToIndex})
  const {admissions, usage, indexes} = units(true)
  expect(indexes - units(false).indexes).toBeCloseTo((admissions ?? 0) + (usage ?? 0))
})

it('matches the daily prices of fixed parts in docs/cost.md', () => {
  const dollars = Object.fromEntries(fixedParts(TABLE, MONITORING).map(part => [part.name, part.dollars * 30]))
  expect(dollars).toEqual({
    stored: expect.closeTo(3 * 0.25 + 2 * 0.2, 9),
    monitoring: expect.closeTo(1.8 + 3 + 3.6, 9),
  })
})

it('charges provisioned capacity by the hour only', () => {
  const provisioned = {reads: 10, writes: 20}
  const units = estimateDay(BUSY, DAY_SECONDS, SETTINGS)
  const traffic = trafficParts(units, {...SETTINGS, provisioned})
  expect(traffic.filter(({dollars}) => dollars > 0).map(({name}) => name)).toEqual(['function'])
  const [first] = fixedParts({...TABLE, provisioned}, MONITORING)
  expect(first).toMatchObject({name: 'provisioned', dollars: expect.closeTo(24 * (10 * 0.00013 + 20 * 0.00065), 9)})
})

it('rates an average by its least reliable day', () => {
  const part = {name: 'usage', unit: 'write units', dollars: 2} as const
  const days = [
    [{...part, quantity: 3, source: 'measured' as const}],
    [{...part, quantity: 5, source: 'estimated' as const}],
  ]
  expect(averageParts(days)).toEqual([{...part, quantity: 4, source: 'estimated'}])
})

it('assumes as many alarm metrics as the template has, and as many custom metrics as the function has', async () => {
  const {Resources} = parse(await loadStackTemplate(), {logLevel: 'silent'})
  const alarms = (Object.values(Resources) as Resource[]).filter(({Type}) => Type === 'AWS::CloudWatch::Alarm')
  const metricsOf = ({Properties: {Metrics = []}}: Resource) =>
    Math.max(1, Metrics.filter(({MetricStat}) => MetricStat).length)
  expect(alarms.reduce((sum, alarm) => sum + metricsOf(alarm), 0)).toBe(ALARM_METRICS)
  const {_aws} = embeddedMetrics({} as never, 'prod', 0) as {_aws: {CloudWatchMetrics: {Metrics: unknown[]}[]}}
  expect(_aws.CloudWatchMetrics[0]?.Metrics).toHaveLength(FUNCTION_METRICS)
})

it('uses days in UTC, and ends today now', () => {
  const days = daysUntil(Date.UTC(2026, 2, 1, 6), 1)
  expect(days.map(({date, isComplete, startMs, endMs}) => [date, isComplete, endMs - startMs])).toEqual([
    ['2026-02-28', true, 86_400_000],
    ['2026-03-01', false, 6 * 3_600_000 + 1],
  ])
})
