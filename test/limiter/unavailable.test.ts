import {beforeEach, describe, expect, it} from 'vitest'
import {Denied, TableMissing, ValidationFailed} from '../../src/lib/dynamo/errors.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {RateLimiterUnavailable} from '../../src/lib/limiter/refusal/errors.js'
import type {RateLimiterOptions} from '../../src/lib/limiter/request/options.js'
import type {TableSeams} from '../../src/lib/repository/table/open-table.js'
import {encodeConfig, type OnUnavailable} from '../../src/lib/schema/config-record.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PATIENT_MS} from '../helpers/table.js'

const request = {entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1, tpm: 500}}

const OUTAGE = {kind: 'unreachable', at: 1, times: Number.POSITIVE_INFINITY} as const

describeOnBoth('an unavailable table', {}, table => {
  let scene: Scene
  let faults: FaultTransport
  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = faults
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min', 'tpm=10k/min')
  })

  /** Without its own policy by default. */
  function limiter(options: RateLimiterOptions & TableSeams = {}): RateLimiter {
    const {namespace: namespaceId, transport} = scene
    return new RateLimiter({
      stack: table.name,
      namespaceId,
      transport,
      clock: () => scene.nowMs,
      random: () => 0,
      timeoutMs: PATIENT_MS,
      ...options,
    })
  }

  async function store(onUnavailable: OnUnavailable): Promise<void> {
    const scope = {level: 'system'} as const
    const record = {namespace: scene.namespace, scope, limits: [], onUnavailable, auditRetentionDays: undefined}
    await table.transport.send('PutItem', {TableName: table.name, Item: encodeConfig(record)})
  }

  describe('policy', () => {
    it('throws an error with the reason under block', async () => {
      faults.start(OUTAGE)
      const failure = limiter({onUnavailable: 'block'}).acquire(request)
      await expect(failure).rejects.toThrow(RateLimiterUnavailable)
      await expect(failure).rejects.toMatchObject({code: 'limiter.unavailable', cause: {code: 'dynamo.unavailable'}})
    })

    it('returns an unmetered lease that works like any other under allow', async () => {
      faults.start(OUTAGE)
      const lease = await limiter({onUnavailable: 'allow'}).acquire(request)
      expect(lease.isMetered).toBe(false)
      expect(lease.consumed).toEqual({})
      await lease.adjust({tpm: 100})
      await lease.consume({tpm: 100})
      await lease.rollback()
      faults.stop()
      expect(await scene.shards('user-1', 'gpt-4')).toEqual([])
    })

    it('prefers the policy of a call to that of the limiter', async () => {
      faults.start(OUTAGE)
      const blocking = limiter({onUnavailable: 'block'})
      expect((await blocking.acquire({...request, onUnavailable: 'allow'})).isMetered).toBe(false)
      const allowing = limiter({onUnavailable: 'allow'})
      await expect(allowing.acquire({...request, onUnavailable: 'block'})).rejects.toThrow(RateLimiterUnavailable)
    })

    it('prefers the policy of the limiter to the stored one', async () => {
      await store('allow')
      const blocking = limiter({onUnavailable: 'block'})
      await blocking.acquire(request)
      faults.start(OUTAGE)
      await expect(blocking.acquire(request)).rejects.toThrow(RateLimiterUnavailable)
    })

    it.each(['allow', 'block'] as const)(
      'keeps the stored policy %s, known before the outage, during it',
      async policy => {
        await store(policy)
        const plain = limiter()
        expect((await plain.acquire(request)).isMetered).toBe(true)
        faults.start(OUTAGE)
        // Long after the cache entry has expired too.
        for (const laterMs of [0, 3_600_000]) {
          scene.nowMs += laterMs
          const outcome = await plain.acquire(request).then(
            lease => (lease.isMetered ? 'metered' : 'allow'),
            error => (error instanceof RateLimiterUnavailable ? 'block' : error),
          )
          expect(outcome).toBe(policy)
        }
      },
    )

    it('reads the stored policy while only writes fail', async () => {
      await store('allow')
      faults.start({kind: 'throttled', operation: 'UpdateItem', at: 1, times: Number.POSITIVE_INFINITY})
      const learning = limiter()
      // A request waits only briefly for the policy. If a busy engine takes longer, the next request has it.
      const isLetThrough = () =>
        learning.acquire(request).then(
          lease => !lease.isMetered,
          error => {
            if (error instanceof RateLimiterUnavailable) return false
            throw error
          },
        )
      await expect.poll(isLetThrough).toBe(true)
    })

    it('blocks without a given or known policy', async () => {
      await store('allow')
      faults.start(OUTAGE)
      await expect(limiter().acquire(request)).rejects.toThrow(RateLimiterUnavailable)
    })
  })

  describe('L5 deadline', () => {
    it('decides for every waiting caller if the table never responds', async () => {
      const waiting = limiter({onUnavailable: 'block'})
      await waiting.acquire({...request, consume: {rpm: 1}})
      faults.start({kind: 'late answer', at: 1})
      const asked = Array.from({length: 5}, () => waiting.acquire({...request, timeoutMs: 30}))
      for (const outcome of await Promise.allSettled(asked)) {
        expect(outcome).toMatchObject({status: 'rejected', reason: {code: 'limiter.unavailable'}})
      }
      faults.stop()
      await waiting.settled()
      expect(faults.calls).toHaveLength(2)
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 10_000, consumed: 0})
      await waiting.acquire(request)
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 9500, consumed: 500})
    })

    it('returns the unmetered lease by the deadline under allow', async () => {
      faults.start({kind: 'late arrival', at: 1})
      const allowing = limiter({onUnavailable: 'allow'})
      expect((await allowing.acquire({...request, timeoutMs: 30})).isMetered).toBe(false)
      faults.stop()
      await allowing.settled()
      expect(await scene.shards('user-1', 'gpt-4')).toEqual([])
    })

    it('does not wait longer for a namespace lookup', async () => {
      const named = (onUnavailable: OnUnavailable) =>
        new RateLimiter({stack: table.name, namespace: 'team-a', transport: scene.transport, onUnavailable})
      // Each of them reads the name and the version.
      faults.start({kind: 'late answer', at: 1, times: 4})
      await expect(named('block').acquire({...request, timeoutMs: 30})).rejects.toThrow(RateLimiterUnavailable)
      expect((await named('allow').acquire({...request, timeoutMs: 30})).isMetered).toBe(false)
      faults.stop()
    })

    it('times out a write without a response, however long its caller would wait', async () => {
      const hurried = limiter({onUnavailable: 'block', timeoutMs: 40})
      faults.start({kind: 'late answer', at: 1, times: Number.POSITIVE_INFINITY})
      await expect(hurried.acquire({...request, timeoutMs: 600_000})).rejects.toThrow(RateLimiterUnavailable)
      faults.stop()
    })

    it('treats a deadline between two tries as an outage', async () => {
      const hurried = limiter({onUnavailable: 'block', timeoutMs: 40, random: () => 0.999})
      faults.start({...OUTAGE, kind: 'throttled'})
      await expect(hurried.acquire({...request, timeoutMs: 5000})).rejects.toThrow(RateLimiterUnavailable)
    })
  })

  describe('D-34 a bug is not an outage', () => {
    const bugs = [
      new ValidationFailed('UpdateItem'),
      new Denied('UpdateItem'),
      new TableMissing('UpdateItem'),
      new TypeError('undefined is not a function'),
    ]

    it.each(bugs)('throws %s even under allow, at any call', async bug => {
      await scene.entity('user-1', 'team-1')
      const calls = await acquireWithBugAt(0)
      expect(calls).toBeGreaterThanOrEqual(6)
      for (let at = 1; at <= calls; at++) await expect(acquireWithBugAt(at), `call ${at}`).rejects.toBe(bug)

      async function acquireWithBugAt(at: number): Promise<number> {
        const fresh = new Scene(table)
        await fresh.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min', 'tpm=10k/min')
        await fresh.entity('user-1', 'team-1')
        let count = 0
        const transport: Transport = {
          send: async (...args) => {
            if (++count === at) throw bug
            return table.transport.send(...args)
          },
        }
        await fresh.limiter({transport, onUnavailable: 'allow', random: () => 0}).acquire(request)
        return count
      }
    })
  })
})
