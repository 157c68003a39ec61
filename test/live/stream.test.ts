import {afterEach, describe, expect, it, vi} from 'vitest'
import type {WatchResult} from '../../src/lib/live/results.js'
import {followWatch} from '../../src/lib/live/run.js'
import {FakeWatch} from './screen/fake-watch.js'
import {bucketOf, READ_AT_MS, readingOf} from './support.js'

const ALL = ['ada#gpt-4', 'ben#gpt-4', 'zoe#search'].map(id => readingOf(bucketOf(id, {limits: {rpm: {capacity: 60}}})))

describe('a watch without a screen', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  /** The documents and the closing line of a watch that ends by itself after a minute. */
  const followed = async (filter: string) => {
    vi.useFakeTimers({now: READ_AT_MS})
    const documents: WatchResult[] = []
    const watch = new FakeWatch(ALL, Date.now)
    const end = followWatch(watch, {
      selection: {sort: 'left', reversed: false, filter},
      top: 0,
      forMs: 60_000,
      print: document => documents.push(document),
    })
    vi.advanceTimersByTime(60_000)
    return {documents, ...(await end)}
  }

  it('summarises the buckets that match the filter', async () => {
    const {documents, summary, exitCode} = await followed('search')
    expect(exitCode).toBe(0)
    expect(documents.map(({totals, bucketsWatched}) => [totals.buckets, bucketsWatched])).toEqual([[1, 3]])
    expect(summary).toBe('Watched 1 of 3 buckets for 1 min 0 s, 1 poll, 12.5 read units; 0 over, 0 near at the end.')
  })

  it('summarises all buckets when there is no filter', async () => {
    const {summary} = await followed('')
    expect(summary).toMatch(/^Watched 3 buckets for 1 min 0 s, /)
  })
})
