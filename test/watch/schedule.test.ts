import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limit.js'
import type {FaultKind} from '../helpers/fault-transport.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {putBucket} from '../repository/namespace-table.js'
import {pollNumber, until, WatchStage} from './running-watch.js'

describeOnEngine('when the next try comes', () => {
  const table = useTable()
  let stage: WatchStage
  let {tenant, faults, timers} = {} as WatchStage

  beforeEach(async () => {
    stage = new WatchStage(table)
    ;({tenant, faults, timers} = stage)
    await putBucket(tenant, {entity: 'ada', resource: 'r', limits: parseLimits(['rpm=100'])})
  })

  /** A watch whose second poll has failed. */
  const failing = async (kind: FaultKind) => {
    const watch = stage.open()
    await watch.start()
    faults.start({kind, at: 1, times: 1000})
    timers.advance(2000)
    await until(watch, () => watch.knowledge().problem !== undefined)
    const nextTry = () => watch.knowledge().problem?.nextTryAtMs
    return {watch, nextTry, told: () => (nextTry() ?? Number.NaN) - tenant.nowMs}
  }

  it('another interval moves it, and what is told about it', async () => {
    const {watch, told} = await failing('5xx')
    expect([told(), timers.delays]).toEqual([2000, [2000]])
    timers.advance(500)
    watch.setIntervalMs(5000)
    expect([told(), timers.delays]).toEqual([5000, [5000]])
    await watch.stop()
  })

  it('another interval does not cut the pause short that throttling has led to', async () => {
    const {watch, told} = await failing('throttled')
    expect([told(), timers.delays]).toEqual([4000, [4000]])
    watch.setIntervalMs(500)
    expect(watch.knowledge().intervalMs).toBe(500)
    expect([told(), timers.delays]).toEqual([4000, [4000]])
    await watch.stop()
  })

  it('none comes while polls are paused, also after one that was asked for', async () => {
    const {watch, nextTry} = await failing('5xx')
    watch.setPaused(true)
    expect([nextTry(), timers.delays]).toEqual([undefined, []])
    watch.setIntervalMs(1000)
    expect([nextTry(), timers.delays]).toEqual([undefined, []])
    const {problem} = watch.knowledge()
    watch.pollNow()
    await until(watch, () => watch.knowledge().problem !== problem)
    expect([nextTry(), timers.delays]).toEqual([undefined, []])
    faults.start()
    watch.setPaused(false)
    await pollNumber(watch, 2)
    expect(watch.knowledge().problem).toBeUndefined()
    expect(timers.delays).toEqual([1000])
    await watch.stop()
  })
})
