import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {onAbort} from '../../src/lib/dynamo/abort.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {runEntity} from '../../src/lib/schema/run-record.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {slotsIn} from '../limiter/in-flight/slots.js'
import {SERVERS, type TestHandler, type TestOptions, type TestServer} from './servers.js'

/** Fastify adds a charset, which JSON does not define; it is harmless. */
const PROBLEM = expect.stringMatching(/^application\/problem\+json(; charset=utf-8)?$/)

const OUTAGE = {kind: 'unreachable', at: 1, times: Number.POSITIVE_INFINITY} as const

describeOnBoth('adapters of HTTP servers', {}, table => {
  describe.each(Object.entries(SERVERS))('%s', (_, start) => {
    let scene: Scene
    let limiter: RateLimiter
    let server: TestServer | undefined
    let handled: string[]
    beforeEach(async () => {
      scene = new Scene(table)
      limiter = scene.limiter({sleep: async () => {}})
      handled = []
      await scene.configure({level: 'resource', resource: 'api'}, 'rpm=7/min', 'tpm=1k/min')
    })
    afterEach(async () => {
      await server?.close()
      server = undefined
      await limiter.close()
    })

    /** Responds with the status in the path, or throws. */
    const handler: TestHandler = async (path, lease) => {
      handled.push(path)
      if (path === '/adjust') await lease?.adjust({tpm: 40})
      if (path === '/throw') throw new Error('a bug of the application')
      return {status: Number(path.slice(1)) || 200, body: lease ? 'limited' : 'unlimited'}
    }

    async function open(options: Partial<TestOptions> = {}): Promise<void> {
      server = await start({limiter, resource: 'api', consume: {rpm: 2}, ...options}, handler)
    }

    async function get(path = '/', options: RequestInit = {}) {
      const response = await fetch(`${server?.url}${path}`, {...options, headers: {'x-user': 'user-1'}})
      const {status, headers} = response
      return {status, headers: Object.fromEntries(headers), body: await response.text()}
    }

    const spent = async (limit = 'rpm') => (await scene.totals('user-1', 'api', limit)).consumed

    it('charges an admitted request and reports the balance', async () => {
      await open()
      const {status, headers, body} = await get()
      expect({status, body}).toEqual({status: 200, body: 'limited'})
      expect(headers).toMatchObject({
        ratelimit: '"rpm";r=5;t=18, "tpm";r=1000',
        'ratelimit-policy': '"rpm";q=7;w=60, "tpm";q=1000;w=60',
      })
      expect(headers).not.toHaveProperty('retry-after')
      expect(await spent()).toBe(2)
    })

    it('S12 holds a slot until the response has ended, however it ends', async () => {
      await scene.configure({level: 'resource', resource: 'api'}, 'rpm=1k/min', 'parallel=1/inflight')
      let [enter, leave] = [() => {}, () => {}]
      const entered = new Promise<void>(resolve => {
        enter = resolve
      })
      const left = new Promise<void>(resolve => {
        leave = resolve
      })
      server = await start({limiter, resource: 'api', consume: {rpm: 1}}, async path => {
        if (path === '/throw') throw new Error('a bug of the application')
        if (path === '/wait') {
          enter()
          await left
        }
        return {status: 200, body: 'done'}
      })
      const free = async () => (await slotsIn(scene, 'user-1', 'api'))?.limits.get('parallel')?.free
      const client = new AbortController()
      const waiting = get('/wait', {signal: client.signal})
      await entered
      expect([(await get()).status, await free()]).toEqual([429, 0])
      leave()
      expect((await waiting).status).toBe(200)
      await expect.poll(free).toBe(1)
      expect((await get('/throw')).status).toBe(500)
      await expect.poll(free).toBe(1)
      scene.nowMs += 2000
      expect((await get()).status).toBe(200)
      await expect.poll(free).toBe(1)
    })

    it('admits every request in shadow mode, and charges only requests that fit', async () => {
      await open({enforce: false, consume: {rpm: 4}})
      expect((await get()).status).toBe(200)
      const {status, headers, body} = await get()
      expect({status, body}).toEqual({status: 200, body: 'limited'})
      expect(headers.ratelimit).toContain('"rpm";r=3;')
      expect(headers).not.toHaveProperty('retry-after')
      expect(await spent()).toBe(4)
    })

    it('refuses with 429, the wait, and problem details that name the limit but no entity', async () => {
      await scene.configure({level: 'entity', entity: 'user-1', resource: 'api'}, 'rpm=100/min')
      await scene.entity('team-secret')
      await scene.entity('user-1', 'team-secret')
      await open({consume: {rpm: 4}})
      expect((await get()).status).toBe(200)
      const {status, headers, body} = await get()
      expect(status).toBe(429)
      expect(headers).toMatchObject({
        'retry-after': '9',
        ratelimit: '"rpm";r=3;t=9',
        'ratelimit-policy': '"rpm";q=7;w=60',
        'content-type': PROBLEM,
      })
      expect(JSON.parse(body)).toEqual({
        type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
        title: 'Quota exceeded',
        status: 429,
        detail: 'Rate limit exceeded. Try again in 9 seconds.',
        'violated-policies': ['rpm'],
      })
      expect(JSON.stringify(headers)).not.toContain('team-secret')
      expect(handled).toEqual(['/'])
      expect(await spent()).toBe(4)
    })

    it('refuses oversized requests without a retry time', async () => {
      await open({consume: {rpm: 8}})
      const {status, headers, body} = await get()
      expect(status).toBe(429)
      expect(headers).not.toHaveProperty('retry-after')
      expect(JSON.parse(body)).toMatchObject({
        detail: 'The request needs 8 rpm, but the limit is 7.',
        'violated-policies': ['rpm'],
      })
    })

    it('L2 refuses what a run lacks without a retry time', async () => {
      await scene.configure({level: 'resource', resource: 'api'}, 'rpd=100/day@UTC')
      const run = await limiter.delegate({entity: 'user-1', resource: 'api', amounts: {rpd: 5}, for: '1h'})
      await open({consume: {rpd: 3}, entityOf: () => runEntity(run.id)})
      expect((await get()).status).toBe(200)
      const {status, headers, body} = await get()
      expect(status).toBe(429)
      expect(headers).toMatchObject({ratelimit: '"rpd";r=2'})
      expect(headers).not.toHaveProperty('retry-after')
      expect(JSON.parse(body).detail).toBe('Rate limit exceeded. Waiting does not help.')
    })

    it('refuses disabled resources with 403', async () => {
      const repository = new NamespaceRepository(scene.tenant, undefined)
      await repository.setAccess({level: 'resource', resource: 'api'}, 'disabled')
      await open()
      const {status, headers, body} = await get()
      expect(status).toBe(403)
      expect(headers).toMatchObject({'content-type': PROBLEM})
      expect(headers).not.toHaveProperty('retry-after')
      expect(JSON.parse(body)).toEqual({
        type: 'about:blank',
        title: 'Forbidden',
        status: 403,
        detail: 'Access is disabled.',
      })
      expect(handled).toEqual([])
    })

    it('waits if allowed', async () => {
      limiter = scene.limiter({
        sleep: async ms => {
          scene.nowMs += ms
        },
      })
      await open({waitMs: 60_000})
      for (let at = 0; at < 5; at++) expect((await get()).status).toBe(200)
      expect(await spent()).toBe(10)
    })

    it('charges nothing when the client disconnects while waiting', async () => {
      let isWaiting = () => {}
      const waiting = new Promise<void>(resolve => {
        isWaiting = resolve
      })
      let ended: Promise<void> = Promise.resolve()
      limiter = scene.limiter({
        sleep: (_, signal) => {
          ended = new Promise(resolve => onAbort(signal as AbortSignal, resolve))
          isWaiting()
          return ended
        },
      })
      await open({waitMs: 60_000})
      for (let at = 0; at < 3; at++) await get()
      const leaving = new AbortController()
      const answer = get('/', {signal: leaving.signal}).catch(error => error.name)
      await waiting
      leaving.abort()
      expect(await answer).toBe('AbortError')
      await ended
      await server?.close()
      await limiter.settled()
      expect(handled).toHaveLength(3)
      expect(await spent()).toBe(6)
    })

    it('responds with 503 in an outage, without naming the table', async () => {
      const faults = new FaultTransport(table.transport)
      scene.transport = faults
      await open()
      faults.start(OUTAGE)
      const {status, headers, body} = await get()
      expect(status).toBe(503)
      expect(headers).toMatchObject({'retry-after': '1', 'content-type': PROBLEM})
      expect(JSON.parse(body)).toEqual({
        type: 'about:blank',
        title: 'Service Unavailable',
        status: 503,
        detail: 'The request could not be admitted now. Try again.',
      })
    })

    it('admits requests in an outage if the policy allows', async () => {
      const faults = new FaultTransport(table.transport)
      scene.transport = faults
      await open({onUnavailable: 'allow', refundIf: status => status === 200})
      faults.start(OUTAGE)
      const {status, headers, body} = await get()
      expect({status, body}).toEqual({status: 200, body: 'limited'})
      expect(headers).not.toHaveProperty('ratelimit')
    })

    it('responds with 503 after close', async () => {
      await open()
      await limiter.close()
      expect(await get()).toMatchObject({status: 503, headers: {'retry-after': '1'}})
    })

    it('passes other errors to the error handler', async () => {
      await open({resource: 'unconfigured'})
      expect(await get()).toMatchObject({status: 500, body: 'limits.missing'})
      expect(handled).toEqual([])
    })

    it('does not limit skipped requests', async () => {
      await open({skipPath: '/health'})
      const {body, headers} = await get('/health')
      expect(body).toBe('unlimited')
      expect(headers).not.toHaveProperty('ratelimit')
      expect(await scene.shards('user-1', 'api')).toEqual([])
    })

    it('keeps the charge of a failed request, unless refundIf matches', async () => {
      await open()
      expect((await get('/throw')).status).toBe(500)
      expect(await spent()).toBe(2)
      await server?.close()

      await open({refundIf: status => status >= 500})
      expect((await get('/throw')).status).toBe(500)
      expect((await get('/502')).status).toBe(502)
      await server?.close()
      await limiter.settled()
      expect(await spent()).toBe(2)
      await open({refundIf: status => status >= 500})
      expect((await get('/404')).status).toBe(404)
      expect(await spent()).toBe(4)
    })

    it('gives the handler its open lease', async () => {
      await open()
      expect((await get('/adjust')).status).toBe(200)
      expect(await spent('tpm')).toBe(40)
    })

    it('sends OpenAI and Anthropic header fields on demand', async () => {
      await open({headers: 'openai', consume: {rpm: 4, tpm: 110}})
      expect((await get()).headers).toMatchObject({
        'x-ratelimit-limit-requests': '7',
        'x-ratelimit-remaining-requests': '3',
        'x-ratelimit-reset-requests': '35s',
        'x-ratelimit-limit-tokens': '1000',
        'x-ratelimit-remaining-tokens': '890',
        'x-ratelimit-reset-tokens': '7s',
      })
      const refused = await get()
      expect(refused).toMatchObject({
        status: 429,
        headers: {'retry-after': '9', 'x-ratelimit-remaining-requests': '3', 'x-ratelimit-reset-requests': '35s'},
      })
      expect(refused.headers).not.toHaveProperty('ratelimit')
      await server?.close()

      await open({headers: 'anthropic', limits: {requests: 'tpm', tokens: 'none'}, consume: {tpm: 110}})
      const {headers} = await get()
      expect(headers).toMatchObject({
        'anthropic-ratelimit-requests-limit': '1000',
        'anthropic-ratelimit-requests-remaining': '780',
        'anthropic-ratelimit-requests-reset': expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      })
      expect(headers).not.toHaveProperty('anthropic-ratelimit-tokens-limit')
      await server?.close()

      await open({headers: 'none', consume: {rpm: 4}})
      const silent = await get()
      expect(silent.headers).toMatchObject({'retry-after': '9'})
      expect(Object.keys(silent.headers).filter(name => name.includes('ratelimit'))).toEqual([])
    })
  })
})
