import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {type Reading, SORT_KEYS, type SortKey} from '../../../src/lib/live/model/model.js'
import {ranking} from '../../../src/lib/live/model/rank.js'
import {NO_REQUESTS, type RequestCounts, refusedPerSecond} from '../../../src/lib/live/model/request-counts.js'
import {type Row, rowAt} from '../../../src/lib/live/model/status.js'
import {runs} from '../../helpers/runs.js'
import {anyInstant, anyReadings, bucketOf, READ_AT_MS, readingOf} from '../support.js'

/** The value of a row in the sorted column; the rate is that of the limit which all are sorted by. */
const SHOWN: Readonly<Record<SortKey, (row: Row, rateLimit: string | undefined) => number | string | undefined>> = {
  // Refusing buckets come first.
  left: ({tightest, status}) => tightest && tightest.level / tightest.capacity - (status === 'over' ? 1e9 : 0),
  rate: ({rates}, rateLimit = '') => {
    const rate = rates.get(rateLimit)
    return rate === undefined ? undefined : -rate
  },
  refused: ({requests}) => {
    const rate = refusedPerSecond(requests)
    return rate ? -rate : undefined
  },
  empty: ({emptyInMs}) => emptyInMs ?? undefined,
  pressure: ({writePressure}) => -writePressure,
  shards: ({shardCount}) => -shardCount,
  entity: ({entity}) => entity,
  resource: ({resource}) => resource,
}

/** Rows and ranking compute these differently; the order of nearly equal values may differ. */
const ROUNDED: ReadonlySet<SortKey> = new Set(['left', 'empty'])
const isNear = (a: number | string, b: number | string) =>
  typeof a === 'number' && typeof b === 'number' && Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b))

describe('ranking', () => {
  it.each(SORT_KEYS)('by %s has every bucket once, in the order of the column, then by id', sort => {
    fc.assert(
      fc.property(anyReadings, anyInstant, fc.boolean(), (readings, nowMs, reversed) => {
        const {ids, rateLimit} = ranking(readings, nowMs, {sort, reversed, filter: ''})
        expect(ids.toSorted()).toEqual(readings.map(({id}) => id).toSorted())
        const byId = new Map(readings.map(reading => [reading.id, reading]))
        const shown = ids.map(id => ({id, value: SHOWN[sort](rowAt(byId.get(id) as never, nowMs), rateLimit)}))
        for (const [at, {id, value}] of shown.entries()) {
          const next = shown[at + 1]
          if (!next) continue
          if (value === undefined) expect(next.value).toBeUndefined()
          else if (next.value === undefined) continue
          else if (ROUNDED.has(sort) && isNear(value, next.value)) continue
          else if (next.value === value) expect(id < next.id).toBe(true)
          else expect(value < next.value).toBe(!reversed)
        }
      }),
      {numRuns: runs(50)},
    )
  })

  it.each(SORT_KEYS)('by %s sorts equal buckets by id, in either direction', sort => {
    const same = ['b', 'c', 'a'].map(name => {
      const reading = readingOf(bucketOf('x#y', {limits: {rpm: {capacity: 100, left: 30}}}))
      return {...reading, id: name, ratePerSecond: new Map([['rpm', 70]])}
    })
    for (const reversed of [false, true]) {
      expect(ranking(same, READ_AT_MS, {sort, reversed, filter: ''}).ids).toEqual(['a', 'b', 'c'])
    }
  })

  it('does not depend on the order in which buckets were read', () => {
    fc.assert(
      fc.property(anyReadings, fc.constantFrom(...SORT_KEYS), (readings, sort) => {
        const selection = {sort, reversed: false, filter: ''}
        expect(ranking(readings.toReversed(), READ_AT_MS, selection)).toEqual(ranking(readings, READ_AT_MS, selection))
      }),
      {numRuns: runs(100)},
    )
  })

  it('by rate compares one limit: the one with the highest total rate among the filtered buckets', () => {
    const limits = {limits: {rpm: {capacity: 100}, tpm: {capacity: 100_000}}}
    const consumer = (id: string, rates: Record<string, number>) =>
      readingOf(bucketOf(id, limits), {ratePerSecond: new Map(Object.entries(rates))})
    const readings = [
      consumer('many-small#gpt-4', {rpm: 90, tpm: 100}),
      consumer('few-large#gpt-4', {rpm: 1, tpm: 2500}),
      consumer('lookups#search', {rpm: 500}),
      consumer('idle#gpt-4', {rpm: 0, tpm: 0}),
      readingOf(bucketOf('new#gpt-4', limits)),
    ]
    const by = (filter: string, reversed = false) => ranking(readings, READ_AT_MS, {sort: 'rate', reversed, filter})
    expect(by('')).toEqual({
      ids: ['few-large#gpt-4', 'many-small#gpt-4', 'idle#gpt-4', 'lookups#search', 'new#gpt-4'],
      rateLimit: 'tpm',
      live: 5,
    })
    expect(by('search')).toEqual({ids: ['lookups#search'], rateLimit: 'rpm', live: 5})
    expect(by('new')).toEqual({ids: ['new#gpt-4'], rateLimit: undefined, live: 5})
    expect(by('', true).ids.slice(0, 3)).toEqual(['idle#gpt-4', 'many-small#gpt-4', 'few-large#gpt-4'])
    expect(ranking(readings, READ_AT_MS, {sort: 'left', reversed: false, filter: ''}).rateLimit).toBeUndefined()
  })

  it('by refused requests has the highest rate first, then the latest refusal, then the others', () => {
    const of = (id: string, requests: Partial<RequestCounts>) =>
      readingOf(bucketOf(id, {limits: {rpm: {capacity: 10}}}), {requests: {...NO_REQUESTS, ...requests}})
    const readings = [
      of('never#r', {}),
      of('earlier#r', {lastRefusedAtMs: 1000}),
      of('later#r', {lastRefusedAtMs: 2000, refusedPerSecond: {own: 0, byParent: 0}}),
      of('little#r', {lastRefusedAtMs: 10, refusedPerSecond: {own: 0.1, byParent: 0}}),
      of('much#r', {lastRefusedAtMs: 10, refusedPerSecond: {own: 1, byParent: 5}}),
    ]
    const {ids} = ranking(readings, READ_AT_MS, {sort: 'refused', reversed: false, filter: ''})
    expect(ids).toEqual(['much#r', 'little#r', 'later#r', 'earlier#r', 'never#r'])
  })

  it('by tokens left puts refusing buckets first, also for an empty parent or a large request', () => {
    const of = (id: string, left: number, rest: Partial<Reading> = {}) =>
      readingOf(bucketOf(id, {limits: {tpm: {capacity: 1000, refillPerSecond: 0.001, left}}}), rest)
    const readings = new Map(
      [
        of('child#r', 1000, {chargedTo: 'team#r'}),
        of('large#r', 500, {typical: [501]}),
        of('near#r', 100),
        of('team#r', 0),
      ].map(reading => [reading.id, reading]),
    )
    const selection = {sort: 'left', reversed: false, filter: ''} as const
    const {ids} = ranking(readings.values(), READ_AT_MS, selection, id => readings.get(id))
    expect(ids).toEqual(['team#r', 'large#r', 'child#r', 'near#r'])
    const {ids: over} = ranking(readings.values(), READ_AT_MS, {...selection, filter: 'status:over'}, id =>
      readings.get(id),
    )
    expect(over).toEqual(['team#r', 'large#r', 'child#r'])
  })

  const limits = (left: number) => ({limits: {rpm: {capacity: 100, refillPerSecond: 0.001, left}}})
  const readings = [
    readingOf(bucketOf('team-red#gpt-4', limits(90))),
    readingOf(bucketOf('ada#gpt-4', limits(10))),
    readingOf(bucketOf('Ben#search', limits(0))),
    readingOf(bucketOf('old#search', limits(50)), {isGone: true}),
  ]
  it.each([
    ['', 'Ben ada old team-red'],
    ['  ', 'Ben ada old team-red'],
    ['ben', 'Ben'],
    ['GPT', 'ada team-red'],
    ['!gpt', 'Ben old'],
    ['!', 'Ben ada old team-red'],
    ['status:over', 'Ben'],
    ['status:n', 'ada'],
    ['status:', 'Ben ada old team-red'],
    ['status:gone', 'old'],
    ['!status:ok', 'Ben ada old'],
    ['#', ''],
    ['no-match', ''],
  ])('with the filter "%s" has %s', (filter, names) => {
    const {ids} = ranking(readings, READ_AT_MS, {sort: 'left', reversed: false, filter})
    expect(ids.map(id => id.split('#')[0]).join(' ')).toBe(names)
  })
})
