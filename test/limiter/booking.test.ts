import {beforeEach, expect, it, vi} from 'vitest'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {AcquireRequest, RateLimiterOptions} from '../../src/lib/limiter/request/options.js'
import type {TableSeams} from '../../src/lib/repository/table/open-table.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {seededRandom} from './fixtures/seeded-random.js'
import {StoppableProcess} from './fixtures/stoppable-process.js'
import {VirtualTime} from './fixtures/virtual-time.js'
import {failure, refusal, request} from './visit.js'

interface Start {
  readonly name: string
  readonly atMs: number
  readonly tokens: number
}

describeOnBoth('waiting for a rate', {timeout: 60_000}, (table, extent) => {
  let scene: Scene
  let time: VirtualTime
  let faults: FaultTransport
  let starts: Start[]
  let beganMs: number
  beforeEach(async () => {
    scene = new Scene(table)
    time = new VirtualTime()
    faults = new FaultTransport(table.transport)
    starts = []
    beganMs = time.clock()
    scene.transport = {
      send: (operation, input, options) => {
        scene.calls.push(operation)
        return faults.send(operation, input, options)
      },
    }
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min:100')
  })

  const pass = (ms: number, signal?: AbortSignal) =>
    new Promise<void>(resolve => {
      signal?.addEventListener('abort', () => resolve())
      time.after(ms, resolve)
    })
  /** Retries take no time: only a wait for admission does. */
  const sleep = async (ms: number, signal?: AbortSignal) => {
    if (ms >= 500) await pass(ms, signal)
  }
  const limiterOf = (options: RateLimiterOptions & TableSeams = {}) =>
    scene.limiter({clock: time.clock, sleep, ...options})
  /** A limiter that has emptied the bucket. */
  const emptied = async (): Promise<RateLimiter> => {
    const limiter = limiterOf()
    await limiter.acquire(request({rpm: 100}))
    return limiter
  }
  /** Lets time pass until the work is done. */
  const play = async <T>(work: Promise<T>): Promise<T> => {
    let isDone = false
    const done = () => {
      isDone = true
    }
    work.then(done, done)
    while (!isDone) await time.run()
    return work
  }
  /** Notes when the request starts. Resolves to its error, if any. */
  const wait = (limiter: RateLimiter, name: string, tokens: number, more: Partial<AcquireRequest> = {}) =>
    limiter.acquire({...request({rpm: tokens}), waitMs: 600_000, ...more}).then(
      () => void starts.push({name, atMs: time.clock() - beganMs, tokens}),
      (error: unknown) => error,
    )
  /** Returns once the request waits: on an engine, other events would come before it is decided. */
  const begin = async (limiter: RateLimiter, name: string, tokens: number, more: Partial<AcquireRequest> = {}) => {
    let done: Promise<unknown> = Promise.resolve()
    await new Promise<void>(resolve => {
      done = wait(limiter, name, tokens, {...more, onWait: () => resolve()})
    })
    return {done}
  }
  const order = () => starts.map(({name}) => name).join(' ')
  const seconds = () => starts.map(({atMs}) => Math.floor(atMs / 1000))
  const totals = (entity = 'user-1') => scene.totals(entity, 'gpt-4', 'rpm')

  it('starts requests of two processes in the order of their arrival, at the instant the refill has paid for them', async () => {
    const [first, second] = [await emptied(), limiterOf()]
    await refusal(second.acquire(request({rpm: 1})))
    const waiting: Promise<unknown>[] = []
    // The next one comes when this one is booked.
    for (const [at, tokens] of [10, 90, 10, 1, 10, 40, 1, 5].entries())
      time.after(
        at * 10,
        () =>
          new Promise(resolve => {
            const limiter = at % 2 === 0 ? first : second
            waiting.push(wait(limiter, String(at), tokens, {onWait: () => resolve()}))
          }),
      )
    await time.run()
    await play(Promise.all(waiting))
    expect(order()).toBe('0 1 2 3 4 5 6 7')
    expect(seconds()).toEqual([10, 100, 110, 111, 121, 161, 162, 167])
    expect(await totals()).toMatchObject({consumed: 267})
  })

  it('charges a waiting request with one write, together with others of the process, and polls nothing', async () => {
    const limiter = await emptied()
    await limiter.acquire({...request({rpm: 1}), waitMs: 1}).catch(() => {})
    scene.calls.length = 0
    const waiting = Array.from({length: 50}, (_, at) => wait(limiter, String(at), 1))
    await play(Promise.all(waiting))
    expect(order()).toBe(Array.from({length: 50}, (_, at) => at).join(' '))
    expect(scene.calls.length).toBeLessThanOrEqual(2)
  })

  it('L2 reports the exact wait, and refuses at once what would start too late', async () => {
    const limiter = await emptied()
    const waits: number[] = []
    const more = {onWait: (ms: number) => waits.push(ms)}
    const waiting = [wait(limiter, 'a', 30, more), wait(limiter, 'b', 30, more)]
    const late = await refusal(limiter.acquire({...request({rpm: 1}), waitMs: 60_000}))
    expect(late.retryAfterMs).toBe(61_001)
    await play(Promise.all(waiting))
    expect(waits).toEqual([30_001, 60_001])
    expect(await totals()).toMatchObject({consumed: 160})
  })

  it('refuses requests that do not wait while others are booked', async () => {
    const [limiter, other] = [await emptied(), limiterOf()]
    const {done: waiting} = await begin(limiter, 'a', 30)
    time.after(20_000, async () => {
      expect((await refusal(other.acquire(request({rpm: 1})))).retryAfterMs).toBe(11_001)
      expect((await refusal(limiter.acquire(request({rpm: 1})))).retryAfterMs).toBe(11_001)
    })
    expect(await play(waiting)).toBeUndefined()
    expect(seconds()).toEqual([30])
  })

  it('S4 returns the tokens of a request that is aborted, also when the limiter is closed', async () => {
    const limiter = await emptied()
    const [stop, closing] = [new AbortController(), limiterOf()]
    const {done: aborted} = await begin(limiter, 'a', 30, {signal: stop.signal})
    const {done: closed} = await begin(closing, 'b', 20)
    time.after(10_000, () => stop.abort(new Error('gone')))
    time.after(11_000, () => closing.close())
    await play(Promise.all([aborted, closed]))
    expect(await aborted).toMatchObject({code: 'dynamo.aborted'})
    expect(await closed).toMatchObject({code: 'limiter.closed'})
    await limiter.settled()
    expect((await totals()).consumed).toBe(100)
  })

  it('S4 returns the tokens if onWait throws', async () => {
    const limiter = await emptied()
    const onWait = () => {
      throw new Error('oops')
    }
    expect(await failure(wait(limiter, 'a', 30, {onWait}))).toBeInstanceOf(Error)
    await limiter.settled()
    expect((await totals()).consumed).toBe(100)
  })

  it('books batch requests while the bucket owes less than its capacity, so that others find a place', async () => {
    const limiter = await emptied()
    const begun = await Promise.all(
      Array.from({length: 5}, (_, at) => begin(limiter, `batch ${at}`, 60, {priority: 'batch'})),
    )
    const others = await begin(limiter, 'interactive', 10, {waitMs: 131_000})
    await play(Promise.all([...begun, others].map(({done}) => done)))
    expect(order()).toMatch(/^batch 0 batch 1 interactive /)
    expect(starts).toHaveLength(6)
    expect(seconds().slice(0, 3)).toEqual([60, 120, 130])
    const invalid = await failure(limiter.acquire({...request({rpm: 1}), priority: 'high' as 'batch'}))
    expect(invalid).toMatchObject({code: 'option.invalid', details: {option: 'priority'}})
  })

  it('S10 starts when every level is paid, and charges none if a parent cannot be booked in time', async () => {
    await scene.entity('team')
    await scene.entity('user-1', 'team')
    await scene.configure({level: 'entity', entity: 'team', resource: 'gpt-4'}, 'rpm=30/min:100')
    const limiter = await emptied()
    const waiting = wait(limiter, 'a', 10)
    await refusal(limiter.acquire({...request({rpm: 10}), waitMs: 39_000}))
    await play(waiting)
    expect(seconds()).toEqual([20])
    await limiter.settled()
    expect([(await totals()).consumed, (await totals('team')).consumed]).toEqual([110, 110])
  })

  it('waits and tries again where there is nothing to book: quotas and split buckets', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min:100', 'rph=100/hour@UTC')
    const limiter = await emptied()
    const waiting = limiter.acquire({...request({rpm: 1, rph: 1}), waitMs: 3_600_000})
    expect((await play(waiting)).consumed).toEqual({rpm: 1, rph: 1})
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toMatchObject({consumed: 101})
  })

  it('S13 opens the reservation of a request when it starts: one that is aborted returns nothing later', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min:100', 'tpd=1000/day@UTC')
    try {
      const gateway = new StoppableProcess(scene)
      const other = scene.limiter({denyCacheMs: 0})
      const stop = new AbortController()
      await gateway.limiter.acquire(request({rpm: 100}))
      const waiting = failure(
        gateway.limiter.acquire({
          ...request({rpm: 30, tpd: 500}),
          ...{waitMs: 600_000, reserve: true, signal: stop.signal},
        }),
      )
      await gateway.pass(4)
      stop.abort()
      await gateway.pass(1)
      expect(await waiting).toMatchObject({code: 'dynamo.aborted'})
      await other.acquire(request({tpd: 1000}))
      gateway.isRunning = false
      await gateway.pass(60)
      expect(await scene.totals('user-1', 'gpt-4', 'tpd')).toEqual({tokens: 0, consumed: 1000})
    } finally {
      vi.useRealTimers()
    }
  })

  it('S1 books nothing in a bucket with slots, also if they are new', async () => {
    await emptied()
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min:100', 'jobs=5/inflight')
    await play(wait(limiterOf(), 'a', 30))
    expect(seconds()).toEqual([30])
    expect((await totals()).tokens).toBeGreaterThanOrEqual(0)
  })

  it('L2 refuses what a bucket far ahead of the clock cannot repay in time', async () => {
    await limiterOf({clock: () => time.clock() + 7_200_000}).acquire(request({rpm: 100}))
    const limiter = limiterOf()
    for (let count = 0; count < 3; count++) await refusal(limiter.acquire({...request({rpm: 100}), waitMs: 400_000}))
    expect((await totals()).consumed).toBe(100)
  })

  it('books the rates of a bucket whose other limits are full', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min:100', 'tpm=10/min')
    const limiter = await emptied()
    const waiting = limiter.acquire({...request({rpm: 1, tpm: 1}), waitMs: 60_000})
    expect((await play(waiting)).consumed).toEqual({rpm: 1, tpm: 1})
    expect((await totals()).consumed).toBe(101)
  })

  it('S5 charges a booked request once if the answer to its write is lost', async () => {
    const limiter = await emptied()
    await limiter.acquire({...request({rpm: 1}), waitMs: 1}).catch(() => {})
    faults.start({operation: 'UpdateItem', kind: 'lost after apply'} as never)
    await play(wait(limiter, 'a', 30))
    expect((await totals()).consumed).toBe(130)
  })

  it.each([false, true])(
    'S1 S2 starts no more in any interval than capacity and refill, from many processes (aborts: %s)',
    async hasAborts => {
      for (let seed = 1; seed <= (extent === 'all' ? 20 : 2); seed++) {
        starts = []
        const random = seededRandom(seed)
        const entity = `user-${seed}`
        const limiters = Array.from({length: 4}, () =>
          limiterOf({sleep: pass, transport: time.transport(scene.transport, () => 2 + random() * 20)}),
        )
        beganMs = time.clock()
        const waiting: Promise<unknown>[] = []
        for (let at = 0; at < 60; at++) {
          const tokens = random() < 0.2 ? 50 + Math.floor(random() * 50) : 1 + Math.floor(random() * 10)
          const [limiter, delayMs, isPatient] = [limiters[at % 4] as RateLimiter, random() * 60_000, random() < 0.7]
          const stop = hasAborts && random() < 0.2 ? new AbortController() : undefined
          const more = {entity, waitMs: isPatient ? 900_000 : 0, ...(stop && {signal: stop.signal})}
          time.after(delayMs, () => void waiting.push(wait(limiter, String(at), tokens, more)))
          if (stop) time.after(delayMs + random() * 60_000, () => stop.abort())
        }
        await time.run()
        await play(Promise.all(waiting))
        for (const limiter of limiters) await limiter.settled()
        const sum = starts.reduce((total, {tokens}) => total + tokens, 0)
        expect((await totals(entity)).consumed, `seed ${seed}`).toBe(sum)
        // Requests behind one that is aborted keep their time, so the burst can be larger.
        if (hasAborts) continue
        // A bucket of this capacity and rate, charged at the starts, never goes below zero.
        let [left, atMs] = [100, 0]
        for (const start of starts.toSorted((a, b) => a.atMs - b.atMs)) {
          left = Math.min(100, left + (start.atMs - atMs) / 1000) - start.tokens
          atMs = start.atMs
          // A decision is under way for up to 22 ms, and two instants are rounded to a millisecond.
          expect(left, `seed ${seed}`).toBeGreaterThanOrEqual(-0.024)
        }
      }
    },
  )
})
