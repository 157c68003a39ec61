import {readFileSync} from 'node:fs'
import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {bucketMetrics, expositionText} from '../../../src/lib/live/metrics/bucket-metrics.js'
import type {Reading} from '../../../src/lib/live/model/model.js'
import {NO_REQUESTS} from '../../../src/lib/live/model/request-counts.js'
import {runs} from '../../helpers/runs.js'
import {parseExposition} from '../parse-exposition.js'
import {anyInstant, anyReadings, bucketOf, READ_AT_MS, readingOf} from '../support.js'

const measured = (readings: readonly Reading[], nowMs = READ_AT_MS, lagMs: number | undefined = 1500) => {
  const known = {count: readings.length + 1, isComplete: false, unreadable: 4}
  const lastPoll = {number: 3, atMs: READ_AT_MS, durationMs: 12, readUnits: 2.5, calls: 2, bucketsRead: 1}
  const byId = new Map(readings.map(reading => [reading.id, reading]))
  return bucketMetrics({readings: byId, known, lastPoll}, nowMs, {namespace: 'default', lagMs})
}
const parsed = (...args: Parameters<typeof measured>) => parseExposition(expositionText(measured(...args)))

const ADA = readingOf(bucketOf('ada#gpt-4', {limits: {rpm: {capacity: 100, refillPerSecond: 1, left: 80}}}), {
  ratePerSecond: new Map([['rpm', 3.25]]),
  requests: {...NO_REQUESTS, refusedPerSecond: {own: 0.5, byParent: 0}},
})
const BEN = readingOf(bucketOf('ben#gpt-4', {limits: {rpm: {capacity: 100, refillPerSecond: 0.001, left: -20}}}))

const busy = (entity: string, free: number) =>
  readingOf(bucketOf(`${entity}#gpt-4`, {limits: {}, slots: {parallel: {capacity: 20, free}}}))

describe('metrics of buckets', () => {
  it('have these names and labels: resources and limits, no entities', () => {
    expect(expositionText(measured([ADA, BEN]))).toMatchInlineSnapshot(`
      "# HELP zael_buckets Buckets read, by status.
      # TYPE zael_buckets gauge
      zael_buckets{namespace="default",resource="gpt-4",status="ok"} 0
      zael_buckets{namespace="default",resource="gpt-4",status="overdrawn"} 0
      zael_buckets{namespace="default",resource="gpt-4",status="near"} 0
      zael_buckets{namespace="default",resource="gpt-4",status="over"} 2
      zael_buckets{namespace="default",resource="gpt-4",status="disabled"} 0
      # HELP zael_buckets_known Buckets that the index lists.
      # TYPE zael_buckets_known gauge
      zael_buckets_known{namespace="default"} 3
      # HELP zael_buckets_read Buckets included in the other metrics.
      # TYPE zael_buckets_read gauge
      zael_buckets_read{namespace="default"} 2
      # HELP zael_buckets_unreadable Listed buckets with unreadable items, included in no other metric.
      # TYPE zael_buckets_unreadable gauge
      zael_buckets_unreadable{namespace="default"} 4
      # HELP zael_resources_unlisted Resources beyond the 200 with most buckets.
      # TYPE zael_resources_unlisted gauge
      zael_resources_unlisted{namespace="default"} 0
      # HELP zael_tokens_available Tokens left in all buckets read.
      # TYPE zael_tokens_available gauge
      zael_tokens_available{namespace="default",resource="gpt-4",limit="rpm"} 60
      # HELP zael_tokens_capacity Capacity of all buckets read.
      # TYPE zael_tokens_capacity gauge
      zael_tokens_capacity{namespace="default",resource="gpt-4",limit="rpm"} 200
      # HELP zael_tokens_debt Tokens below zero in all buckets read.
      # TYPE zael_tokens_debt gauge
      zael_tokens_debt{namespace="default",resource="gpt-4",limit="rpm"} 20
      # HELP zael_fill_ratio_min Fraction of the capacity left, in tokens or slots, in the emptiest bucket.
      # TYPE zael_fill_ratio_min gauge
      zael_fill_ratio_min{namespace="default",resource="gpt-4",limit="rpm"} -0.2
      # HELP zael_tokens_consumed_per_second Consumption between the last two readings.
      # TYPE zael_tokens_consumed_per_second gauge
      zael_tokens_consumed_per_second{namespace="default",resource="gpt-4",limit="rpm"} 3.25
      # HELP zael_requests_refused_per_second Refused requests, over ten seconds or the time between two readings.
      # TYPE zael_requests_refused_per_second gauge
      zael_requests_refused_per_second{namespace="default",resource="gpt-4"} 0.5
      # HELP zael_aggregator_lag_seconds Age of the oldest change not yet counted as usage.
      # TYPE zael_aggregator_lag_seconds gauge
      zael_aggregator_lag_seconds 1.5
      # HELP zael_reading_age_seconds Age of the oldest reading of a bucket.
      # TYPE zael_reading_age_seconds gauge
      zael_reading_age_seconds{namespace="default"} 0
      # HELP zael_read_units Read units of the last poll.
      # TYPE zael_read_units gauge
      zael_read_units{namespace="default"} 2.5
      "
    `)
  })

  it('are valid for any buckets, and never name an entity', () => {
    fc.assert(
      fc.property(anyReadings, anyInstant, (readings, nowMs) => {
        const labels = [...parsed(readings, nowMs)].flatMap(([, {samples}]) => [...samples.keys()])
        expect(labels.filter(each => /(^| )(?!namespace|resource|limit|status)\w+=/.test(each))).toEqual([])
      }),
      {numRuns: runs(100)},
    )
  })

  it('count slots apart from tokens', () => {
    const found = parsed([ADA, busy('ben', 5), busy('eve', 18)])
    const parallel = 'namespace=default resource=gpt-4 limit=parallel'
    expect(found.get('zael_slots_in_use')?.samples).toEqual(new Map([[parallel, 17]]))
    expect(found.get('zael_slots_capacity')?.samples).toEqual(new Map([[parallel, 40]]))
    expect(found.get('zael_fill_ratio_min')?.samples.get(parallel)).toBe(0.25)
    expect(found.get('zael_tokens_capacity')?.samples.size).toBe(1)
  })

  it('omit unknown values: rates after one reading, the lag', () => {
    const names = [...parseExposition(expositionText(measured([BEN]))).keys()]
    expect(names).not.toContain('zael_requests_refused_per_second')
    expect(names).not.toContain('zael_tokens_consumed_per_second')
    const known = {count: 0, isComplete: true, unreadable: 0}
    const lastPoll = {number: 1, atMs: READ_AT_MS, durationMs: 1, readUnits: 1, calls: 1, bucketsRead: 0}
    const empty = bucketMetrics({readings: new Map(), known, lastPoll}, READ_AT_MS, {namespace: 'x', lagMs: undefined})
    expect([...parseExposition(expositionText(empty)).keys()]).toEqual([
      'zael_buckets_known',
      'zael_buckets_read',
      'zael_buckets_unreadable',
      'zael_resources_unlisted',
      'zael_reading_age_seconds',
      'zael_read_units',
    ])
  })

  it('cover at most 200 resources, those with the most buckets', () => {
    const many = Array.from({length: 250}, (_, at) => readingOf(bucketOf(`ada#r${at}`, {limits: {rpm: {capacity: 1}}})))
    const large = readingOf(bucketOf('ben#r249', {limits: {rpm: {capacity: 1}}}))
    const found = parsed([...many, large])
    const resources = found.get('zael_tokens_capacity')?.samples
    expect(resources?.size).toBe(200)
    expect(resources?.get('namespace=default resource=r249 limit=rpm')).toBe(2)
    expect(found.get('zael_buckets')?.samples.size).toBe(1000)
    expect(found.get('zael_fill_ratio_min')?.samples.size).toBe(200)
    expect(found.get('zael_resources_unlisted')?.samples.get('namespace=default')).toBe(50)
  })
})

describe('the text format', () => {
  it('escapes characters that would end a label or a line', () => {
    const value = 'a"b\\c\nd'
    const text = expositionText([{name: 'x', help: 'one\ntwo \\ three', samples: [{labels: {name: value}, value: 1}]}])
    expect(text).toBe('# HELP x one\\ntwo \\\\ three\n# TYPE x gauge\nx{name="a\\"b\\\\c\\nd"} 1\n')
    expect([...(parseExposition(text).get('x')?.samples ?? [])]).toEqual([[`name=${value}`, 1]])
  })

  it('escapes control characters of a name', () => {
    const samples = [{labels: {name: 'a\x1b]52;c;AA\x07\rb'}, value: 1}]
    expect(expositionText([{name: 'x', help: 'y', samples}])).toContain('x{name="a\\\\x1b]52;c;AA\\\\x07\\\\rb"} 1')
  })

  it.each([
    ['# HELP x y\n# TYPE x gauge\nx 1', 'does not end'],
    ['x 1\n', 'not among its own'],
    ['# HELP x y\n# TYPE x gauge\nx{a="1"} 1\nx{a="1"} 2\n', 'twice'],
    ['# HELP x y\n# TYPE x gauge\nx{a="1} 1\n', 'bad label'],
    ['# HELP x y\n# TYPE x gauge\nx one\n', 'bad value'],
    ['# HELP x y\n# TYPE x gauge\n', 'no sample'],
  ])('rejects invalid text: %j', (text, why) => {
    expect(() => parseExposition(text)).toThrow(why)
  })
})

describe('the dashboard', () => {
  const dashboard = JSON.parse(
    readFileSync(new URL('../../../templates/grafana-dashboard.json', import.meta.url), 'utf8'),
  )
  const queries: string[] = [
    ...dashboard.panels.flatMap(({targets}: {targets: {expr: string}[]}) => targets.map(({expr}) => expr)),
    ...dashboard.templating.list.map(({query}: {query: string}) => query),
  ]
  const families = measured([ADA, BEN, busy('eve', 5)])

  it('shows every metric, and none that does not exist', () => {
    const used = new Set(queries.flatMap(query => query.match(/\bzael_\w+/g) ?? []))
    expect([...used].sort()).toEqual(families.map(({name}) => name).sort())
  })

  it('asks each metric only for labels that it has', () => {
    const labelsOf = (metric: string) =>
      new Set(families.find(({name}) => name === metric)?.samples.flatMap(({labels}) => Object.keys(labels)))
    const wrong = queries.flatMap(query => {
      const metrics = [...new Set(query.match(/\bzael_\w+/g))]
      const selected = [...query.matchAll(/(zael_\w+)\{([^}]*)\}/g)].flatMap(([, metric = '', selector = '']) =>
        [...selector.matchAll(/(\w+)(?==~?")/g)].map(([label]) => ({metric, label})),
      )
      const grouped = [...query.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) =>
        list.split(/,\s*/).flatMap(label => metrics.map(metric => ({metric, label}))),
      )
      const listed = [...query.matchAll(/label_values\((zael_\w+)[^,]*, (\w+)\)/g)].map(
        ([, metric = '', label = '']) => ({metric, label}),
      )
      return [...selected, ...grouped, ...listed].filter(({metric, label}) => !labelsOf(metric).has(label))
    })
    expect(wrong).toEqual([])
  })

  it('gives every panel a unique id', () => {
    const ids = dashboard.panels.map(({id}: {id: number}) => id)
    expect(new Set(ids).size).toBe(ids.length)
  })
})
