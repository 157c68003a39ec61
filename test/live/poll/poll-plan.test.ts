import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {
  affordableShards,
  isListingDue,
  POLL_UNITS,
  type PollCandidate,
  pageSize,
  planReads,
} from '../../../src/lib/live/poll/poll-plan.js'

const candidate = (id: number | string, rest: Partial<PollCandidate> = {}): PollCandidate => ({
  id: String(id),
  shards: 1,
  readAtMs: undefined,
  isActive: false,
  ...rest,
})
const range = (count: number) => Array.from({length: count}, (_, at) => at)

const anyCandidates = fc
  .array(
    fc.record({
      shards: fc.integer({min: 1, max: 40}),
      readAtMs: fc.option(fc.integer({min: 1, max: 1000}), {nil: undefined}),
      isActive: fc.boolean(),
    }),
    {maxLength: 60},
  )
  .map(all => all.map((each, at) => candidate(at, each)))

describe('a poll', () => {
  it('reads all buckets if they are affordable', () => {
    const all = range(100).map(at => candidate(at))
    expect(planReads(all, new Set(), 100)).toEqual(all.map(({id}) => id))
    expect(planReads([], new Set(), 100)).toEqual([])
  })

  it('reads no bucket twice, and stays within the budget, except for the bucket with the oldest reading', () => {
    fc.assert(
      fc.property(anyCandidates, fc.integer({min: 1, max: 120}), fc.array(fc.nat(70)), (all, affordable, focus) => {
        const ids = planReads(all, new Set(focus.map(String)), affordable)
        expect(new Set(ids).size).toBe(ids.length)
        const cost = ids.reduce((sum, id) => sum + (all.find(each => each.id === id)?.shards ?? Number.NaN), 0)
        const oldest = all.toSorted((a, b) => (a.readAtMs ?? 0) - (b.readAtMs ?? 0))[0]
        expect(cost).toBeLessThanOrEqual(Math.max(affordable, oldest?.shards ?? 0))
        if (oldest) expect(ids).toContain(oldest.id)
      }),
    )
  })

  it('reads visible buckets, then active ones, and reserves a fraction for the others', () => {
    const all = range(400).map(at => candidate(at, {readAtMs: 1000 + at, isActive: at >= 300}))
    const ids = planReads(all, new Set(['390', '391', '250']), 100)
    expect(ids).toHaveLength(100)
    expect(ids).toEqual(expect.arrayContaining(['250', '390', '391']))
    expect(ids.filter(id => Number(id) >= 300)).toHaveLength(73)
    expect(ids.filter(id => Number(id) < 300 && id !== '250')).toEqual(range(26).map(String))
  })

  it('reserves a larger fraction while some were never read', () => {
    const all = range(400).map(at => candidate(at, at < 200 ? {readAtMs: 1000 + at, isActive: true} : {}))
    const ids = planReads(all, new Set(), 100)
    expect(ids.filter(id => Number(id) < 200)).toHaveLength(49)
    expect(ids.filter(id => Number(id) >= 200)).toHaveLength(51)
  })

  it('reads every bucket eventually, also one that exceeds the budget', () => {
    const all = [
      candidate('big', {shards: 60, readAtMs: 500}),
      ...range(300).map(at => candidate(at, {isActive: at < 150})),
    ]
    const readAtMs = new Map(all.map(each => [each.id, each.readAtMs ?? 0]))
    for (let poll = 1; poll <= 30; poll++) {
      const now = all.map(each => ({...each, readAtMs: readAtMs.get(each.id)}))
      for (const id of planReads(now, new Set(), 100)) readAtMs.set(id, 1000 + poll)
    }
    expect(Math.min(...readAtMs.values())).toBeGreaterThan(1000)
  })

  it('lists as many addresses as its share of the units allows', () => {
    expect(pageSize(undefined)).toBe(100)
    expect(pageSize(0)).toBe(100)
    expect(pageSize(0.03)).toBe(333)
    expect(pageSize(3)).toBe(20)
    expect(pageSize(0.0001)).toBe(1000)
  })

  it('lists a long index with pauses, a short one with every poll', () => {
    expect(isListingDue({pages: 1, endedAtMs: 1000}, 1000)).toBe(true)
    expect(isListingDue({pages: 2, endedAtMs: 1000}, 30_999)).toBe(false)
    expect(isListingDue({pages: 2, endedAtMs: 1000}, 31_000)).toBe(true)
  })

  it('always reads at least one item', () => {
    expect(affordableShards(0, 0.5)).toBe(POLL_UNITS * 2)
    expect(affordableShards(10, 1)).toBe(40)
    expect(affordableShards(60, 1)).toBe(1)
  })
})
