import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {calendarCheck} from '../../../src/lib/core/calendar/schedule.js'
import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {limitImpact} from '../../../src/lib/insight/preview/impact.js'
import {runs} from '../../helpers/runs.js'

const HOUR_MS = 3_600_000
const START_MS = Date.UTC(2026, 10, 2)

const limit = (text: string): Limit => parseLimits([text], calendarCheck)[0] as Limit
const hours = (...tokens: number[]) =>
  tokens.map((each, at) => {
    return {startMs: START_MS + at * HOUR_MS, endMs: START_MS + (at + 1) * HOUR_MS, tokens: each, writes: each}
  })

describe('refusals by a proposed limit', () => {
  it.each([
    // 60 at once and 3,600 an hour.
    ['rpm=60', [50, 3000], {verdict: 'possible', refusedTokens: 0, possibleWindows: 1}],
    ['rpm=60', [3660], {verdict: 'possible', refusedTokens: 0}],
    ['rpm=60', [3661], {verdict: 'refused', refusedTokens: 1, refusedWindows: 1}],
    // A full hour leaves nothing for the next beyond its refill.
    ['rpm=60', [3660, 3700], {verdict: 'refused', refusedTokens: 100}],
    ['rpm=60', [30, 30], {verdict: 'fits'}],
    ['rpm=60', [40, 30], {verdict: 'bursts'}],
    // Up to half of 3,660, only bursts above twice the average are refused.
    ['rpm=60', [1830], {verdict: 'bursts', possibleWindows: 1}],
    ['rpm=60', [1831], {verdict: 'possible'}],
    ['rpm=60:3600', [3650, 100], {verdict: 'possible'}],
    ['rpm=60:3601', [0, 3000, 3000], {verdict: 'possible'}],
    ['rpm=60,x2@"* 9-16 * * *"', [61], {verdict: 'possible'}],
    ['rpm=60,soft', [5000], {verdict: 'near'}],
    // A quota of a calendar day, in a zone that is whole hours away.
    ['rpd=100/day@UTC', [60, 50], {verdict: 'refused', refusedTokens: 10, isExact: true}],
    ['rpd=100/day@UTC', [50, 50], {verdict: 'near', refusedTokens: 0, isExact: true}],
    ['rpd=100/day@UTC', [50, 20], {verdict: 'fits', isExact: true}],
    ['rpd=100/day@Asia/Kolkata', [...Array(18).fill(0), 80, 80], {verdict: 'possible', isExact: false}],
    ['s=100/5h!', [40, 70], {verdict: 'possible', isExact: false}],
    ['s=100/5h!', [201], {verdict: 'refused', refusedTokens: 1}],
    ['s=100/5h!', [40, 50], {verdict: 'fits'}],
    // At its most while a window is open, which is not looked into.
    ['rpm=60,x2@"* 9-16 * * *"', [7000], {verdict: 'possible'}],
    ['rpm=60,x2@"* 9-16 * * *"', [7321], {verdict: 'refused', refusedTokens: 1}],
  ])('judges %s of %j', (text, tokens, expected) => {
    expect(limitImpact(limit(text), hours(...tokens))).toMatchObject(expected)
  })

  it.each([
    // A raised limit admits all that the present one admitted.
    ['rpm=60', 'rpm=60', [50, 3000], 'near'],
    ['rpm=60', 'rpm=100:120', [50, 3000], 'fits'],
    ['s=100/5h!', 's=200/5h!', [150, 150], 'fits'],
    ['rpm=60', 'rpm=3600/hour:59', [50, 3000], 'possible'],
    ['rpm=60', 'rpm=59:60', [50, 3000], 'possible'],
    ['rpm=60,soft', 'rpm=60', [50, 3000], 'possible'],
    ['rpm=60,x2@"* 9-16 * * *"', 'rpm=60', [50, 3000], 'possible'],
    // More was used than the present limit can admit: it was set later.
    ['rpm=60', 'rpm=100', [50, 9000], 'refused'],
  ])('judges the change from %s to %s with %j', (before, after, tokens, verdict) => {
    expect(limitImpact(limit(after), hours(...tokens), limit(before))).toMatchObject({verdict})
  })

  it('knows of bursts by writes that took more than the capacity at once', () => {
    const [hour] = hours(122)
    const verdictOf = (writes: number) => limitImpact(limit('rpm=60'), [{...hour, writes} as never]).verdict
    expect([1, 2, 3].map(verdictOf)).toEqual(['possible', 'possible', 'bursts'])
  })

  it('uses midnight in Berlin, not in UTC', () => {
    // 22:00 and 23:00 UTC: the first hour is of the day before, in Berlin.
    const late = hours(...Array(22).fill(0), 90, 90)
    expect(limitImpact(limit('rpd=100/day@UTC'), late)).toMatchObject({verdict: 'refused', refusedTokens: 80})
    expect(limitImpact(limit('rpd=100/day@Europe/Berlin'), late)).toMatchObject({verdict: 'near', refusedTokens: 0})
  })

  it('never reports a certain refusal that a bucket would admit, nor a fit that it would refuse', () => {
    // Random requests, to the second, played through a bucket in exact thousandths.
    const requests = fc.array(fc.tuple(fc.nat(4 * 3600 - 1), fc.integer({min: 1, max: 40})), {
      minLength: 1,
      maxLength: 60,
    })
    fc.assert(
      fc.property(requests, fc.integer({min: 1, max: 60}), fc.integer({min: 1, max: 200}), (all, amount, capacity) => {
        const byTime = all.toSorted(([a], [b]) => a - b)
        let [level, at, refused] = [capacity * 60, 0, 0]
        const used = [0, 0, 0, 0]
        for (const [second, tokens] of byTime) {
          level = Math.min(capacity * 60, level + (second - at) * amount)
          at = second
          used[Math.floor(second / 3600)] = (used[Math.floor(second / 3600)] ?? 0) + tokens
          if (level >= tokens * 60) level -= tokens * 60
          else refused += tokens
        }
        const impact = limitImpact(limit(`rpm=${amount}/min:${capacity}`), hours(...used))
        // Requests are refused whole, recorded tokens are not: a refusal may be of a little more.
        if (impact.verdict === 'refused') expect(refused).toBeGreaterThan(0)
        if (impact.verdict === 'fits' || impact.verdict === 'near') expect(refused).toBe(0)
        expect(impact.refusedTokens).toBeLessThanOrEqual(refused)
      }),
      {numRuns: runs(300)},
    )
  })
})
