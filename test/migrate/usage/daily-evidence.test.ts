import {describe, expect, it} from 'vitest'
import type {Window} from '../../../src/lib/core/window.js'
import {DailyEvidence} from '../../../src/lib/migrate/usage/series.js'
import type {UsageRecord} from '../../../src/lib/schema/usage-record.js'

const NOW = Date.UTC(2026, 5, 15, 12)
const NOW_SECONDS = NOW / 1000

interface Options {
  readonly window?: Window
  readonly ttlSeconds?: number
}

/** A record of June; every token is an event. */
function record(day: number, hour: number, tokens: number, {window = 'hourly', ttlSeconds}: Options = {}): UsageRecord {
  const pad = (value: number) => String(value).padStart(2, '0')
  const start = `2026-06-${pad(day)}T${pad(hour)}:00:00Z`
  const common = {namespace: 'ns', entity: 'e', resource: 'r', ttlSeconds}
  return {...common, window, start, tokens: new Map([['rpm', tokens]]), totalEvents: tokens}
}

function conclusionOf(...days: UsageRecord[][]): string {
  const evidence = new DailyEvidence(NOW)
  for (const day of days) evidence.add(day)
  return evidence.conclusion
}

const mixed = [record(10, 0, 28), record(10, 5, 14)]
const labelled = [record(11, 0, 14, {window: 'daily'}), record(11, 5, 14)]

describe('the evidence that days were counted besides hours', () => {
  it('is shown by a record of that label, or by a midnight that contains the other hours', () => {
    expect(conclusionOf(mixed)).toBe('counted')
    expect(conclusionOf(labelled)).toBe('counted')
    expect(conclusionOf([record(12, 0, 4)], labelled)).toBe('counted')
  })

  it('is not shown by midnights alone, by a remainder that cannot be halved, or by the first of a month', () => {
    expect(conclusionOf()).toBe('unknown')
    expect(conclusionOf([record(10, 0, 28)], [record(11, 0, 4)])).toBe('unknown')
    expect(conclusionOf([record(10, 0, 29), record(10, 5, 14)])).toBe('unknown')
    expect(conclusionOf([record(1, 0, 28), record(1, 5, 14)])).toBe('unknown')
  })

  it('is refuted by hours without a midnight, whatever else there is', () => {
    expect(conclusionOf(mixed, [record(11, 5, 30)])).toBe('not counted')
    expect(conclusionOf([record(9, 5, 30)], labelled)).toBe('not counted')
  })

  it('is refuted by other hours that midnight does not contain, unless there is a label', () => {
    const exceeding = [record(12, 0, 10), record(12, 7, 20)]
    expect(conclusionOf(mixed, exceeding)).toBe('not counted')
    expect(conclusionOf(labelled, exceeding)).toBe('counted')
  })

  it('is not refuted by a day that is not over, or whose midnight may have expired', () => {
    expect(conclusionOf(mixed, [record(15, 5, 30)])).toBe('counted')
    expect(conclusionOf(mixed, [record(15, 0, 1), record(15, 5, 30)])).toBe('counted')
    const hour = 3600
    expect(conclusionOf([record(9, 5, 30, {ttlSeconds: NOW_SECONDS + 5 * hour})], mixed)).toBe('counted')
    expect(conclusionOf([record(9, 5, 30, {ttlSeconds: NOW_SECONDS + 5 * hour + 1})], mixed)).toBe('not counted')
  })

  it('stays unknown where keys contain their window', () => {
    expect(conclusionOf([record(10, 0, 4), record(10, 0, 28, {window: 'daily'}), record(10, 5, 30)])).toBe('unknown')
  })
})
