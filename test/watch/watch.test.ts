import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limit.js'
import type {HealthLine, Watch} from '../../src/lib/watch/model.js'
import type {WatchOptions} from '../../src/lib/watch/watch.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {putBucket} from '../repository/namespace-table.js'
import {pollNumber, until, WatchStage} from './running-watch.js'

const limits = parseLimits(['rpm=100'])

describeOnEngine('a watch', () => {
  const table = useTable()
  let stage: WatchStage
  let calls: () => number
  let {tenant, faults, timers} = {} as WatchStage

  beforeEach(async () => {
    stage = new WatchStage(table)
    ;({tenant, faults, timers} = stage)
    calls = () => faults.calls.length
    await putBucket(tenant, {entity: 'ada', resource: 'r', limits})
  })

  const open = (rest: Partial<WatchOptions> = {}): Watch => stage.open(rest)

  it('reads nothing before it starts, then once per interval, and nothing after it was stopped', async () => {
    const watch = open()
    expect(calls()).toBe(0)
    expect(watch.knowledge()).toMatchObject({readings: new Map(), lastPoll: undefined, isPaused: false})
    await watch.start()
    expect([...watch.knowledge().readings.keys()]).toEqual(['ada#r'])
    expect(timers.delays).toEqual([2000])
    timers.advance(1999)
    expect(watch.knowledge().lastPoll?.number).toBe(1)
    timers.advance(1)
    await pollNumber(watch, 2)
    await watch.stop()
    const before = calls()
    timers.advance(100_000)
    watch.pollNow()
    watch.look('ada#r')
    expect(calls()).toBe(before)
    expect(timers.delays).toEqual([])
  })

  it('what it knows is the same object until something changes', async () => {
    const watch = open()
    await watch.start()
    const knowledge = watch.knowledge()
    expect(watch.knowledge()).toBe(knowledge)
    let changes = 0
    const unsubscribe = watch.subscribe(() => changes++)
    watch.pollNow()
    await pollNumber(watch, 2)
    expect(watch.knowledge()).not.toBe(knowledge)
    expect(changes).toBe(1)
    unsubscribe()
    watch.setPaused(true)
    expect(changes).toBe(1)
    await watch.stop()
  })

  it('a first poll that fails is an error like any other', async () => {
    faults.start({kind: 'unreachable', at: 1, times: 100})
    const watch = open()
    await expect(watch.start()).rejects.toMatchObject({code: 'dynamo.unavailable'})
    expect(timers.delays).toEqual([])
    await watch.stop()
  })

  it('a later failure keeps what is known, says so, and the next poll mends it', async () => {
    const watch = open()
    await watch.start()
    const {readings} = watch.knowledge()
    faults.start({kind: '5xx', at: 1, times: 100})
    timers.advance(2000)
    await until(watch, () => watch.knowledge().problem !== undefined)
    expect(watch.knowledge()).toMatchObject({
      readings,
      lastPoll: {number: 1},
      problem: {
        message: expect.stringContaining('DynamoDB did not answer Query'),
        isThrottled: false,
        sinceMs: tenant.nowMs,
        nextTryAtMs: tenant.nowMs + 2000,
      },
    })
    const sinceMs = tenant.nowMs
    const first = watch.knowledge().problem
    timers.advance(2000)
    await until(watch, () => watch.knowledge().problem !== first)
    expect(watch.knowledge().problem).toMatchObject({sinceMs, nextTryAtMs: tenant.nowMs + 2000})
    faults.start()
    timers.advance(2000)
    await pollNumber(watch, 2)
    expect(watch.knowledge().problem).toBeUndefined()
    await watch.stop()
  })

  it('throttling doubles the pause up to a minute; one good poll brings the interval back', async () => {
    const watch = open()
    await watch.start()
    faults.start({kind: 'throttled', at: 1, times: 1000})
    const pauses: number[] = []
    for (let failures = 0; failures < 7; failures++) {
      const {problem} = watch.knowledge()
      timers.advance(timers.delays[0] ?? 0)
      await until(watch, () => watch.knowledge().problem !== problem)
      expect(watch.knowledge().problem?.isThrottled).toBe(true)
      pauses.push(timers.delays[0] ?? 0)
      expect(watch.knowledge().problem?.nextTryAtMs).toBe(tenant.nowMs + (pauses.at(-1) ?? 0))
    }
    expect(pauses).toEqual([4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000])
    faults.start()
    watch.pollNow()
    await pollNumber(watch, 2)
    expect(timers.delays).toEqual([2000])
    await watch.stop()
  })

  it('has one poll in flight, however often it is asked', async () => {
    const watch = open()
    await watch.start()
    faults.start({kind: 'late answer', at: 1, operation: 'Query'})
    watch.pollNow()
    watch.pollNow()
    timers.advance(10_000)
    watch.pollNow()
    expect(faults.calls.filter(call => call.startsWith('Query'))).toHaveLength(1)
    faults.release()
    await pollNumber(watch, 2)
    expect(faults.calls.filter(call => call.startsWith('Query'))).toHaveLength(1)
    await watch.stop()
  })

  it('stopping gives up what is in flight', async () => {
    const watch = open()
    await watch.start()
    faults.start({kind: 'late answer', at: 1, operation: 'Query'})
    watch.pollNow()
    await watch.stop()
    expect(watch.knowledge()).toMatchObject({lastPoll: {number: 1}, problem: undefined})
    faults.release()
  })

  it('pause stops polls, not those that are asked for; going on polls at once', async () => {
    const watch = open()
    await watch.start()
    watch.setPaused(true)
    expect(timers.delays).toEqual([])
    watch.pollNow()
    await pollNumber(watch, 2)
    expect(timers.delays).toEqual([])
    watch.setPaused(false)
    await pollNumber(watch, 3)
    expect(timers.delays).toEqual([2000])
    await watch.stop()
  })

  it('another interval counts from now', async () => {
    const watch = open()
    await watch.start()
    watch.setIntervalMs(5000)
    expect(timers.delays).toEqual([5000])
    expect(watch.knowledge().intervalMs).toBe(5000)
    await watch.stop()
  })

  it('health is asked for while somebody looks, and how the polls go is part of it', async () => {
    const lines: HealthLine[] = [{name: 'engine', state: 'ok', text: 'up'}]
    let asked = 0
    const health = async () => {
      asked++
      if (asked === 2) throw new Error('no permission')
      return lines
    }
    const watch = open({health})
    await watch.start()
    expect(asked).toBe(0)
    watch.watchHealth(true)
    watch.watchHealth(true)
    await until(watch, () => watch.knowledge().health !== undefined)
    expect(watch.knowledge().health).toEqual([
      ...lines,
      {name: 'polls', state: 'ok', text: expect.stringContaining('1 done')},
    ])
    timers.advance(15_000)
    await until(watch, () => watch.knowledge().health?.[0]?.state === 'unknown')
    expect(watch.knowledge().health?.[0]).toEqual({name: 'health', state: 'unknown', text: 'no permission'})
    watch.watchHealth(false)
    timers.advance(100_000)
    expect(asked).toBe(2)
    await watch.stop()
  })
})
