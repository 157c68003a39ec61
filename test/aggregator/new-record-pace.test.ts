import {describe, expect, it} from 'vitest'
import type {UsageGroup} from '../../src/lib/aggregator/usage.js'
import {NewRecordPace} from '../../src/lib/aggregator/usage-counter.js'
import type {Window} from '../../src/lib/core/window.js'

const HOUR = '2026-11-16T12:00:00Z'
const HOUR_MS = Date.parse(HOUR)

/** A process with a controlled clock; all turns of a batch are requested at once, like a stream batch. */
function process(nowMs: number) {
  const waits: number[] = []
  const state = {nowMs}
  const sleep = async (ms: number) => void waits.push(ms)
  const pace = new NewRecordPace({clock: () => state.nowMs, backoff: {random: () => 0, sleep}})
  const group = (entity: string, {resource = 'gpt-4', window = 'hourly' as Window, start = HOUR} = {}): UsageGroup => ({
    ...{namespace: 'ns', entity, resource, window, start},
    changes: new Map(),
  })
  const batch = async (count: number, options: Parameters<typeof group>[1] = {}) => {
    waits.length = 0
    await Promise.all(Array.from({length: count}, (_, at) => pace.turn(group(`user-${at}`, options))))
    return waits
  }
  return {state, batch}
}

describe('the first usage records of an hour', () => {
  it('are written at most 250 a second for one resource, first come first served', async () => {
    const {batch} = process(HOUR_MS + 2_000)
    const waits = await batch(1001)
    expect(waits).toEqual(Array.from({length: 1000}, (_, at) => (at + 1) * 4))
  })

  it('wait for each other over several batches', async () => {
    const {state, batch} = process(HOUR_MS)
    await batch(1000)
    state.nowMs += 1_000
    // The earlier 1,000 take four seconds; these are the same and 50 more.
    expect((await batch(1050))[0]).toBe(3_000)
  })

  it('do not wait for those of another resource', async () => {
    const {batch} = process(HOUR_MS)
    await batch(500)
    expect(await batch(1, {resource: 'embeddings'})).toEqual([])
  })

  it('are not delayed if the record exists, the hour is older than a minute, or the change is of an earlier hour', async () => {
    const {state, batch} = process(HOUR_MS)
    await batch(500)
    expect(await batch(500)).toEqual([])
    expect(await batch(600, {start: '2026-11-16T11:00:00Z'})).toEqual([])
    state.nowMs += 60_000
    expect(await batch(5_000)).toEqual([])
  })

  it('are paced again in the next hour', async () => {
    const {state, batch} = process(HOUR_MS)
    await batch(2)
    state.nowMs += 3_600_000
    expect(await batch(3, {start: '2026-11-16T13:00:00Z'})).toEqual([4, 8])
  })
})
