import {beforeEach, expect, it} from 'vitest'
import {Buckets} from '../../src/lib/repository/buckets/buckets.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import type {ProviderFeedback} from '../../src/lib/repository/operations/provider-feedback.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, refusal} from './visit.js'

const WHO = {entity: 'provider:anthropic:org-1', resource: 'sonnet'}
const MINUTE_MS = 60_000

describeOnBoth('provider feedback', {}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'entity', ...WHO}, 'rpm=600/min', 'tpm=60k/min', 'rpd=1k/day')
  })

  const take = (limiter = scene.limiter(), consume: Record<string, number> = {rpm: 1}) =>
    limiter.acquire({...WHO, consume})
  const totals = (limit = 'rpm', count = 1) => scene.totals(WHO.entity, WHO.resource, limit, count)
  const report = (
    feedback: Omit<ProviderFeedback, 'entity' | 'resource'>,
    limiter = scene.limiter({sleep: async () => {}}),
  ) => limiter.reportProviderLimits({...WHO, ...feedback})
  /** Writes sent since, by all limiters of the scene. */
  const writes = async (work: () => Promise<unknown>) => {
    scene.calls.length = 0
    await work()
    return scene.calls.filter(name => name === 'UpdateItem').length
  }

  it('lowers the balance in one write and keeps the consumption', async () => {
    await take()
    expect(await writes(async () => expect(await report({left: {rpm: 12}})).toEqual({lowered: ['rpm']}))).toBe(1)
    expect(await totals()).toEqual({tokens: 12, consumed: 1})
    expect((await totals('tpm')).tokens).toBe(60_000)
  })

  it('writes nothing if no less is left than held', async () => {
    await take()
    for (const rpm of [599, 600, 10_000, 10 ** 12])
      expect(await writes(async () => expect(await report({left: {rpm}})).toEqual({lowered: []}))).toBe(0)
    expect((await totals()).tokens).toBe(599)
  })

  it('refills before it compares: a balance that grew since is lowered too', async () => {
    await take(scene.limiter(), {rpm: 600})
    scene.nowMs += MINUTE_MS / 2
    expect(await report({left: {rpm: 300}})).toEqual({lowered: []})
    expect(await report({left: {rpm: 100}})).toEqual({lowered: ['rpm']})
    expect((await totals()).tokens).toBe(100)
    scene.nowMs += MINUTE_MS / 10
    expect(await scene.limiter().available(WHO)).toMatchObject({rpm: 160})
  })

  it('keeps the fraction above the reported whole tokens, however often it is reported', async () => {
    await take(scene.limiter(), {rpm: 600})
    for (const passedMs of [50, 49]) {
      scene.nowMs += passedMs
      expect(await writes(async () => expect(await report({left: {rpm: 0}})).toEqual({lowered: []}))).toBe(0)
    }
    scene.nowMs += 1
    expect(await report({left: {rpm: 0}})).toEqual({lowered: ['rpm']})
  })

  it('clears a refused request at the reported instant and not before, in every process', async () => {
    await take()
    expect(await report({refused: {consume: {rpm: 1}, retryAfterMs: 2000}})).toEqual({lowered: ['rpm']})
    expect((await refusal(take())).retryAfterMs).toBeLessThanOrEqual(2001)
    scene.nowMs += 1999
    await refusal(take())
    scene.nowMs += 1
    await take()
    expect(await totals()).toEqual({tokens: 0, consumed: 2})
  })

  it('clears exactly for a limit that earns a millitoken in seconds', async () => {
    await take(scene.limiter(), {rpd: 1})
    await report({refused: {consume: {rpd: 1}, retryAfterMs: 12_345}})
    scene.nowMs += 12_344
    await refusal(take(scene.limiter(), {rpd: 1}))
    scene.nowMs += 1
    await take(scene.limiter(), {rpd: 1})
  })

  it('never raises a lower balance, let alone a debt', async () => {
    await take()
    scene.nowMs += 10
    await report({refused: {consume: {rpm: 1}, retryAfterMs: 5000}})
    const before = await totals()
    expect(before.tokens).toBe(-49)
    expect(await report({refused: {consume: {rpm: 1}, retryAfterMs: 1000}})).toEqual({lowered: []})
    expect(await report({left: {rpm: 0}})).toEqual({lowered: []})
    expect(await totals()).toEqual(before)
  })

  it('refuses at the next write of a process that knows a higher balance', async () => {
    const knowing = scene.limiter()
    await take(knowing)
    await take(knowing)
    await report({left: {rpm: 0}})
    await refusal(take(knowing))
    expect(await totals()).toEqual({tokens: 0, consumed: 2})
  })

  it('keeps and refunds a charge in flight', async () => {
    const lease = await take(scene.limiter(), {rpm: 10})
    await report({left: {rpm: 5}})
    await lease.rollback()
    expect(await totals()).toEqual({tokens: 15, consumed: 0})
  })

  it('lowers once, whatever happens to the answer of its write (S6)', async () => {
    for (const kind of ['lost after apply', 'lost before apply', 'overtaken', '5xx', 'throttled'] as const) {
      scene = new Scene(table)
      await scene.configure({level: 'entity', ...WHO}, 'rpm=600/min')
      await take()
      const transport = new FaultTransport(table.transport)
      transport.start({kind, at: 1, operation: 'UpdateItem'})
      const limiter = scene.limiter({transport, sleep: async () => {}})
      await report({left: {rpm: 12}}, limiter)
      expect(transport.hits, kind).toBe(1)
      expect(await totals(), kind).toEqual({tokens: 12, consumed: 1})
      await limiter.close()
    }
  })

  it('lowers once when many processes report the same beside requests', async () => {
    const limiters = Array.from({length: 8}, () => scene.limiter({sleep: async () => {}}))
    await take()
    await Promise.all(limiters.flatMap(limiter => [report({left: {rpm: 100}}, limiter), take(limiter)]))
    const {tokens, consumed} = await totals()
    expect(consumed).toBe(9)
    // Feedback includes earlier requests; later ones are taken from it.
    expect(tokens).toBeGreaterThanOrEqual(92)
    expect(tokens).toBeLessThanOrEqual(100)
  })

  it('lowers all shards together, in proportion to their balances', async () => {
    await take(scene.limiter(), {rpm: 200})
    await splitBucket(scene.tenant, WHO.entity, WHO.resource, 1)
    await splitBucket(scene.tenant, WHO.entity, WHO.resource, 2)
    expect(await writes(() => report({left: {rpm: 400}}))).toBe(0)
    expect(await writes(() => report({left: {rpm: 100}}))).toBe(4)
    expect((await totals('rpm', 4)).tokens).toBe(100)
    const shards = await scene.shards(WHO.entity, WHO.resource, 4)
    expect(shards.map(({state}) => state.limits.get('rpm')?.tokensMilli)).toEqual([25_000n, 25_000n, 25_000n, 25_000n])
  })

  it('applies a refusal to all shards, and clears a request for the whole at the reported instant', async () => {
    await take(scene.limiter(), {rpm: 1})
    await splitBucket(scene.tenant, WHO.entity, WHO.resource, 1)
    await report({refused: {consume: {rpm: 3}, retryAfterMs: 1000}})
    scene.nowMs += 999
    await refusal(take(scene.limiter(), {rpm: 3}))
    scene.nowMs += 1
    await take(scene.limiter(), {rpm: 3})
    expect((await totals('rpm', 2)).tokens).toBe(0)
  })

  it('lowers a quota to the reported rest, but not by a refusal, which would empty it until its reset', async () => {
    await scene.configure({level: 'entity', ...WHO}, 'rpd=1k/day@UTC')
    await take(scene.limiter(), {rpd: 1})
    expect(await report({refused: {consume: {rpd: 1}, retryAfterMs: 1000}})).toEqual({lowered: []})
    expect(await report({left: {rpd: 10}})).toEqual({lowered: ['rpd']})
    expect(await totals('rpd')).toEqual({tokens: 10, consumed: 1})
  })

  it('counts a wait of more than an hour as an hour', async () => {
    await take()
    await report({refused: {consume: {rpm: 1}, retryAfterMs: 2 ** 31 - 1}})
    scene.nowMs += 3_600_000
    await take()
  })

  it('ignores a missing bucket and missing limits', async () => {
    expect(await writes(() => report({left: {rpm: 0}}))).toBe(0)
    expect(await scene.shards(WHO.entity, WHO.resource)).toEqual([])
    await take()
    expect(await report({left: {other: 0}, refused: {consume: {another: 1}, retryAfterMs: 9}})).toEqual({lowered: []})
  })

  it.each([
    {left: {rpm: -1}},
    {left: {rpm: Number.NaN}},
    {left: {rpm: 1.5}},
    {refused: {consume: {rpm: 1}, retryAfterMs: -1}},
    {refused: {consume: {rpm: 1}, retryAfterMs: Number.NaN}},
    {refused: {consume: {rpm: 1}, retryAfterMs: Number.POSITIVE_INFINITY}},
  ])('rejects %j and writes nothing', async feedback => {
    await take()
    expect(await writes(async () => expect(await failure(report(feedback))).toHaveProperty('kind', 'usage'))).toBe(0)
  })

  it('waits from the instant of a clock that is ahead: the debt is no larger than the wait', async () => {
    scene.nowMs += 3000
    await take()
    scene.nowMs -= 3000
    await report({refused: {consume: {rpm: 1}, retryAfterMs: 5000}})
    expect((await totals()).tokens).toBe(1 - 20)
    scene.nowMs += 4999
    await refusal(take())
    scene.nowMs += 1
    await take()
  })

  it('keeps an expiring bucket until its debt is repaid', async () => {
    await scene.configure({level: 'resource', resource: 'small'}, 'rpm=1/sec')
    const limiter = scene.limiter()
    await limiter.acquire({entity: WHO.entity, resource: 'small', consume: {rpm: 1}})
    await limiter.reportProviderLimits({
      entity: WHO.entity,
      resource: 'small',
      refused: {consume: {rpm: 1}, retryAfterMs: 3_600_000},
    })
    const [record] = await scene.shards(WHO.entity, 'small')
    expect(record?.ttlSeconds).toBeGreaterThanOrEqual(Math.floor(scene.nowMs / 1000) + 3600)
  })

  it('stores the feedback and its time beside the lowered limit', async () => {
    await take()
    const toldAtMs = scene.nowMs
    await report({left: {rpm: 12, tpm: 70_000}})
    scene.nowMs += 1000
    await report({refused: {consume: {tpm: 500}, retryAfterMs: 2000}})
    const bucket = await new Buckets(scene.tenant).find(WHO.entity, WHO.resource)
    expect(bucket?.shards[0]?.feedback).toEqual(
      new Map([
        ['rpm', {atMs: toldAtMs, left: 12}],
        ['tpm', {atMs: scene.nowMs, clearsAtMs: scene.nowMs + 2000}],
      ]),
    )
    // It is not mistaken for an attribute of another client.
    expect(bucket?.shards[0]).not.toHaveProperty('record.foreign')
  })
})
