import {beforeEach, describe, expect, inject, it, vi} from 'vitest'
import {Denied} from '../../src/lib/dynamo/errors.js'
import {explain} from '../../src/lib/insight/why/explain.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {RateLimiterOptions, SettledEvent} from '../../src/lib/limiter/request/options.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {engineProxy} from '../e2e/engine-proxy.js'
import {type FaultKind, FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../helpers/table.js'
import {failure, request, warningsOf} from './visit.js'

const KINDS: readonly FaultKind[] = ['throttled', 'unreachable', '5xx', 'lost before apply', 'lost after apply']
const MODES = ['now', 'soon'] as const
const CASES = MODES.flatMap(settle => KINDS.map(kind => ({settle, kind})))

/** More failures than one attempt makes, and far fewer than all of them. */
const SHORT = 20
const LONG = Number.POSITIVE_INFINITY

describeOnEngine('a settlement in an outage', {timeout: 60_000}, () => {
  const table = useTable()
  let scene: Scene
  let faults: FaultTransport
  let events: SettledEvent[]
  const onSettled = (event: SettledEvent) => void events.push(event)
  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = faults
    events = []
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/day', 'tpm=10000/month@UTC')
  })

  const limiter = (options: Partial<RateLimiterOptions> = {}) =>
    scene.limiter({onSettled, sleep: async () => {}, ...options})
  const outage = (kind: FaultKind, times: number) => faults.start({kind, at: 1, times})
  const tpm = () => scene.totals('user-1', 'gpt-4', 'tpm')

  it.each(CASES)('S6 charges the usage after a short outage ($kind), settled $settle', async ({settle, kind}) => {
    const gateway = limiter({settle})
    const lease = await gateway.acquire(request({tpm: 4001}))
    outage(kind, SHORT)
    const warnings = await warningsOf(async () => {
      await lease.adjust({tpm: 48 - 4001})
      await lease.commit()
      await gateway.settled()
    })
    expect(warnings).toEqual([])
    expect(faults.hits).toBe(SHORT)
    expect(await tpm()).toEqual({tokens: 9952, consumed: 48})
    const {namespace} = scene
    const [event] = events
    expect(events).toHaveLength(1)
    expect(event).toEqual({
      namespace,
      entity: 'user-1',
      resource: 'gpt-4',
      usage: {tpm: 48},
      charged: {tpm: 48},
      retries: expect.any(Number),
      error: undefined,
    })
    expect(event?.retries).toBeGreaterThan(0)
    expect(Object.isFrozen(event)).toBe(true)
  })

  it.each(CASES)(
    'S6 keeps the reservation after a long outage ($kind), settled $settle, and reports it',
    async ({settle, kind}) => {
      const gateway = limiter({settle})
      const lease = await gateway.acquire(request({tpm: 4001}))
      outage(kind, LONG)
      const warnings = await warningsOf(async () => {
        await lease.adjust({tpm: 48 - 4001})
        await gateway.settled()
      })
      faults.stop()
      expect(warnings).toMatchObject([{code: 'ZAEL_SETTLE'}])
      const isApplied = kind === 'lost after apply'
      expect(await tpm()).toMatchObject({consumed: isApplied ? 48 : 4001})
      expect(events).toMatchObject([{usage: {tpm: 48}, charged: {tpm: 4001}, error: expect.any(Error)}])
      await lease.rollback()
      await gateway.settled()
      // An uncertain refund is not repeated.
      const isCertain = kind === 'throttled' || kind === 'unreachable'
      expect(await tpm()).toMatchObject({consumed: isCertain || isApplied ? 0 : 3953})
      await gateway.close()
      const {unsettled} = await explain(
        new NamespaceRepository(scene.tenant, undefined),
        {entity: 'user-1', resource: 'gpt-4'},
        () => scene.nowMs,
      )
      expect(unsettled).toEqual({settlements: 1, lastAtMs: scene.nowMs})
    },
  )

  it.each(CASES)(
    'S6 charges once what was used beyond the estimate ($kind), settled $settle',
    async ({settle, kind}) => {
      const gateway = limiter({settle})
      const lease = await gateway.acquire(request({tpm: 40}))
      outage(kind, SHORT)
      await lease.adjust({tpm: 60})
      await gateway.settled()
      expect(await tpm()).toEqual({tokens: 9900, consumed: 100})
      expect(events).toMatchObject([{usage: {tpm: 100}, charged: {tpm: 100}, error: undefined}])
    },
  )

  it.each(KINDS)('S6 refunds a rollback once (%s)', async kind => {
    const gateway = limiter()
    const lease = await gateway.acquire(request({rpm: 1, tpm: 500}))
    outage(kind, SHORT)
    await lease.rollback()
    await gateway.settled()
    expect(faults.hits).toBe(SHORT)
    expect(await tpm()).toEqual({tokens: 10_000, consumed: 0})
    expect(events).toMatchObject([{usage: {rpm: 0, tpm: 0}, charged: {rpm: 0, tpm: 0}, error: undefined}])
  })

  it('reports what a failed rollback leaves charged', async () => {
    const gateway = limiter()
    const lease = await gateway.acquire(request({tpm: 500}))
    outage('throttled', LONG)
    const warnings = await warningsOf(async () => {
      await lease.rollback()
      await gateway.settled()
    })
    expect(warnings).toMatchObject([{code: 'ZAEL_SETTLE'}])
    expect(events).toMatchObject([{usage: {tpm: 0}, charged: {tpm: 500}, error: {code: 'dynamo.throttled'}}])
    expect(lease.consumed).toEqual({tpm: 500})
  })

  it('decides requests of the bucket before and after an uncertain settlement is found', async () => {
    const gateway = limiter({onUnavailable: 'allow'})
    const lease = await gateway.acquire(request({tpm: 4000}))
    outage('lost after apply', SHORT)
    await lease.release({tpm: 3000})
    const leases = await Promise.all(Array.from({length: 5}, () => gateway.acquire(request({tpm: 10}))))
    await gateway.settled()
    faults.stop()
    const held = leases.reduce((sum, {consumed: {tpm: tokens = 0}}) => sum + tokens, 0)
    const {consumed} = await tpm()
    expect(consumed).toBeGreaterThanOrEqual(1000 + held)
    await gateway.acquire(request({tpm: 10}))
    expect((await tpm()).consumed).toBe(consumed + 10)
  })

  it('retries a release after the retried settlement before it', async () => {
    const gateway = limiter()
    const lease = await gateway.acquire(request({tpm: 100}))
    outage('unreachable', SHORT)
    await lease.adjust({tpm: 50})
    await lease.release({tpm: 150})
    expect(lease.consumed).toEqual({tpm: 0})
    await gateway.close()
    expect(await tpm()).toMatchObject({consumed: 0})
  })

  it('waits for retries at close', async () => {
    const gateway = limiter()
    const lease = await gateway.acquire(request({tpm: 100}))
    outage('throttled', SHORT)
    await lease.adjust({tpm: -40})
    await gateway.close()
    expect(await tpm()).toMatchObject({consumed: 60})
  })

  it('throws errors that are not outages at once', async () => {
    const gateway = limiter()
    const lease = await gateway.acquire(request({tpm: 100}))
    let writes = 0
    scene.transport = {
      send: async () => {
        writes++
        throw new Denied('UpdateItem')
      },
    }
    expect(await failure(lease.adjust({tpm: -40}))).toBeInstanceOf(Denied)
    expect(writes).toBe(1)
    expect(events).toMatchObject([{usage: {tpm: 60}, charged: {tpm: 100}, retries: 0, error: {code: 'dynamo.denied'}}])
  })

  it('reports written settlements, without further calls', async () => {
    const gateway = limiter()
    const lease = await gateway.acquire(request({tpm: 100}))
    faults.start()
    await lease.adjust({tpm: -40})
    expect(faults.calls).toHaveLength(1)
    await lease.commit()
    expect(events).toMatchObject([{usage: {tpm: 60}, charged: {tpm: 60}, retries: 0, error: undefined}])
  })

  it('warns once if onSettled throws', async () => {
    const gateway = limiter({
      onSettled: () => {
        throw new Error('oops')
      },
    })
    const lease = await gateway.acquire(request({tpm: 100}))
    const warnings = await warningsOf(async () => {
      await lease.adjust({tpm: -40})
      await lease.rollback()
    })
    expect(warnings).toMatchObject([{code: 'ZAEL_ON_SETTLED'}])
    expect(await tpm()).toMatchObject({consumed: 0})
  })

  it('rejects an onSettled that is not a function', () => {
    expect(() => scene.limiter({onSettled: 'log' as never})).toThrow('onSettled must be a function')
  })

  describe('behind a proxy', () => {
    const FATES = ['cut', 'unanswered'] as const

    it.each(MODES.flatMap(settle => FATES.map(fate => ({settle, fate}))))(
      'charges the usage of every call if requests are $fate for a while, settled $settle',
      async ({settle, fate}) => {
        let isDown = false
        let lost = 0
        await using proxy = await engineProxy(inject('engineEndpoint'), () => {
          if (!isDown) return 'answered'
          lost++
          return fate
        })
        await using gateway = new RateLimiter({
          stack: table.name,
          namespaceId: scene.namespace,
          endpoint: proxy.endpoint,
          clock: () => scene.nowMs,
          timeoutMs: 400,
          settle,
          onSettled,
        } as RateLimiterOptions)
        const leases = await Promise.all(
          Array.from({length: 5}, () => gateway.acquire({...request({tpm: 1000}), timeoutMs: PATIENT_MS})),
        )
        isDown = true
        await Promise.all(leases.map(lease => lease.adjust({tpm: 7 - 1000})))
        await vi.waitUntil(() => lost >= (fate === 'cut' ? 10 : 3), {timeout: 20_000})
        isDown = false
        await gateway.settled()
        expect(await tpm()).toEqual({tokens: 9965, consumed: 35})
        expect(events.map(({charged, error}) => ({charged, error}))).toEqual(
          Array(5).fill({charged: {tpm: 7}, error: undefined}),
        )
      },
    )
  })
})
