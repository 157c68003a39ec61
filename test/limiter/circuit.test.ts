import {beforeEach, describe, expect, it, vi} from 'vitest'
import {classifyError} from '../../src/lib/dynamo/classify.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {DecisionEvent} from '../../src/lib/limiter/request/decision-event.js'
import type {RateLimiterOptions} from '../../src/lib/limiter/request/options.js'
import {encodeConfig} from '../../src/lib/schema/config-record.js'
import {type FaultKind, FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, request} from './visit.js'

const LASTING = Number.POSITIVE_INFINITY

describeOnBoth('the circuit breaker', {}, table => {
  let scene: Scene
  let faults: FaultTransport
  let events: DecisionEvent[]
  const onDecision = (event: DecisionEvent) => void events.push(event)
  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = faults
    events = []
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=1000/day')
    vi.useFakeTimers({toFake: ['setTimeout', 'clearTimeout', 'performance']})
    return () => void vi.useRealTimers()
  })

  const limiter = (options: Partial<RateLimiterOptions> = {}) =>
    scene.limiter({onDecision, sleep: async () => {}, onUnavailable: 'allow', ...options})
  const outage = (kind: FaultKind) => faults.start({kind, at: 1, times: LASTING})
  const circuits = () => events.map(({circuit}) => circuit)
  const reads = () => faults.calls.filter(call => call.startsWith('GetItem')).length

  async function acquireTimes(count: number, asking: RateLimiter): Promise<boolean[]> {
    const metered: boolean[] = []
    for (let at = 0; at < count; at++) metered.push((await asking.acquire(request({tpm: 1}))).isMetered)
    return metered
  }

  /** The fake clock reaches the next probe; its call takes real time. */
  async function passUntil(isReached: () => boolean): Promise<void> {
    for (let steps = 0; !isReached() && steps < 200; steps++) {
      await vi.advanceTimersByTimeAsync(100)
      await new Promise(resolve => setImmediate(resolve))
    }
    expect(isReached()).toBe(true)
  }

  it.each<FaultKind>(['unreachable', '5xx', 'lost before apply'])(
    'opens after five failures in a row (%s)',
    async kind => {
      const asking = limiter()
      expect(await acquireTimes(1, asking)).toEqual([true])
      outage(kind)
      expect(await acquireTimes(5, asking)).toEqual(Array(5).fill(false))
      const calls = faults.calls.length
      expect(await acquireTimes(3, asking)).toEqual(Array(3).fill(false))
      expect(faults.calls).toHaveLength(calls)
      expect(circuits()).toEqual([...Array(5).fill('closed'), ...Array(4).fill('open')])
      expect(events.at(-1)).toMatchObject({outcome: 'admitted', reason: 'unavailable', calls: 0})
      await asking.close()
    },
  )

  it('L5 answers at once while the table hangs', async () => {
    const asking = limiter({timeoutMs: 3000})
    await asking.acquire(request({tpm: 1}))
    outage('late arrival')
    const waiting = Promise.all(Array.from({length: 5}, () => asking.acquire(request({tpm: 1}))))
    await vi.advanceTimersByTimeAsync(3000)
    await waiting
    // No timer advances: without the circuit, this request would wait forever.
    expect((await asking.acquire(request({tpm: 1}))).isMetered).toBe(false)
    expect(events.at(-1)).toMatchObject({circuit: 'open', durationMs: 0})
    faults.stop()
    vi.useRealTimers()
    await asking.close()
    expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 999, consumed: 1})
  })

  it('blocks at once if the policy is to block', async () => {
    const asking = limiter({onUnavailable: 'block'})
    await asking.acquire(request({tpm: 1}))
    outage('unreachable')
    for (let at = 0; at < 5; at++) await failure(asking.acquire(request({tpm: 1})))
    const calls = faults.calls.length
    expect(await failure(asking.acquire(request({tpm: 1})))).toMatchObject({
      code: 'limiter.unavailable',
      cause: {code: 'dynamo.unavailable'},
    })
    expect(await asking.tryAcquire(request({tpm: 1}))).toMatchObject({admitted: false, reason: 'unavailable'})
    expect(faults.calls).toHaveLength(calls)
  })

  it('uses the stored policy without a read', async () => {
    const record = {
      namespace: scene.namespace,
      scope: {level: 'system'},
      limits: [],
      onUnavailable: 'allow',
      auditRetentionDays: undefined,
    } as const
    await table.transport.send('PutItem', {TableName: table.name, Item: encodeConfig(record)})
    const asking = scene.limiter({onDecision, sleep: async () => {}, onUnavailable: undefined as never})
    await asking.acquire(request({tpm: 1}))
    await asking.settled()
    outage('unreachable')
    expect(await acquireTimes(5, asking)).toEqual(Array(5).fill(false))
    // The cached configuration has expired.
    scene.nowMs += 3_600_000
    const calls = faults.calls.length
    expect(await acquireTimes(2, asking)).toEqual([false, false])
    expect(faults.calls).toHaveLength(calls)
  })

  it('probes with growing pauses, one read each, and closes on the first answer', async () => {
    const asking = limiter()
    await asking.acquire(request({tpm: 1}))
    outage('unreachable')
    await acquireTimes(5, asking)
    faults.start({kind: 'unreachable', at: 1, times: LASTING})
    const probedAtMs: number[] = []
    for (let probes = 1; probes <= 5; probes++) {
      await passUntil(() => reads() === probes)
      probedAtMs.push(performance.now())
    }
    expect(faults.calls).toHaveLength(5)
    const pausesMs = probedAtMs.slice(1).map((atMs, at) => atMs - (probedAtMs[at] as number))
    // Each lies between half of 1, 2, 2 and 2 seconds and all of it.
    for (const [at, pauseMs] of pausesMs.entries()) {
      const longestMs = at === 0 ? 1000 : 2000
      expect(pauseMs).toBeGreaterThanOrEqual(longestMs / 2 - 100)
      expect(pauseMs).toBeLessThanOrEqual(longestMs + 300)
    }
    faults.start()
    await passUntil(() => reads() === 1)
    await vi.waitUntil(async () => (await acquireTimes(1, asking))[0])
    expect(circuits().at(-1)).toBe('closed')
    await passUntil(() => true)
    expect(reads()).toBe(1)
    await asking.close()
  })

  it('counts every metered request, and no other', async () => {
    const asking = limiter()
    await acquireTimes(2, asking)
    outage('unreachable')
    await acquireTimes(8, asking)
    faults.stop()
    await passUntil(() => reads() > 0)
    await vi.waitUntil(async () => (await acquireTimes(1, asking))[0])
    await asking.close()
    const metered = events.filter(({reason}) => reason === undefined).length
    expect(metered).toBe(3)
    expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 1000 - metered, consumed: metered})
  })

  it('closes when a settlement is written', async () => {
    const asking = limiter()
    const lease = await asking.acquire(request({tpm: 100}))
    outage('unreachable')
    await acquireTimes(5, asking)
    faults.stop()
    await lease.release({tpm: 50})
    expect((await asking.acquire(request({tpm: 1}))).isMetered).toBe(true)
  })

  it('does not trust a state whose probe is overdue, as after a frozen process', async () => {
    const asking = limiter({timeoutMs: 3000})
    await asking.acquire(request({tpm: 1}))
    outage('unreachable')
    await acquireTimes(5, asking)
    faults.stop()
    const nowMs = performance.now()
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs + 60_000)
    expect(await acquireTimes(1, asking)).toEqual([true])
    vi.restoreAllMocks()
  })

  it.each<FaultKind>(['throttled', 'conflict'])('stays closed while the table answers (%s)', async kind => {
    const asking = limiter()
    await asking.acquire(request({tpm: 1}))
    faults.start({kind, operation: 'UpdateItem', at: 1, times: LASTING})
    expect(await acquireTimes(12, asking)).toEqual(Array(12).fill(false))
    expect(new Set(circuits())).toEqual(new Set(['closed']))
  })

  it('counts only failures in a row', async () => {
    const asking = limiter()
    for (let round = 0; round < 3; round++) {
      faults.stop()
      await acquireTimes(1, asking)
      outage('unreachable')
      await acquireTimes(4, asking)
    }
    expect(new Set(circuits())).toEqual(new Set(['closed']))
  })

  it('adds no call in the healthy case', async () => {
    const asking = limiter()
    await acquireTimes(1, asking)
    faults.start()
    await acquireTimes(20, asking)
    expect(faults.calls).toHaveLength(20)
  })

  describe('credentials', () => {
    const failing = (name: string, extra: object = {}): Transport => ({
      send: async operation => {
        const error = Object.assign(new Error('said so'), {name, ...extra})
        throw classifyError(error, operation, {sent: false})
      },
    })

    it.each([
      ['CredentialsProviderError', {}],
      ['TokenProviderError', {}],
      ['ExpiredTokenException', {$metadata: {httpStatusCode: 400}}],
      ['Error', {code: 'ECONNREFUSED', syscall: 'connect', address: '169.254.169.254'}],
    ])('that are unavailable for now are an outage (%s)', async (name, extra) => {
      const asking = limiter()
      await asking.acquire(request({tpm: 1}))
      scene.transport = failing(name, extra)
      expect(await acquireTimes(6, asking)).toEqual(Array(6).fill(false))
      expect(circuits().at(-1)).toBe('open')
      expect(await asking.ping()).toMatchObject({available: false})
      const blocked = await asking.tryAcquire({...request({tpm: 1}), onUnavailable: 'block'})
      expect(blocked).toMatchObject({admitted: false, reason: 'unavailable'})
    })

    it.each(['AccessDeniedException', 'UnrecognizedClientException', 'InvalidSignatureException'])(
      'without permission are an error (%s)',
      async name => {
        const asking = limiter()
        await asking.acquire(request({tpm: 1}))
        scene.transport = failing(name, {$metadata: {httpStatusCode: 400}})
        for (let at = 0; at < 6; at++)
          expect(await failure(asking.acquire(request({tpm: 1})))).toMatchObject({code: 'dynamo.denied'})
        expect(circuits().at(-1)).toBe('closed')
      },
    )

    it('retry a settlement until they are back', async () => {
      const asking = limiter()
      const lease = await asking.acquire(request({tpm: 100}))
      const working = scene.transport
      let calls = 0
      const {send} = failing('CredentialsProviderError')
      scene.transport = {
        send: (...args) => {
          if (++calls === 5) scene.transport = working
          return send(...args)
        },
      }
      await lease.adjust({tpm: -40})
      await asking.settled()
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 940, consumed: 60})
    })
  })
})
