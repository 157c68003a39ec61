import {beforeAll, expect, it} from 'vitest'
import {createAggregator} from '../../../src/lib/aggregator/aggregator.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {type CostReport, reportCost} from '../../../src/lib/insight/cost/report.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {tableOver} from '../../aggregator/fixtures/stream.js'
import {StreamTap} from '../../aggregator/fixtures/stream-tap.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {fakeAws, type Responses} from '../../infra/fake-aws.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Noon of the day before the report. */
const YESTERDAY_MS = Date.UTC(2026, 10, 14, 12)

const quantities = ({parts}: CostReport) => Object.fromEntries(parts.map(({name, quantity}) => [name, quantity]))

describeOnBoth('the cost of a stack', {}, table => {
  let nowMs = YESTERDAY_MS
  const report = (dayCount = 2, responses?: Responses) =>
    reportCost({
      table: tableOver(table.transport, table.name, () => nowMs),
      aws: responses && fakeAws(responses).aws,
      dayCount,
    })

  // Yesterday: 5 requests of "single", 3 of "child" that cascade to "team", 2 refused; all counted by the aggregator.
  beforeAll(async () => {
    const tap = new StreamTap(table.transport, () => nowMs)
    const seams = {stack: table.name, transport: tap, clock: () => nowMs}
    const repository = new Repository({...seams, principal: 'ops'})
    await repository.namespaces.register('default')
    const tenant = await repository.namespace('default')
    await tenant.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=10/hour']))
    await tenant.entities.create({id: 'team'})
    await tenant.entities.create({id: 'child', parent: 'team', cascade: true})
    const limiter = new RateLimiter(seams)
    const ask = (entity: string, rpm = 1) => limiter.tryAcquire({entity, resource: 'gpt-4', consume: {rpm}})
    for (let at = 0; at < 5; at++) expect((await ask('single')).admitted).toBe(true)
    for (let at = 0; at < 3; at++) expect((await ask('child')).admitted).toBe(true)
    for (let at = 0; at < 2; at++) expect((await ask('single', 9)).admitted).toBe(false)
    await limiter.close()
    const aggregator = createAggregator({table: tableOver(table.transport, table.name, () => nowMs), log: () => {}})
    expect((await aggregator.handle({Records: tap.take()})).failures).toEqual([])
    nowMs = YESTERDAY_MS + DAY_MS
  })

  it('is estimated from the counts of limiter and aggregator, a cascading request once', async () => {
    const found = await report()
    expect(
      found.days.map(({date, counts, dollars}) => [date, counts?.admitted, counts?.refused, dollars !== null]),
    ).toEqual([
      ['2026-11-13', undefined, undefined, false],
      ['2026-11-14', 8, 2, true],
      ['2026-11-15', undefined, undefined, false],
    ])
    // A write at the parent's bucket is paid for too.
    expect(quantities(found)).toMatchObject({admissions: 11, refusals: 2})
    expect(found).toMatchObject({averaged: ['2026-11-14'], decisionsPerDay: 10, region: null, indexWrites: null})
    expect(found.parts.find(({name}) => name === 'admissions')).toMatchObject({
      source: 'estimated',
      dollars: (11 * 0.625) / 1_000_000,
      perMillion: expect.closeTo((11 / 10) * 0.625, 9),
    })
    const traffic = found.parts.reduce((sum, {perMillion}) => sum + (perMillion ?? 0), 0)
    expect(found.dollarsPerMillion).toBeCloseTo(traffic, 9)
  })

  it('reports its read units, and writes nothing', async () => {
    const before = table.capacity.snapshot()
    const {read} = await report()
    const {read: units, write} = table.capacity.since(before)
    expect({units, write}).toEqual({units: read.units, write: 0})
    expect(units).toBeGreaterThan(0)
  })

  it('is measured if CloudWatch answers: counters divide its writes, and no unit is counted twice', async () => {
    const found = await report(
      2,
      cloudWatch({ConsumedWriteCapacityUnits: 40, ConsumedReadCapacityUnits: 7, Snapshots: 6}),
    )
    const {admissions, refusals, usage, 'other writes': others, indexes, reads} = quantities(found)
    expect({admissions, refusals, usage, others}).toEqual({admissions: 11, refusals: 2, usage: 6, others: 21})
    // Four indexes, each with as many units as the table.
    expect({indexes, reads}).toEqual({indexes: 160, reads: 35})
    expect(found.parts.map(({name, source}) => [name, source])).toContainEqual(['indexes', 'measured'])
    expect(found.parts.map(({name, source}) => [name, source])).toContainEqual(['admissions', 'divided'])
    expect(found.indexWrites).toEqual({GSI1: 40, GSI2: 40, GSI3: 40, GSI4: 40})
    const few = quantities(await report(2, cloudWatch({ConsumedWriteCapacityUnits: 9, Snapshots: 2})))
    expect(few).toMatchObject({admissions: 7, refusals: 0, usage: 2, 'other writes': 0})
  })

  it('names figures it may not read, and estimates them', async () => {
    const refuse = () => {
      throw Object.assign(new Error('no'), {name: 'AccessDenied'})
    }
    const found = await report(2, {...cloudWatch({}), getMetricData: refuse})
    expect(found.notes[0]?.message).toMatch(/^CloudWatch could not be read; units and runs are estimated: /)
    expect(quantities(found)).toMatchObject({admissions: 11})
  })

  it('is unknown per decision without recorded usage, and says why', async () => {
    nowMs = YESTERDAY_MS + 30 * DAY_MS
    const found = await report()
    nowMs = YESTERDAY_MS + DAY_MS
    expect(found).toMatchObject({dollarsPerDay: null, dollarsPerMillion: null, decisionsPerDay: null, averaged: []})
    expect(found.days.every(({dollars}) => dollars === null)).toBe(true)
    expect(found.notes[0]).toEqual({
      message:
        'No usage is recorded in these days, so the number of decisions is unknown: the stack has no aggregator.',
      fix: 'zael deploy --aggregator',
    })
  })
})

/** A mock of CloudWatch: each metric has one value, of an hour of yesterday. */
function cloudWatch(values: Readonly<Record<string, number>>): Responses {
  type Query = {Id: string; MetricStat: {Metric: {MetricName: string}}}
  return {
    describeStacks: () => ({Stacks: [{StackName: 'prod'}]}),
    describeAlarms: () => ({MetricAlarms: []}),
    getMetricData: ({MetricDataQueries: queries}) => ({
      MetricDataResults: (queries as Query[]).flatMap(({Id, MetricStat: {Metric}}) => {
        const value = values[Metric.MetricName]
        return value === undefined ? [] : [{Id, Timestamps: [new Date(YESTERDAY_MS)], Values: [value]}]
      }),
    }),
  }
}
