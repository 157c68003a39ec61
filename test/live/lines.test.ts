import {stripVTControlCharacters} from 'node:util'
import fc from 'fast-check'
import {describe, expect, it, vi} from 'vitest'
import {safeLine} from '../../src/lib/cli/output/lines.js'
import {type PolledData, watchDocument, watchedBuckets} from '../../src/lib/live/document.js'
import {pollLine, printSnapshot} from '../../src/lib/live/lines.js'
import type {Reading, Selection} from '../../src/lib/live/model/model.js'
import {ranking} from '../../src/lib/live/model/rank.js'
import {totalsAt} from '../../src/lib/live/model/totals.js'
import {viewBucket} from '../../src/lib/repository/buckets/view.js'
import {anyInstant, anyReadings, bucketOf, READ_AT_MS, readingOf} from './support.js'

const EVERYTHING: Selection = {sort: 'left', reversed: false, filter: ''}

function polled(readings: readonly Reading[], rest: Partial<PolledData> = {}): PolledData {
  return {
    readings: new Map(readings.map(reading => [reading.id, reading])),
    known: {count: readings.length, isComplete: true, unreadable: 0},
    units: new Map(),
    problem: undefined,
    lastPoll: {number: 3, atMs: READ_AT_MS, durationMs: 12, readUnits: 2.5, calls: 2, bucketsRead: readings.length},
    ...rest,
  }
}

const rates = (ratePerSecond: Record<string, number>) => ({ratePerSecond: new Map(Object.entries(ratePerSecond))})
const ADA = readingOf(
  bucketOf('ada#gpt-4', {limits: {rpm: {capacity: 100, refillPerSecond: 1, left: 12.999}, tpm: {capacity: 10_000}}}),
  rates({rpm: 3.25, tpm: 1250}),
)
const BEN = readingOf(bucketOf('ben#gpt-4', {limits: {rpm: {capacity: 100, refillPerSecond: 0.001, left: -20}}}), {
  ...rates({rpm: 0}),
  readAtMs: READ_AT_MS - 40_000,
})
const ZOE = readingOf(
  bucketOf('zoe#search', {limits: {rpm: {capacity: 60}}}, {limits: {rpm: {capacity: 60}}}),
  rates({rpm: -1}),
)
const ALL = [ADA, BEN, ZOE]
const line = (what: PolledData, selection = EVERYTHING) => pollLine(watchDocument(what, READ_AT_MS, selection, 0))
const lines = async (what: PolledData, width: number | undefined, selection = EVERYTHING, top?: number) => {
  let text = ''
  const written = vi.spyOn(process.stdout, 'write').mockImplementation(each => {
    text += String(each)
    return true
  })
  const options = {format: 'table', width, after: () => ({}), onBegin: () => {}} as const
  await printSnapshot(watchedBuckets(what, READ_AT_MS, selection, top), options)
  written.mockRestore()
  // Other tests of the process may have turned colours on.
  return stripVTControlCharacters(text)
}

describe('a document', () => {
  it('L6 has the figures of the repository at its instant, for any selection', () => {
    fc.assert(
      fc.property(
        anyReadings,
        anyInstant,
        fc.constantFrom('', 'gpt', '!a', 'status:over'),
        (readings, nowMs, filter) => {
          const selection = {...EVERYTHING, filter}
          const {ids} = ranking(readings, nowMs, selection)
          const byId = new Map(readings.map(reading => [reading.id, reading]))
          const document = watchDocument(polled(readings), nowMs, selection, undefined)
          const rated = ids.map(id => {
            const {bucket, ratePerSecond} = byId.get(id) as Reading
            const {limits} = viewBucket(bucket, nowMs)
            return limits.map(limit => ({
              ...limit,
              ratePerSecond: ratePerSecond.get(limit.name) ?? null,
              typical: 1,
            }))
          })
          expect(document.buckets.map(({limits}) => limits)).toEqual(rated)
          const {
            ratePerSecond,
            worst: _,
            oldestAgeMs,
            ...totals
          } = totalsAt(
            ids.map(id => byId.get(id) as Reading),
            nowMs,
          )
          expect(document.totals).toEqual({...totals, ratePerSecond: Object.fromEntries(ratePerSecond)})
          // A bucket without limits has none that could be worst.
          const statuses = document.buckets.flatMap(({status, limit}) => (limit === null ? [] : [status]))
          const worst = ['over', 'near', 'ok'].find(status => statuses.some(each => each === status))
          if (document.worst) expect(document.worst.status).toBe(worst)
        },
      ),
    )
  })

  it('names the limit whose rate the buckets are sorted by', () => {
    const limitOf = (selection: Partial<Selection>) =>
      watchDocument(polled(ALL), READ_AT_MS, {...EVERYTHING, ...selection}, 0).rateLimit
    expect(limitOf({})).toBeNull()
    expect(limitOf({sort: 'rate'})).toBe('tpm')
    expect(limitOf({sort: 'rate', filter: 'search'})).toBe('rpm')
    expect(limitOf({sort: 'rate', filter: 'nobody'})).toBeNull()
  })

  it('says whether all buckets were read', () => {
    const {lastPoll} = polled(ALL)
    const sampled = (rest: Partial<PolledData>) => watchDocument(polled(ALL, rest), READ_AT_MS, EVERYTHING, 0).sampled
    expect(sampled({})).toBe(false)
    expect(sampled({known: {count: 4, isComplete: true, unreadable: 0}})).toBe(true)
    expect(sampled({known: {count: 3, isComplete: false, unreadable: 0}})).toBe(true)
    expect(sampled({lastPoll: {...lastPoll, bucketsRead: 2}})).toBe(true)
  })
})

describe('limits in money', () => {
  const paid = readingOf(
    bucketOf('ada#gpt-4', {limits: {usd: {capacity: 500_000_000, refillPerSecond: 250_000, left: 12_345_678.9}}}),
    rates({usd: 2_500_000}),
  )
  const units = new Map([['usd', 'USD']])

  it('are shown as money to people, and are integers with their unit in JSON', async () => {
    expect(line(polled([paid], {units}))).toContain('worst ada gpt-4 $12.345678 of $500 usd (2%)')
    expect(line(polled([paid], {units}))).toContain('usd $2.50/s')
    const table = await lines(polled([paid], {units}), 200)
    expect(table).toContain('$12.345678')
    expect(table).toContain('$500')
    expect(table).not.toContain('500,000,000')
    const {buckets} = watchDocument(polled([paid], {units}), READ_AT_MS, EVERYTHING, undefined)
    expect(buckets[0]?.limits[0]).toMatchObject({name: 'usd', capacity: 500_000_000, unit: 'USD'})
  })
})

describe('a poll in one line', () => {
  it('has counts, the worst limit, rates and read units', () => {
    expect(line(polled(ALL))).toMatchInlineSnapshot(
      `"2027-01-15T08:00:00Z  3 buckets, 1 over, 1 near, 1 in debt  worst ben gpt-4 -20 of 100 rpm (0%)  rpm 2.25/s, tpm 1,250/s  2.5 read units"`,
    )
    expect(line(polled([ADA]))).toMatchInlineSnapshot(
      `"2027-01-15T08:00:00Z  1 bucket, 0 over, 1 near  worst ada gpt-4 12.999 of 100 rpm (12%), empty in 5s  rpm 3.25/s, tpm 1,250/s  2.5 read units"`,
    )
    expect(line(polled([ZOE]))).toMatchInlineSnapshot(
      `"2027-01-15T08:00:00Z  1 bucket, 0 over, 0 near  worst zoe search 60 of 60 rpm (100%)  rpm -1/s  2.5 read units"`,
    )
  })

  it('says how many of all buckets match the filter', () => {
    expect(line(polled(ALL), {...EVERYTHING, filter: 'search'})).toMatchInlineSnapshot(
      `"2027-01-15T08:00:00Z  1 of 3 buckets, 0 over, 0 near  worst zoe search 60 of 60 rpm (100%)  rpm -1/s  2.5 read units"`,
    )
  })

  it('says how many buckets cannot be read', () => {
    const known = {count: 1, isComplete: true, unreadable: 2}
    expect(line(polled([ZOE], {known}))).toMatchInlineSnapshot(
      `"2027-01-15T08:00:00Z  1 bucket, 0 over, 0 near, 2 unreadable  worst zoe search 60 of 60 rpm (100%)  rpm -1/s  2.5 read units"`,
    )
    expect(line(polled([], {known: {...known, count: 0}}))).toMatchInlineSnapshot(
      `"2027-01-15T08:00:00Z  no buckets yet, 2 unreadable  2.5 read units"`,
    )
  })

  it('contains no control characters, whatever names and messages contain', () => {
    const odd = readingOf(bucketOf('a\u001b[2J\n#b\r', {limits: {'r\npm': {capacity: 10}}}), rates({'r\npm': 1}))
    const problem = {message: 'no\r\n\u009b2Jthing', isThrottled: false, sinceMs: 0, nextTryAtMs: 0}
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the test searches for them
    const control = /[\u0000-\u001f\u007f-\u009f]/
    expect(safeLine(line(polled([odd])))).not.toMatch(control)
    expect(safeLine(line(polled([odd], {problem})))).not.toMatch(control)
  })

  it('does not show a small rate as zero', () => {
    const slow = {...ZOE, ...rates({usd: 0.0005})}
    expect(line(polled([slow]))).toContain('  usd <0.01/s  ')
  })

  it('reports that only some buckets were read, and the age of the oldest reading', () => {
    expect(line(polled(ALL, {known: {count: 1200, isComplete: true, unreadable: 0}}))).toMatchInlineSnapshot(
      `"2027-01-15T08:00:00Z  3 buckets, 1 over, 1 near, 1 in debt  worst ben gpt-4 -20 of 100 rpm (0%)  rpm 2.25/s, tpm 1,250/s  2.5 read units, read 3 of 1,200, oldest 40s ago"`,
    )
    expect(line(polled(ALL, {known: {count: 300, isComplete: false, unreadable: 0}}))).toMatchInlineSnapshot(
      `"2027-01-15T08:00:00Z  3 buckets, 1 over, 1 near, 1 in debt  worst ben gpt-4 -20 of 100 rpm (0%)  rpm 2.25/s, tpm 1,250/s  2.5 read units, read 3 of 300 or more, oldest 40s ago"`,
    )
  })

  it('shows the error and the age of the data', () => {
    const problem = {message: 'DynamoDB did not answer Query', isThrottled: false, sinceMs: 0, nextTryAtMs: 0}
    const lastPoll = {...polled(ALL).lastPoll, atMs: READ_AT_MS - 75_000}
    expect(line(polled(ALL, {problem, lastPoll}))).toMatchInlineSnapshot(
      `"2027-01-15T08:00:00Z  DynamoDB did not answer Query; data is 1m15s old"`,
    )
  })

  it('explains why no buckets are shown', () => {
    expect(line(polled([]))).toMatchInlineSnapshot(`"2027-01-15T08:00:00Z  no buckets yet  2.5 read units"`)
    expect(line(polled(ALL), {...EVERYTHING, filter: 'nobody'})).toMatchInlineSnapshot(
      `"2027-01-15T08:00:00Z  no buckets match  2.5 read units"`,
    )
  })
})

describe('a snapshot', () => {
  it('is a table and a line with totals', async () => {
    expect(await lines(polled(ALL), 80)).toMatchInlineSnapshot(`
      "STATUS  ENTITY  RESOURCE  LIMIT   LEVEL  LEFT  USED/S  EMPTY IN  REFUSED
      over    ben     gpt-4     rpm       -20    0%       0       <1s        0
      near    ada     gpt-4     rpm    12.999   12%    3.25        5s        0
      ok      zoe     search    rpm        60  100%      -1         -        0

      3 buckets, 1 over, 1 near, 1 in debt; 2.5 read units
      "
    `)
    expect(await lines(polled(ALL), 120, {sort: 'entity', reversed: true, filter: ''}, 2)).toMatchInlineSnapshot(`
      "STATUS  ENTITY  RESOURCE  LIMIT  LEVEL  CAPACITY  LEFT  DEBT  REFILL/S  USED/S  EMPTY IN  WRITES  REFUSED  LAST REFUSED
      ok      zoe     search    rpm       60        60  100%     0         6      -1         -      0%        0             -
      over    ben     gpt-4     rpm      -20       100    0%    20     <0.01       0       <1s      0%        0             -

      2 of 3 buckets, 1 over, 1 near, 1 in debt; 2.5 read units
      "
    `)
  })

  it('explains why no buckets are shown', async () => {
    expect(await lines(polled([]), 80)).toMatchInlineSnapshot(`
      "No buckets: nothing was consumed yet, or all have expired.
      "
    `)
    expect(await lines(polled(ALL), 80, {...EVERYTHING, filter: 'nobody'})).toMatchInlineSnapshot(`
      "None of 3 buckets match the filter.
      "
    `)
  })

  it('reports that not all buckets were read, and how to read them', async () => {
    const known = {count: 100, isComplete: false, unreadable: 0}
    const usedFirst = {since: '2026-01-02T03:00:00Z', isComplete: false}
    const {lastPoll} = polled([ZOE])
    const facts = {...lastPoll, usedFirst: {...usedFirst, isComplete: true}}
    expect(await lines(polled([ZOE], {known, lastPoll: facts}), 80)).toMatch(
      /^Read 1 of 100 or more buckets\. Buckets used since 2026-01-02T03:00:00Z were read first\. To read all, add --all\.\n\n/,
    )
    expect(await lines(polled([ZOE], {known, lastPoll: {...facts, usedFirst}}), 80)).toContain(
      'were read first. Some of them are missing. To read all',
    )
    expect(await lines(polled([ZOE], {known}), 80)).toMatchInlineSnapshot(`
      "Read 1 of 100 or more buckets. To read all, add --all.

      STATUS  ENTITY  RESOURCE  LIMIT  LEVEL  LEFT  USED/S  EMPTY IN  REFUSED
      ok      zoe     search    rpm       60  100%      -1         -        0

      1 bucket, 0 over, 0 near; 2.5 read units, read 1 of 100 or more
      "
    `)
    expect(await lines(polled(ALL, {known}), 80, {...EVERYTHING, filter: 'nobody'})).toMatchInlineSnapshot(`
      "Read 3 of 100 or more buckets. To read all, add --all.

      None of 3 buckets match the filter.
      "
    `)
  })

  it('says how many buckets are shown, selected and known', async () => {
    const gpt = {...EVERYTHING, filter: 'gpt'}
    const closing = async (top?: number) => (await lines(polled(ALL), 80, gpt, top)).trimEnd().split('\n').at(-1)
    expect([await closing(), await closing(1)]).toMatchInlineSnapshot(`
      [
        "2 of 3 buckets, 1 over, 1 near, 1 in debt; 2.5 read units",
        "1 shown; 2 of 3 buckets, 1 over, 1 near, 1 in debt; 2.5 read units",
      ]
    `)
  })

  it('L6 never shows more tokens than there are', async () => {
    const almost = readingOf(bucketOf('a#b', {limits: {rpm: {capacity: 10, refillPerSecond: 0.001, left: 0.999}}}))
    expect(await lines(polled([almost]), undefined)).toMatch(/over +a +b +rpm +0\.999 +10 +9%/)
  })

  it('L6 shows level and debt exactly, so that they agree', async () => {
    const owing = readingOf(bucketOf('a#b', {limits: {rpm: {capacity: 10, refillPerSecond: 0.001, left: -2.345}}}))
    expect(await lines(polled([owing]), undefined)).toMatch(/rpm +-2\.345 +10 +0% +2\.345 /)
    const money = polled([owing], {units: new Map([['rpm', 'USD']])})
    expect(await lines(money, undefined)).toMatch(/rpm +-\$0\.000003 +\$0\.00001 +0% +\$0\.000003 /)
  })

  describe('in a narrow terminal', () => {
    const NAMES = ['customer-acme-production', 'customer-acme-staging', 'c3']
    const many = NAMES.map(entity =>
      readingOf(bucketOf(`${entity}#gpt-4o-mini`, {limits: {rpm: {capacity: 10_000, left: 5095.16}}})),
    )

    it.each([80, 100])('keeps names of up to 24 characters in %i columns', async width => {
      const shown = await lines(polled(many), width)
      for (const name of NAMES) expect(shown).toContain(`${name}  `)
      expect(shown).toMatch(/^STATUS +ENTITY +RESOURCE +LIMIT .*LEFT .*REFUSED/)
    })

    it('stacks the rows in 40 columns, with LEFT and REFUSED first', async () => {
      const shown = await lines(polled(many), 40)
      expect(shown).toContain(
        'ok  customer-acme-production\n  gpt-4o-mini\n  LEFT 50%  REFUSED 0  LIMIT rpm\n  LEVEL 5,095.16  LAST REFUSED -\n',
      )
    })

    it.each([
      ['pressure', 'WRITES'],
      ['shards', 'SHARDS'],
      ['empty', 'EMPTY IN'],
    ] as const)('keeps the column sorted by: %s', async (sort, header) => {
      const rated = ALL.map(reading => ({...reading, ...rates({rpm: 1})}))
      expect(await lines(polled(rated), 60, {...EVERYTHING, sort})).toContain(header)
    })
  })
})
