import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {type Row, SORT_KEYS, type SortKey} from '../../src/lib/watch/model.js'
import {rank} from '../../src/lib/watch/rank.js'
import {rowAt} from '../../src/lib/watch/rows.js'
import {anyInstant, anyReadings, bucketOf, READ_AT_MS, readingOf} from './support.js'

/** What a row shows in the column it is sorted by. */
const SHOWN: Readonly<Record<SortKey, (row: Row) => number | string | null>> = {
  left: ({tightest}) => (tightest ? Math.round((tightest.level / tightest.capacity) * 1e9) : null),
  rate: ({ratePerSecond}) => (ratePerSecond === null ? null : -ratePerSecond),
  empty: ({emptyInMs}) => emptyInMs,
  pressure: ({writePressure}) => -writePressure,
  shards: ({shardCount}) => -shardCount,
  entity: ({entity}) => entity,
  resource: ({resource}) => resource,
}

describe('ranking', () => {
  it.each(SORT_KEYS)('by %s has every bucket once, in the order of what its row shows, then by id', sort => {
    fc.assert(
      fc.property(anyReadings, anyInstant, fc.boolean(), (readings, nowMs, reversed) => {
        const ids = rank(readings, nowMs, {sort, reversed, filter: ''})
        expect(ids.toSorted()).toEqual(readings.map(({id}) => id).toSorted())
        const byId = new Map(readings.map(reading => [reading.id, reading]))
        const shown = ids.map(id => ({id, place: SHOWN[sort](rowAt(byId.get(id) as never, nowMs))}))
        for (const [at, {id, place}] of shown.entries()) {
          const next = shown[at + 1]
          if (!next) continue
          if (place === null) expect(next.place).toBeNull()
          else if (next.place === place) expect(id < next.id).toBe(true)
          else if (next.place !== null) expect(place < next.place).toBe(!reversed)
        }
      }),
    )
  })

  it('does not depend on the order in which buckets were read', () => {
    fc.assert(
      fc.property(anyReadings, fc.constantFrom(...SORT_KEYS), (readings, sort) => {
        const selection = {sort, reversed: false, filter: ''}
        expect(rank(readings.toReversed(), READ_AT_MS, selection)).toEqual(rank(readings, READ_AT_MS, selection))
      }),
    )
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
    ['nobody', ''],
  ])('the filter "%s" leaves %s', (filter, names) => {
    const ids = rank(readings, READ_AT_MS, {sort: 'left', reversed: false, filter})
    expect(ids.map(id => id.split('#')[0]).join(' ')).toBe(names)
  })
})
