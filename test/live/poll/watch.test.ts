import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import type {HealthLine, Watch} from '../../../src/lib/live/model/model.js'
import type {WatchOptions} from '../../../src/lib/live/poll/watch.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {putBucket} from '../../repository/namespace-table.js'
import {pollNumber, settled, until, WatchFixture} from '../watch-fixture.js'

const limits = parseLimits(['rpm=100'])

describeOnBoth('a watch', {}, table => {
  let fixture: WatchFixture
  let calls: () => number
  let {tenant, faults, timers} = {} as WatchFixture

  beforeEach(async () => {
    fixture = new WatchFixture(table)
    ;({tenant, faults, timers} = fixture)
    calls = () => faults.calls.length
    await putBucket(tenant, {entity: 'ada', resource: 'r', limits})
  })

  const open = (rest: Partial<WatchOptions> = {}): Watch => fixture.open(rest)

  it('reads nothing before it starts, then once per interval, and nothing after it is stopped', async () => {
    const watch = open()
    expect(calls()).toBe(0)
    expect(watch.data()).toMatchObject({readings: new Map(), lastPoll: undefined, isPaused: false})
    await watch.start()
    expect([...watch.data().readings.keys()]).toEqual(['ada#r'])
    expect(timers.delays).toEqual([2000])
    timers.advance(1999)
    expect(watch.data().lastPoll?.number).toBe(1)
    timers.advance(1)
    await pollNumber(watch, 2)
    await watch.stop()
    const before = calls()
    timers.advance(100_000)
    watch.pollNow()
    watch.setDetail('ada#r')
    expect(calls()).toBe(before)
    expect(timers.delays).toEqual([])
  })

  it('returns the same data object until something changes', async () => {
    const watch = open()
    await watch.start()
    const data = watch.data()
    expect(watch.data()).toBe(data)
    let changes = 0
    const unsubscribe = watch.subscribe(() => changes++)
    watch.pollNow()
    await pollNumber(watch, 2)
    expect(watch.data()).not.toBe(data)
    expect(changes).toBe(1)
    unsubscribe()
    watch.setPaused(true)
    expect(changes).toBe(1)
    await watch.stop()
  })

  it('throws when the first poll fails', async () => {
    faults.start({kind: 'unreachable', at: 1, times: 100})
    const watch = open()
    await expect(watch.start()).rejects.toMatchObject({code: 'dynamo.unavailable'})
    expect(timers.delays).toEqual([])
    await watch.stop()
  })

  it('keeps its data after a later failure, reports the problem, and clears it with the next poll', async () => {
    const watch = open()
    await watch.start()
    const {readings} = watch.data()
    faults.start({kind: '5xx', at: 1, times: 100})
    timers.advance(2000)
    await until(watch, () => watch.data().problem !== undefined)
    expect(watch.data()).toMatchObject({
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
    const first = watch.data().problem
    timers.advance(2000)
    await until(watch, () => watch.data().problem !== first)
    expect(watch.data().problem).toMatchObject({sinceMs, nextTryAtMs: tenant.nowMs + 2000})
    faults.start()
    timers.advance(2000)
    await pollNumber(watch, 2)
    expect(watch.data().problem).toBeUndefined()
    await watch.stop()
  })

  it('doubles the pause with every throttled poll, up to a minute, until a poll succeeds', async () => {
    const watch = open()
    await watch.start()
    faults.start({kind: 'throttled', at: 1, times: 1000})
    const pauses: number[] = []
    for (let failures = 0; failures < 7; failures++) {
      const {problem} = watch.data()
      timers.advance(timers.delays[0] ?? 0)
      await until(watch, () => watch.data().problem !== problem)
      expect(watch.data().problem?.isThrottled).toBe(true)
      pauses.push(timers.delays[0] ?? 0)
      expect(watch.data().problem?.nextTryAtMs).toBe(tenant.nowMs + (pauses.at(-1) ?? 0))
    }
    expect(pauses).toEqual([4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000])
    faults.start()
    watch.pollNow()
    await pollNumber(watch, 2)
    expect(timers.delays).toEqual([2000])
    await watch.stop()
  })

  it('has at most one poll in flight', async () => {
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

  it('aborts a poll in flight when it is stopped', async () => {
    const watch = open()
    await watch.start()
    faults.start({kind: 'late answer', at: 1, operation: 'Query'})
    watch.pollNow()
    await watch.stop()
    expect(watch.data()).toMatchObject({lastPoll: {number: 1}, problem: undefined})
    faults.release()
  })

  it('sends only manual polls while paused, and polls at once when resumed', async () => {
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

  it('starts a new interval at once when it is changed', async () => {
    const watch = open()
    await watch.start()
    watch.setIntervalMs(5000)
    expect(timers.delays).toEqual([5000])
    expect(watch.data().intervalMs).toBe(5000)
    await watch.stop()
  })

  it('loads health while it is watched, and adds the state of the polls', async () => {
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
    await until(watch, () => watch.data().health !== undefined)
    expect(watch.data().health).toEqual([
      ...lines,
      {name: 'polls', state: 'ok', text: expect.stringContaining('1 done')},
    ])
    timers.advance(15_000)
    await until(watch, () => watch.data().health?.[0]?.state === 'unknown')
    expect(watch.data().health?.[0]).toEqual({name: 'health', state: 'unknown', text: 'no permission'})
    watch.watchHealth(false)
    timers.advance(100_000)
    expect(asked).toBe(2)
    await watch.stop()
  })

  it('explains a bucket every 5 s while the explanation is open, and reports why it cannot', async () => {
    const asked: string[] = []
    const why: WatchOptions['why'] = async ({entity, resource}) => {
      asked.push(`${entity} ${resource}`)
      if (asked.length === 2) throw new Error('throttled')
      return [`look ${asked.length}`]
    }
    const watch = open({why, intervalMs: 3_600_000})
    await watch.start()
    watch.setWhy('ada#r')
    await until(watch, () => watch.data().why !== undefined)
    expect(watch.data().why).toEqual({id: 'ada#r', loadedAtMs: tenant.nowMs, lines: ['look 1']})
    const first = watch.data().why
    await settled()
    timers.advance(5000)
    await until(watch, () => watch.data().why !== first)
    expect(watch.data().why?.lines).toEqual(['Cannot explain the bucket now: throttled'])
    await settled()
    watch.setWhy(undefined)
    expect(watch.data().why).toBeUndefined()
    timers.advance(60_000)
    expect(asked).toEqual(['ada r', 'ada r'])
    await watch.stop()
  })
})
