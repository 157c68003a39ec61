import {describe, expect, it} from 'vitest'
import {bucketOf, READ_AT_MS, readingOf} from '../support.js'
import {type DrawOptions, draw} from './draw.js'
import {SAMPLE} from './fixtures.js'

const linesOf = (options: DrawOptions): string[] => draw(options).trim().split('\n')
const totalsOf = (options: DrawOptions): string => linesOf(options).at(options.state?.selection?.filter ? -3 : -2) ?? ''
const filtered = (filter: string) => ({selection: {sort: 'left' as const, reversed: false, filter}})

describe('the header', () => {
  it('does not count deleted buckets', () => {
    const live = ['a', 'b'].map(name => readingOf(bucketOf(`${name}#x`, {limits: {rpm: {capacity: 9}}})))
    const gone = ['c', 'd', 'e'].map(name =>
      readingOf(bucketOf(`${name}#x`, {limits: {rpm: {capacity: 9}}}), {isGone: true}),
    )
    const options = {readings: [...live, ...gone], data: {known: {count: 2, isComplete: true, unreadable: 0}}}
    expect(linesOf(options)[1]).toContain(' · 2 of 2 buckets · ')
    expect(totalsOf(options)).toMatch(/^2 buckets · /)
  })

  it.each([
    [500, '0.5s'],
    [1500, '1.5s'],
    [2000, '2s'],
    [90_000, '1m30s'],
    [3_600_000, '1h'],
  ])('shows an interval of %d ms as every %s', (intervalMs, text) => {
    expect(linesOf({data: {intervalMs}})[1]).toMatch(new RegExp(` every ${text}$`))
  })

  it('shows the open tab however narrow the screen is', () => {
    const at = (columns: number) => linesOf({columns, state: {tab: 'resources'}})[0]
    expect(at(67)).toBe('zael watch · prod/default · eu-west-1  overview [resources] health')
    expect(at(66)).toBe('zael watch · prod/default · eu-west-1                  [resources]')
    expect(at(48)).toBe('zael watch · prod/default            [resources]')
    expect(at(40)).toBe('zael watch · prod/default    [resources]')
  })
})

describe('the totals', () => {
  it('cover the filtered buckets, and show how many of all that are', () => {
    expect(totalsOf({columns: 100, state: filtered('search')})).toBe(
      '3 of 5 buckets · ✖ 1 over · ▲ 1 near · ◂ 0 in debt · used rps 14/s · used tpm 2.5k/s · 4 shards',
    )
    expect(totalsOf({columns: 100, state: filtered('gone')})).toMatch(/^0 of 5 buckets · /)
  })

  it('cover all filtered buckets, however few rows are shown', () => {
    const options = {columns: 100, top: 1, state: filtered('search')}
    expect(totalsOf(options)).toMatch(/^3 of 5 buckets · /)
    expect(linesOf(options)[1]).toContain(' · 1 of 5 buckets · ')
    expect(linesOf(options).at(-2)).toContain('/search  3 buckets')
  })

  it('cover all buckets where the filter does not apply', () => {
    expect(linesOf({state: {...filtered('search'), tab: 'resources'}}).at(-2)).toMatch(/^5 buckets · /)
  })
})

describe('the status line', () => {
  const problem = {message: 'no answer', isThrottled: false, sinceMs: READ_AT_MS}
  const lineOf = (nextTryAtMs: number | undefined, isPaused: boolean) =>
    linesOf({readings: SAMPLE, data: {problem: {...problem, nextTryAtMs}, isPaused}}).at(-1)

  it('shows the next try only if one is scheduled', () => {
    expect(lineOf(READ_AT_MS + 4000, false)).toBe('✖ cannot read for 1s, next try in 3s: no answer')
    expect(lineOf(READ_AT_MS, false)).toBe('✖ cannot read for 1s, trying again: no answer')
    expect(lineOf(undefined, false)).toBe('✖ cannot read for 1s: no answer')
    expect(lineOf(READ_AT_MS + 4000, true)).toBe('✖ cannot read for 1s, r tries again: no answer')
    expect(lineOf(undefined, true)).toBe('✖ cannot read for 1s, r tries again: no answer')
  })
})
