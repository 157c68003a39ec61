import {expect, it} from 'vitest'
import {parse} from 'yaml'
import {embeddedMetrics} from '../../../src/lib/aggregator/metrics.js'
import {loadStackTemplate} from '../../../src/lib/infra/stack/artifacts.js'
import {cheaperOptions} from '../../../src/lib/insight/cost/changes.js'
import {daysUntil} from '../../../src/lib/insight/cost/daily-counts.js'
import {
  ALARM_METRICS,
  averageParts,
  FUNCTION_METRICS,
  fixedParts,
  trafficParts,
} from '../../../src/lib/insight/cost/parts.js'
import {parsePrices} from '../../../src/lib/insight/cost/price-file.js'
import {costSettings, type PricedTable} from '../../../src/lib/insight/cost/priced-table.js'
import {LIST_PRICES} from '../../../src/lib/insight/cost/prices.js'
import {estimateDay, estimateUsage} from '../../../src/lib/insight/cost/units.js'

interface Resource {
  readonly Type: string
  readonly Properties: {readonly Metrics?: readonly {readonly MetricStat?: object}[]}
}

const SETTINGS = costSettings({})
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

/** 100 requests per second over 1,000 buckets, as in docs/deploying.md. */
const BUSY = {admitted: 8_640_000, refused: 432_000, perBucket: Array.from({length: 1000}, () => 8640)}

it('usage costs what docs/deploying.md says: 394 writes of a batch of 5 s, 920 of one of 25.3 s', () => {
  const perBatch = (batchSeconds: number, batchRecords: number) => {
    const {writes} = estimateUsage(BUSY, DAY_SECONDS, {...SETTINGS, batchSeconds, batchRecords})
    // Days that are rolled up are one write per bucket.
    return (writes - 1000) / (DAY_SECONDS / batchSeconds)
  }
  expect(Math.abs(perBatch(5, 1000) - 394)).toBeLessThan(1)
  expect(Math.abs(perBatch(25.3, 2600) - 920)).toBeLessThan(1)
})

it('a full batch does not wait for its time', () => {
  const {writes, runs} = estimateUsage(BUSY, DAY_SECONDS, {...SETTINGS, batchSeconds: 60, batchRecords: 1000})
  const tenSeconds = estimateUsage(BUSY, DAY_SECONDS, {...SETTINGS, batchSeconds: 10, batchRecords: 1000})
  expect({writes, runs}).toEqual({writes: tenSeconds.writes, runs: tenSeconds.runs})
})

it('a single request is one usage record, however short the day is so far', () => {
  const once = {admitted: 1, refused: 0, perBucket: [1]}
  expect(estimateUsage(once, 60, SETTINGS)).toEqual({
    ...{writes: expect.closeTo(2, 9), indexes: expect.closeTo(4, 9)},
    ...{reads: 4, runs: expect.closeTo(1, 9)},
  })
  // Nothing is rolled up without hours: each window is counted with every batch.
  expect(estimateUsage(once, 60, {...SETTINGS, usageWindows: ['daily', 'monthly']})).toMatchObject({
    writes: expect.closeTo(2, 9),
    reads: 0,
  })
})

it('an index with whole records repeats every admission and usage record', () => {
  const units = (copiesToIndex: boolean) => estimateDay(BUSY, DAY_SECONDS, {...SETTINGS, copiesToIndex})
  const {admissions, usage, indexes} = units(true)
  expect(indexes - units(false).indexes).toBeCloseTo((admissions ?? 0) + (usage ?? 0))
})

it('fixed parts have the prices of docs/deploying.md, by the day', () => {
  const dollars = Object.fromEntries(
    fixedParts(TABLE, MONITORING, LIST_PRICES).map(part => [part.name, part.dollars * 30]),
  )
  expect(dollars).toEqual({
    stored: expect.closeTo(3 * 0.25 + 2 * 0.2, 9),
    monitoring: expect.closeTo(1.8 + 3 + 3.6, 9),
  })
})

it('units of provisioned capacity are paid for by the hour only', () => {
  const provisioned = {reads: 10, writes: 20}
  const units = estimateDay(BUSY, DAY_SECONDS, {...SETTINGS, copiesToIndex: false})
  const traffic = trafficParts(units, LIST_PRICES, {...SETTINGS, provisioned})
  expect(traffic.filter(({dollars}) => dollars > 0).map(({name}) => name)).toEqual(['function'])
  const [first] = fixedParts({...TABLE, provisioned}, MONITORING, LIST_PRICES)
  expect(first).toMatchObject({name: 'provisioned', dollars: expect.closeTo(24 * (10 * 0.00013 + 20 * 0.00065), 9)})
})

it('an average is no better than its worst day', () => {
  const part = {name: 'usage', unit: 'write units', dollars: 2} as const
  const days = [
    [{...part, quantity: 3, source: 'measured' as const}],
    [{...part, quantity: 5, source: 'estimated' as const}],
  ]
  expect(averageParts(days)).toEqual([{...part, quantity: 4, source: 'estimated'}])
})

it('options are told that save something, the largest first, with what they save', () => {
  const options = (table: PricedTable, settings = SETTINGS) => {
    const units = estimateDay(BUSY, DAY_SECONDS, {...settings, copiesToIndex: table.copiesToIndex})
    const parts = trafficParts(units, LIST_PRICES, {...settings, provisioned: null})
    const days = [{seconds: DAY_SECONDS, units, counts: BUSY, measured: undefined}]
    const found = cheaperOptions({days, parts, settings, table, monitoring: MONITORING, prices: LIST_PRICES})
    return new Map(found.map(({option, saves}) => [option, saves]))
  }
  const found = options(TABLE, {...SETTINGS, batchSeconds: 5, batchRecords: 1000})
  // docs/deploying.md: 127.66 a month with these batches, 58.91 with the defaults; runs cost a little as well.
  expect((found.get('--batch-window 30 --batch-size 2600') ?? 0) * 30).toBeCloseTo(127.66 - 58.91 + 0.35, 0)
  expect([...options(TABLE).keys()]).not.toContain('--batch-window 30 --batch-size 2600')
  expect(found.get('--no-dashboard')).toBeCloseTo(0.1, 9)
  expect([...found.values()]).toEqual([...found.values()].toSorted((a, b) => b - a))
  // Two windows with every batch instead of one, and no index that could be smaller.
  expect([...found.keys()]).not.toContain('--usage-windows daily,monthly')
  expect([...found.keys()]).not.toContain('--resource-index keys-only')
  const copied = options({...TABLE, copiesToIndex: true}).get('--resource-index keys-only') ?? 0
  expect(copied).toBeGreaterThan((8_640_000 / 1_000_000) * 0.625)
  expect([...options(TABLE, {...SETTINGS, hasAggregator: false}).keys()]).toEqual(['--no-dashboard', '--no-alarms'])
})

it('capacity of the busiest hour is compared only where every day is measured', () => {
  const units = estimateDay(BUSY, DAY_SECONDS, {...SETTINGS, copiesToIndex: false})
  const parts = trafficParts(units, LIST_PRICES, {...SETTINGS, provisioned: null})
  const busiestHour = {reads: 0, writes: 349 * 3600}
  const measured = {
    writes: 0,
    reads: 0,
    indexWrites: {},
    indexReads: 0,
    runs: 0,
    runMs: 0,
    usageWrites: null,
    busiestHour,
  }
  const options = (days: readonly (typeof measured | undefined)[]) =>
    cheaperOptions({
      days: days.map(each => ({seconds: DAY_SECONDS, units, counts: undefined, measured: each})),
      parts: parts.map(part => (part.name === 'admissions' ? {...part, dollars: 30} : part)),
      ...{settings: SETTINGS, table: TABLE, monitoring: MONITORING, prices: LIST_PRICES},
    }).filter(({option}) => option === 'provisioned capacity')
  expect(options([measured])[0]?.effect).toMatch(/^0 read and 499 write units a second for the busiest hour/)
  expect(options([measured, undefined])).toEqual([])
})

it('the template has as many metrics under alarms, the function as many of its own, as is assumed', async () => {
  const {Resources} = parse(await loadStackTemplate(), {logLevel: 'silent'})
  const alarms = (Object.values(Resources) as Resource[]).filter(({Type}) => Type === 'AWS::CloudWatch::Alarm')
  const metricsOf = ({Properties: {Metrics = []}}: Resource) =>
    Math.max(1, Metrics.filter(({MetricStat}) => MetricStat).length)
  expect(alarms.reduce((sum, alarm) => sum + metricsOf(alarm), 0)).toBe(ALARM_METRICS)
  const {_aws} = embeddedMetrics({} as never, 'prod', 0) as {_aws: {CloudWatchMetrics: {Metrics: unknown[]}[]}}
  expect(_aws.CloudWatchMetrics[0]?.Metrics).toHaveLength(FUNCTION_METRICS)
})

it('days are days in UTC; today ends now', () => {
  const days = daysUntil(Date.UTC(2026, 2, 1, 6), 1)
  expect(days.map(({date, isComplete, startMs, endMs}) => [date, isComplete, endMs - startMs])).toEqual([
    ['2026-02-28', true, 86_400_000],
    ['2026-03-01', false, 6 * 3_600_000 + 1],
  ])
})

it('prices of a file replace those that it names; all mistakes are told at once', () => {
  expect(parsePrices('writesPerMillion: 0.7', 'p.yaml')).toEqual({...LIST_PRICES, writesPerMillion: 0.7})
  expect(() => parsePrices('writesPerMilion: 1\nreadsPerMillion: -4\nlogsPerGb: x', 'p.yaml')).toThrow(
    /p\.yaml:1:1 .*did you mean "writesPerMillion"\?\n.*p\.yaml:2:18 .*between 0 and 1000[\s\S]*p\.yaml:3:12 .*not the text "x"/,
  )
  expect(() => parsePrices('', 'p.yaml')).toThrow('the file is empty')
})
