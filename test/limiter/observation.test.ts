import {runInNewContext} from 'node:vm'
import {beforeEach, describe, expect, it} from 'vitest'
import type {DecisionEvent} from '../../src/lib/limiter/request/decision-event.js'
import type {RateLimiterOptions} from '../../src/lib/limiter/request/options.js'
import {encodeConfig} from '../../src/lib/schema/config-record.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, refusal, request, warningsOf} from './visit.js'

describeOnBoth('onDecision', {}, table => {
  let scene: Scene
  let events: DecisionEvent[]
  const onDecision = (event: DecisionEvent) => void events.push(event)
  const last = () => events.at(-1) as DecisionEvent
  beforeEach(async () => {
    scene = new Scene(table)
    events = []
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min', 'tpm=1000/min')
  })

  it('reports an admission: the request, its charge and its cost', async () => {
    const limiter = scene.limiter({onDecision})
    await limiter.acquire(request({rpm: 1}))
    await limiter.settled()
    const asked = {...request({rpm: 2, tpm: 300})}
    await limiter.acquire(asked)
    expect(events).toHaveLength(2)
    expect(last()).toEqual({
      outcome: 'admitted',
      reason: undefined,
      refusedBy: undefined,
      retryAfterMs: null,
      error: undefined,
      namespace: scene.namespace,
      entity: 'user-1',
      resource: 'gpt-4',
      consume: {rpm: 2, tpm: 300},
      resources: undefined,
      waitedMs: 0,
      durationMs: expect.any(Number),
      calls: 1,
      circuit: 'closed',
    })
    expect(last().durationMs).toBeGreaterThan(0)
    expect(Object.isFrozen(last())).toBe(true)
  })

  it('carries the balances of the decision, without a call', async () => {
    const limiter = scene.limiter({onDecision})
    const {limits} = await limiter.acquire(request({rpm: 9, tpm: 500}))
    scene.calls.length = 0
    expect(last().limits).toEqual(limits)
    expect(last().share).toBe(0.9)
    const refused = await limiter.tryAcquire(request({rpm: 2}))
    expect(last().limits).toEqual(refused.limits)
    expect(last()).toMatchObject({outcome: 'refused', limits: {rpm: {available: 1, requested: 2}}, share: 0.9})
    expect(scene.calls).toEqual([])
    await failure(limiter.acquire(request({rpm: 11})))
    expect(last()).toMatchObject({reason: 'too-large', limits: {}, share: undefined})
  })

  it('computes balances only if they are read', async () => {
    let readings = 0
    const clock = () => {
      readings++
      return scene.nowMs
    }
    const readingsWith = async (options: RateLimiterOptions) => {
      readings = 0
      await scene.limiter({...options, clock}).acquire(request({rpm: 1}))
      return readings
    }
    await readingsWith({})
    expect(await readingsWith({onDecision})).toBe(await readingsWith({}))
    expect(await readingsWith({onDecision: ({share}) => share})).toBeGreaterThan(await readingsWith({}))
  })

  it('names the namespace as given to the limiter', () => {
    const limiter = scene.limiter({onDecision, namespace: 'default'})
    return failure(limiter.acquire(request({rpm: 11}))).then(() => expect(last().namespace).toBe('default'))
  })

  it('reports a refusal: its limit, level, source and wait, without a call', async () => {
    const limiter = scene.limiter({onDecision})
    await limiter.acquire(request({rpm: 10, tpm: 1000}))
    const first = await refusal(limiter.acquire(request({rpm: 1, tpm: 600})))
    expect(last()).toMatchObject({
      outcome: 'refused',
      reason: 'exceeded',
      refusedBy: {resource: 'gpt-4', limit: 'tpm', level: 'entity', source: 'resource'},
      retryAfterMs: 36_001,
      waitedMs: 0,
    })
    expect(last().error).toBe(first)
    expect(Object.isFrozen(last().refusedBy)).toBe(true)
    expect(await limiter.tryAcquire(request({rpm: 1, tpm: 1}))).toMatchObject({admitted: false})
    expect(last()).toMatchObject({outcome: 'refused', refusedBy: {limit: 'rpm'}, retryAfterMs: 6001, calls: 0})
  })

  it('reports the level of a refusing parent, and the resource of `also`', async () => {
    await scene.entity('user-1', 'team-1')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'rpm=2/min')
    await scene.configure({level: 'system'}, 'rpm=1/min')
    const limiter = scene.limiter({onDecision})
    await limiter.acquire(request({rpm: 2}))
    await refusal(limiter.acquire(request({rpm: 1})))
    expect(last()).toMatchObject({refusedBy: {resource: 'gpt-4', limit: 'rpm', level: 'parent'}})
    await failure(limiter.acquire(request({rpm: 3})))
    expect(last()).toMatchObject({outcome: 'refused', reason: 'too-large', refusedBy: {limit: 'rpm', level: 'parent'}})
    const both = {...request({rpm: 1}, 'user-2'), resources: {search: {rpm: 1}}}
    await limiter.acquire(both)
    await refusal(limiter.acquire(both))
    expect(last()).toMatchObject({
      resource: 'gpt-4',
      resources: {search: {rpm: 1}},
      refusedBy: {resource: 'search', limit: 'rpm', level: 'entity'},
    })
  })

  it('reports oversized requests and refusals by a switch', async () => {
    const limiter = scene.limiter({onDecision})
    await failure(limiter.acquire(request({rpm: 11})))
    expect(last()).toMatchObject({
      outcome: 'refused',
      reason: 'too-large',
      refusedBy: {resource: 'gpt-4', limit: 'rpm', level: 'entity'},
      retryAfterMs: null,
    })
    const scope = {level: 'resource', resource: 'closed'} as const
    const stored = {namespace: scene.namespace, scope, limits: [], onUnavailable: undefined}
    const record = encodeConfig({...stored, auditRetentionDays: undefined, access: 'disabled'})
    await table.transport.send('PutItem', {TableName: table.name, Item: record})
    await scene.configure({level: 'system'}, 'rpm=1/min')
    await failure(limiter.acquire({...request({rpm: 1}), resource: 'closed'}))
    expect(last()).toMatchObject({
      outcome: 'refused',
      reason: 'disabled',
      refusedBy: {resource: 'closed', limit: undefined, level: 'entity', source: 'resource'},
      retryAfterMs: null,
    })
  })

  it('reports a waiting request once, with its wait', async () => {
    const sleep = async (ms: number) => {
      scene.nowMs += ms
    }
    const limiter = scene.limiter({onDecision, sleep})
    await limiter.acquire(request({rpm: 10}))
    await limiter.acquire({...request({rpm: 1}), waitMs: 10_000})
    expect(events).toHaveLength(2)
    expect(last()).toMatchObject({outcome: 'admitted', waitedMs: 6001})
  })

  it('reports an outage by policy: failed if it blocks, admitted unmetered if it allows', async () => {
    scene.transport = {send: () => new Promise(() => {})}
    const limiter = scene.limiter({onDecision, timeoutMs: 20})
    const thrown = await failure(limiter.acquire(request({rpm: 1})))
    expect(last()).toMatchObject({outcome: 'failed', reason: 'unavailable', refusedBy: undefined, retryAfterMs: null})
    expect(last().error).toBe(thrown)
    expect(last().calls).toBeGreaterThan(0)
    await limiter.acquire({...request({rpm: 1}), onUnavailable: 'allow'})
    expect(last()).toMatchObject({outcome: 'admitted', reason: 'unavailable', error: undefined})
  })

  it.each([
    ['aborted', {signal: AbortSignal.abort()}],
    ['error', {resource: 'unknown'}],
  ] as const)('reports a failure that is not an outage: %s', async (reason, changed) => {
    await failure(scene.limiter({onDecision}).acquire({...request({rpm: 1}), ...changed}))
    expect(events).toMatchObject([{outcome: 'failed', reason}])
  })

  it('reports a closed limiter, but not invalid input', async () => {
    const limiter = scene.limiter({onDecision})
    await failure(limiter.acquire(request({rpm: -1})))
    expect(events).toEqual([])
    await limiter.close()
    await failure(limiter.acquire(request({rpm: 1})))
    expect(events).toMatchObject([{outcome: 'failed', reason: 'closed'}])
  })

  it('reports as many calls as were sent, over all decisions', async () => {
    const limiter = scene.limiter({onDecision})
    await Promise.all(Array.from({length: 20}, (_, at) => limiter.tryAcquire(request({rpm: 1}, `user-${at % 3}`))))
    await limiter.close()
    const sum = events.reduce((calls, event) => calls + event.calls, 0)
    const sentWithin = scene.calls.length
    await failure(limiter.acquire(request({rpm: 1})))
    expect(sum + last().calls).toBe(sentWithin)
    expect(events).toHaveLength(21)
  })

  it('reports a request that ends because its onWait throws', async () => {
    const limiter = scene.limiter({onDecision, sleep: async () => {}})
    await limiter.acquire(request({rpm: 10}))
    const error = new Error('a bug')
    const onWait = () => {
      throw error
    }
    expect(await failure(limiter.acquire({...request({rpm: 1}), waitMs: 60_000, onWait}))).toBe(error)
    expect(events).toHaveLength(2)
    expect(last()).toMatchObject({outcome: 'failed', error})
  })

  it.each([null, 'x', 1, {}])('must be a function, not %j', onDecision => {
    expect(() => scene.limiter({onDecision: onDecision as never})).toThrow('onDecision must be a function.')
  })

  describe('that fails', () => {
    const broken = () => {
      throw new Error('no disk')
    }
    it.each([
      ['throws', broken],
      ['rejects', async () => broken()],
      ['rejects with a promise of another realm', () => runInNewContext('Promise.reject(new Error("no disk"))')],
    ])('changes no decision and warns once if it %s', async (_, onDecision) => {
      const limiter = scene.limiter({onDecision})
      const warnings = await warningsOf(async () => {
        expect((await limiter.acquire(request({rpm: 10}))).isMetered).toBe(true)
        expect(await limiter.tryAcquire(request({rpm: 1}))).toMatchObject({admitted: false, reason: 'exceeded'})
      })
      expect(warnings).toMatchObject([{code: 'ZAEL_ON_DECISION', message: expect.stringMatching(/no disk/)}])
      expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 0, consumed: 10})
    })

    const unprintable: unknown = Object.create(null)
    it.each([
      ['rejects with', () => Promise.reject(unprintable)],
      [
        'throws',
        () => {
          throw unprintable
        },
      ],
    ])('changes no decision if it %s a value that cannot be converted to text', async (_, onDecision) => {
      const limiter = scene.limiter({onDecision})
      const warnings = await warningsOf(async () => {
        expect((await limiter.acquire(request({rpm: 10}))).isMetered).toBe(true)
      })
      expect(warnings).toMatchObject([
        {code: 'ZAEL_ON_DECISION', message: expect.stringMatching(/a value of type object/)},
      ])
    })
  })
})
