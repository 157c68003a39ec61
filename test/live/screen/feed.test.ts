import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {WatchFeed} from '../../../src/lib/live/screen/live-view.js'
import {READ_AT_MS} from '../support.js'
import {FakeWatch} from './fake-watch.js'
import {SAMPLE} from './fixtures.js'

let watch: FakeWatch
let feed: WatchFeed
let changes: number
let stop: () => void

beforeEach(() => {
  vi.useFakeTimers({now: READ_AT_MS})
  watch = new FakeWatch(SAMPLE, Date.now)
  feed = new WatchFeed(watch)
  changes = 0
  stop = feed.subscribe(() => changes++)
  changes = 0
})

afterEach(() => {
  stop()
  vi.useRealTimers()
})

/** Changes that come within some time. */
async function during(ms: number): Promise<number> {
  const before = changes
  await vi.advanceTimersByTimeAsync(ms)
  return changes - before
}

describe('a snapshot', () => {
  it('is the same object until something changes', () => {
    expect(feed.current()).toBe(feed.current())
  })

  it('changes at once with the watch, and has its data', () => {
    watch.poll(SAMPLE.slice(1))
    expect(changes).toBe(1)
    expect(feed.current().data).toBe(watch.data())
  })

  it('changes once a second while nothing else happens', async () => {
    watch.update({isPaused: true})
    expect(await during(10_000)).toBe(10)
    expect(feed.current().nowMs).toBe(READ_AT_MS + 10_000)
  })
})

it('waits for a poll that is due: one change per poll where polls come every second', async () => {
  watch.update({intervalMs: 1000})
  const before = changes
  for (let poll = 0; poll < 20; poll++) {
    await vi.advanceTimersByTimeAsync(1080)
    watch.poll(SAMPLE)
  }
  expect(changes - before).toBe(20)
})

it('does not wait long for a poll that does not come', async () => {
  watch.update({intervalMs: 1000})
  expect(await during(1299)).toBe(0)
  expect(await during(1)).toBe(1)
  expect(await during(1000)).toBe(1)
})

it('counts the polls and their cost, each once', () => {
  watch.poll(SAMPLE, 10)
  watch.update({health: []})
  expect(feed.stats).toMatchObject({polls: 2, readUnits: 22.5})
})

it('leaves no timer and no subscription behind', () => {
  const running = vi.getTimerCount()
  stop()
  expect(vi.getTimerCount()).toBe(running - 1)
  expect(watch.listeners).toBe(0)
})
