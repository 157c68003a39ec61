import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import type {FaultKind} from '../../helpers/fault-transport.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {putBucket} from '../../repository/namespace-table.js'
import {pollNumber, until, WatchFixture} from '../watch-fixture.js'

describeOnBoth('the next try', {}, table => {
  let fixture: WatchFixture
  let {tenant, faults, timers} = {} as WatchFixture

  beforeEach(async () => {
    fixture = new WatchFixture(table)
    ;({tenant, faults, timers} = fixture)
    await putBucket(tenant, {entity: 'ada', resource: 'r', limits: parseLimits(['rpm=100'])})
  })

  /** A watch whose second poll has failed. */
  const failing = async (kind: FaultKind) => {
    const watch = fixture.open()
    await watch.start()
    faults.start({kind, at: 1, times: 1000})
    timers.advance(2000)
    await until(watch, () => watch.data().problem !== undefined)
    const nextTry = () => watch.data().problem?.nextTryAtMs
    return {watch, nextTry, untilNextTryMs: () => (nextTry() ?? Number.NaN) - tenant.nowMs}
  }

  it('moves with the interval, and so does its reported time', async () => {
    const {watch, untilNextTryMs} = await failing('5xx')
    expect([untilNextTryMs(), timers.delays]).toEqual([2000, [2000]])
    timers.advance(500)
    watch.setIntervalMs(5000)
    expect([untilNextTryMs(), timers.delays]).toEqual([5000, [5000]])
    await watch.stop()
  })

  it('is not moved forward by another interval while throttled', async () => {
    const {watch, untilNextTryMs} = await failing('throttled')
    expect([untilNextTryMs(), timers.delays]).toEqual([4000, [4000]])
    watch.setIntervalMs(500)
    expect(watch.data().intervalMs).toBe(500)
    expect([untilNextTryMs(), timers.delays]).toEqual([4000, [4000]])
    await watch.stop()
  })

  it('is not scheduled while polls are paused, also after a manual poll', async () => {
    const {watch, nextTry} = await failing('5xx')
    watch.setPaused(true)
    expect([nextTry(), timers.delays]).toEqual([undefined, []])
    watch.setIntervalMs(1000)
    expect([nextTry(), timers.delays]).toEqual([undefined, []])
    const {problem} = watch.data()
    watch.pollNow()
    await until(watch, () => watch.data().problem !== problem)
    expect([nextTry(), timers.delays]).toEqual([undefined, []])
    faults.start()
    watch.setPaused(false)
    await pollNumber(watch, 2)
    expect(watch.data().problem).toBeUndefined()
    expect(timers.delays).toEqual([1000])
    await watch.stop()
  })
})
