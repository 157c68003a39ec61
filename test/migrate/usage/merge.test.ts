import {describe, expect, it} from 'vitest'
import type {Window} from '../../../src/lib/core/window.js'
import {mergeUsageDay, subtractCounters} from '../../../src/lib/migrate/usage/merge.js'
import type {UsageRecord} from '../../../src/lib/schema/usage-record.js'

function record(hour: number, rpm: number, events: number, window: Window = 'hourly', day = '2026-06-14'): UsageRecord {
  const start = `${day}T${String(hour).padStart(2, '0')}:00:00Z`
  const common = {namespace: 'ns', entity: 'e', resource: 'r', ttlSeconds: 5}
  return {...common, window, start, tokens: new Map([['rpm', rpm]]), totalEvents: events}
}

const merged = (records: UsageRecord[]) => {
  const {targets, decision} = mergeUsageDay(records, 'counted')
  return {
    decision,
    targets: targets.map(({window, start, counters}) => [
      window,
      start.slice(11, 13),
      counters.rpm,
      counters.total_events,
    ]),
  }
}

describe('D-11: a day that was counted in its first hour', () => {
  it('is split when the other hours exist', () => {
    // Hour 0: 7 in 2 events. Hours 5 and 9: 10 in 3 and 4 in 1. Midnight holds 2 · 7 + 10 + 4 in 2 · 2 + 3 + 1.
    expect(merged([record(0, 28, 8), record(5, 10, 3), record(9, 4, 1)])).toEqual({
      decision: 'split',
      targets: [
        ['hourly', '05', 10, 3],
        ['hourly', '09', 4, 1],
        ['hourly', '00', 7, 2],
        ['daily', '00', 21, 6],
      ],
    })
  })

  it('is split when there was traffic in the first hour only', () => {
    expect(merged([record(0, 14, 4)]).targets).toEqual([
      ['hourly', '00', 7, 2],
      ['daily', '00', 7, 2],
    ])
  })

  it.each([
    ['an odd remainder', [record(0, 29, 8), record(5, 10, 3), record(9, 4, 1)]],
    ['a negative remainder', [record(0, 13, 8), record(5, 10, 3), record(9, 4, 1)]],
    ['inconsistent events', [record(0, 28, 7), record(5, 10, 3), record(9, 4, 1)]],
    ['the first of a month, which may contain the month too', [record(0, 28, 8, 'hourly', '2026-06-01')]],
    ['a record labelled as a month', [record(0, 28, 8, 'monthly', '2026-06-01')]],
  ])('is kept as labelled with %s', (_, records) => {
    const {decision, targets} = merged(records)
    expect(decision).toBe('kept as labelled')
    expect(targets).toContainEqual([records[0]?.window, '00', records[0]?.tokens.get('rpm'), records[0]?.totalEvents])
    // The day gets nothing, and its earlier addition is subtracted.
    expect(targets).toContainEqual(['daily', '00', undefined, undefined])
    expect(targets).toHaveLength(records.length + 1)
  })

  it('is not changed where nothing was mixed', () => {
    expect(merged([record(0, 14, 4, 'daily'), record(5, 14, 4)])).toMatchObject({decision: undefined})
    expect(merged([record(5, 14, 4)])).toEqual({decision: undefined, targets: [['hourly', '05', 14, 4]]})
    expect(merged([record(0, 4, 4), record(0, 14, 4, 'daily')]).targets).toEqual([
      ['hourly', '00', 4, 4],
      ['daily', '00', 14, 4],
    ])
  })

  it('adds only the difference to earlier additions', () => {
    expect(subtractCounters({rpm: 5, total_events: 2}, {rpm: 3, tpm: 1, total_events: 2})).toEqual({rpm: 2, tpm: -1})
  })
})
