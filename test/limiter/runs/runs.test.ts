import {beforeEach, describe, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {RateLimiterUnavailable, RequestTooLarge} from '../../../src/lib/index.js'
import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../../../src/lib/limiter/refusal/errors.js'
import type {Run} from '../../../src/lib/limiter/run.js'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {endDueRuns, endRun, listRuns, RunEnded, RunMissing, readRun} from '../../../src/lib/repository/runs/runs.js'
import {runEntity} from '../../../src/lib/schema/run-record.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {scanNamespace} from '../../repository/namespace-items.js'
import {failure, splitInto} from '../visit.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

describeOnBoth('a run', {timeout: 60_000}, table => {
  let scene: Scene
  let limiter: RateLimiter
  let other: RateLimiter
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'llm'}, 'rpm=1000/min', 'tpd=1000/day@UTC')
    limiter = scene.limiter({denyCacheMs: 0})
    other = scene.limiter({denyCacheMs: 0})
  })

  const delegate = (amounts: Record<string, number | string> = {tpd: 400}, entity = 'user-1'): Promise<Run> =>
    limiter.delegate({entity, resource: 'llm', amounts, for: '1h', name: 'research'})
  const totals = (entity = 'user-1', limit = 'tpd', count = 1) => scene.totals(entity, 'llm', limit, count)
  const ask = (tpd: number, entity = 'user-1') => other.tryAcquire({entity, resource: 'llm', consume: {tpd}})

  /** The changed items are as the record says, for every run and limit. */
  async function audit(): Promise<void> {
    const pages = [await listRuns(scene.tenant), await listRuns(scene.tenant, {ended: true})]
    for (const {granted, end, entity} of pages.flatMap(({records}) => records)) {
      for (const [limit, milli] of granted) {
        const own = end?.returns.find(each => each.limit === limit && each.entity === entity)
        if (!end) continue
        expect((end.spent.get(limit) ?? 0n) + (own?.returnedMilli ?? 0n) + (own?.lapsedMilli ?? 0n)).toBe(milli)
      }
    }
  }

  it('S14 takes its amount from the quota, and returns what it did not spend', async () => {
    const run = await delegate()
    expect(await totals()).toEqual({tokens: 600, consumed: 400})
    await run.acquire({consume: {tpd: 150}})
    await run.withLease({consume: {tpd: 100}}, lease => lease.adjust({tpd: -50}))
    expect(await run.state()).toMatchObject({granted: {tpd: 400}, spent: {tpd: 200}, left: {tpd: 200}})
    expect(await run.end()).toMatchObject({spent: {tpd: 200}, left: {tpd: 0}, returned: {tpd: 200}, lapsed: {tpd: 0}})
    expect(await totals()).toEqual({tokens: 800, consumed: 200})
    expect(await totals(runEntity(run.id))).toEqual({tokens: 0, consumed: 200})
    await audit()
  })

  it('L7 is charged with one write per request, whatever its entity', async () => {
    const run = await delegate()
    await run.acquire({consume: {tpd: 1}})
    scene.calls.length = 0
    for (let at = 0; at < 5; at++) await run.acquire({consume: {tpd: 1}})
    expect(scene.calls).toEqual(Array(5).fill('UpdateItem'))
  })

  it('is opened by its id in another process', async () => {
    const {id} = await delegate()
    const opened = await other.run(id)
    expect(opened).toMatchObject({id, name: 'research', entity: 'user-1', resource: 'llm', granted: {tpd: 400}})
    await opened.acquire({consume: {tpd: 400}})
    expect(await opened.tryAcquire({consume: {tpd: 1}})).toMatchObject({admitted: false, reason: 'exceeded'})
    for (const missing of ['nothing', 'a/b', '']) expect(await failure(other.run(missing))).toBeInstanceOf(RunMissing)
  })

  it('L2 S14 lacks tokens without a wait: they do not refill', async () => {
    const run = await delegate()
    await run.acquire({consume: {tpd: 300}})
    const request = {entity: runEntity(run.id), resource: 'llm', consume: {tpd: 200}}
    // By the response of a write, by what the process knows, and by a read.
    const refused = [await run.tryAcquire({consume: {tpd: 200}}), await run.tryAcquire({consume: {tpd: 200}})]
    for (const decision of refused) {
      expect(decision).toMatchObject({admitted: false, reason: 'exceeded', retryAfterMs: null})
      expect(decision.limits.tpd).toMatchObject({available: 100, retryAfterMs: null, fullAfterMs: null})
      expect(decision.headers()).toEqual({RateLimit: '"tpd";r=100', 'RateLimit-Policy': '"tpd";q=400'})
    }
    expect(await other.check(request)).toMatchObject({admitted: false, retryAfterMs: null})
    expect(await other.timeUntilAvailable(request)).toBe(null)
    // Refused at once, although the caller would wait.
    const waiting = await run.tryAcquire({consume: {tpd: 200}, waitMs: 60_000})
    expect(waiting).toMatchObject({admitted: false, waitedMs: 0})
  })

  it('S4 is refused like a request, and then changes nothing', async () => {
    await delegate({tpd: 700})
    expect(await failure(delegate({tpd: 400}))).toBeInstanceOf(RateLimitExceeded)
    expect(await failure(delegate({tpd: 4000}))).toBeInstanceOf(RequestTooLarge)
    const decision = await limiter.tryDelegate({entity: 'user-1', resource: 'llm', amounts: {tpd: 400}, for: '1h'})
    expect(decision).toMatchObject({admitted: false, reason: 'exceeded', limits: {tpd: {available: 300}}})
    expect(await totals()).toEqual({tokens: 300, consumed: 700})
    expect((await listRuns(scene.tenant)).records).toHaveLength(1)
  })

  it.each([
    {what: 'an unknown limit', request: {amounts: {nope: 1}}, error: /nope/},
    {what: 'no amount', request: {amounts: {}}, error: /at least one limit/},
    {what: 'no amounts', request: {amounts: undefined}, error: /at least one limit/},
    {what: 'an amount of 0', request: {amounts: {tpd: 0}}, error: /at least one limit/},
    {what: 'a fraction', request: {amounts: {tpd: 1.5}}, error: /whole number/},
    {what: 'an unreadable amount', request: {amounts: {tpd: 'lots'}}, error: /"lots"/},
    {what: 'money of a limit in tokens', request: {amounts: {tpd: '$2'}}, error: /not in USD/},
    {what: 'no duration', request: {for: undefined}, error: /not a duration/},
    {what: 'an unreadable duration', request: {for: 'soon'}, error: /"soon"/},
    {what: 'a long duration', request: {for: '32d'}, error: /31 days/},
    {what: 'a long name', request: {name: 'x'.repeat(201)}, error: /200 characters/},
    {what: 'a bad entity', request: {entity: 'a b'}, error: /entity id/},
  ])('refuses $what before anything is charged', async ({request, error}) => {
    const asked = {entity: 'user-1', resource: 'llm', amounts: {tpd: 1}, for: '1h', ...request}
    await expect(limiter.delegate(asked as never)).rejects.toThrow(error)
    expect(await scene.shards('user-1', 'llm')).toEqual([])
  })

  it('takes texts and money', async () => {
    const {configs} = new NamespaceRepository(scene.tenant, undefined)
    await configs.set({level: 'resource', resource: 'paid'}, parseLimits(['usd=$5/month@UTC', 'tpd=1M/day@UTC']))
    const run = await limiter.delegate({
      entity: 'user-1',
      resource: 'paid',
      amounts: {usd: '$2', tpd: '20k'},
      for: '1h',
    })
    expect(run.granted).toEqual({usd: 2_000_000, tpd: 20_000})
    await run.end()
    expect((await scene.totals('user-1', 'paid', 'usd')).tokens).toBe(5_000_000)
  })

  it('S14 refuses requests of every process after its end', async () => {
    const run = await delegate()
    const opened = await other.run(run.id)
    await opened.acquire({consume: {tpd: 10}})
    await run.end()
    for (const each of [run, opened, await scene.limiter().run(run.id)]) {
      expect(await failure(each.acquire({consume: {tpd: 1}}))).toBeInstanceOf(RunEnded)
      expect(await failure(each.tryAcquire({consume: {tpd: 1}}))).toBeInstanceOf(RunEnded)
      expect(await failure(each.withLease({consume: {tpd: 1}}, () => {}))).toBeInstanceOf(RunEnded)
      expect(await failure(each.delegate({amounts: {tpd: 1}}))).toBeInstanceOf(RunEnded)
    }
    expect(await totals()).toEqual({tokens: 990, consumed: 10})
    expect(await run.end()).toMatchObject({spent: {tpd: 10}, returned: {tpd: 390}})
    expect(await totals()).toEqual({tokens: 990, consumed: 10})
  })

  it('S14 ends once, whoever ends it', async () => {
    const run = await delegate()
    await run.acquire({consume: {tpd: 100}})
    const opened = await other.run(run.id)
    const ends = await Promise.all([run.end(), opened.end(), endRun(scene.tenant, run.id), run.end()])
    expect(ends).toHaveLength(4)
    expect(await totals()).toEqual({tokens: 900, consumed: 100})
    await audit()
  })

  it('S14 L9 that nobody ends returns its rest after its time, when a quota refuses a request', async () => {
    const run = await delegate({tpd: 900})
    await run.acquire({consume: {tpd: 100}})
    scene.nowMs += HOUR_MS - 1
    expect((await ask(500)).admitted).toBe(false)
    await run.acquire({consume: {tpd: 1}})
    scene.nowMs += 1
    expect(await failure(run.acquire({consume: {tpd: 1}}))).toBeInstanceOf(RunEnded)
    const third = scene.limiter({denyCacheMs: 0})
    await third.tryAcquire({entity: 'user-1', resource: 'llm', consume: {tpd: 500}})
    await expect.poll(() => totals()).toEqual({tokens: 899, consumed: 101})
    expect(await third.tryAcquire({entity: 'user-1', resource: 'llm', consume: {tpd: 500}})).toMatchObject({
      admitted: true,
    })
    await audit()
  })

  it('S14 that nobody ends returns its rest when a process delegates', async () => {
    await delegate({tpd: 900})
    scene.nowMs += HOUR_MS
    await other.delegate({entity: 'user-1', resource: 'llm', amounts: {tpd: 1}, for: '1h'})
    await expect.poll(() => totals()).toEqual({tokens: 999, consumed: 1})
  })

  it('S14 returns nothing into a later period, and reports what lapsed', async () => {
    const run = await delegate({tpd: 400, rpm: 10})
    await run.acquire({consume: {tpd: 100, rpm: 1}})
    scene.nowMs += DAY_MS
    expect((await ask(1000)).admitted).toBe(true)
    const ended = await run.end()
    expect(ended).toMatchObject({spent: {tpd: 100}, returned: {tpd: 0, rpm: 9}, lapsed: {tpd: 300, rpm: 0}})
    expect((await totals()).tokens).toBe(0)
    await audit()
  })

  it('S14 returns tokens of a rate like a refund', async () => {
    const run = await delegate({rpm: 300})
    await run.acquire({consume: {rpm: 50}})
    await run.end()
    expect(await totals('user-1', 'rpm')).toEqual({tokens: 950, consumed: 50})
  })

  it('S10 S14 takes from the parent too, and returns to both', async () => {
    await scene.entity('team')
    await scene.entity('user-2', 'team')
    const run = await delegate({tpd: 400}, 'user-2')
    expect(await totals('team')).toEqual({tokens: 600, consumed: 400})
    await run.acquire({consume: {tpd: 150}})
    const {ancestors} = await run.end()
    expect(ancestors).toEqual([{entity: 'team', returned: {tpd: 250}, lapsed: {tpd: 0}}])
    expect([await totals('user-2'), await totals('team')]).toEqual(Array(2).fill({tokens: 850, consumed: 150}))
  })

  it('S14 charges its entity for what it spent beyond its amount', async () => {
    const run = await delegate({tpd: 100})
    const lease = await run.acquire({consume: {tpd: 100}})
    await lease.adjust({tpd: 30})
    expect(await run.end()).toMatchObject({spent: {tpd: 130}, returned: {tpd: -30}, lapsed: {tpd: 0}})
    expect(await totals()).toEqual({tokens: 870, consumed: 130})
    await audit()
  })

  it('S14 counts leases that are open at its end as they are, and ignores their refunds', async () => {
    const run = await delegate({tpd: 400})
    const lease = await run.acquire({consume: {tpd: 300}})
    const another = await run.acquire({consume: {tpd: 20}})
    await run.end()
    await lease.adjust({tpd: -250})
    await another.rollback()
    expect(await totals()).toEqual({tokens: 680, consumed: 320})
    expect((await totals(runEntity(run.id))).tokens).toBe(0)
    expect(await run.state()).toMatchObject({spent: {tpd: 320}, returned: {tpd: 80}})
  })

  describe('with sub-runs', () => {
    it('S14 gets their rest back', async () => {
      const run = await delegate({tpd: 400})
      const sub = await run.delegate({amounts: {tpd: 300}, name: 'search'})
      expect(await failure(run.delegate({amounts: {tpd: 200}}))).toBeInstanceOf(RateLimitExceeded)
      await sub.acquire({consume: {tpd: 120}})
      expect(await sub.end()).toMatchObject({entity: runEntity(run.id), returned: {tpd: 180}})
      expect(await run.state()).toMatchObject({spent: {tpd: 120}, left: {tpd: 280}, subRuns: []})
      expect(await run.end()).toMatchObject({spent: {tpd: 120}, returned: {tpd: 280}})
      expect(await totals()).toEqual({tokens: 880, consumed: 120})
      await audit()
    })

    it('S14 ends them first', async () => {
      const run = await delegate({tpd: 400})
      const sub = await run.delegate({amounts: {tpd: 300}})
      const deep = await sub.delegate({amounts: {tpd: 200}})
      const second = await run.delegate({amounts: {tpd: 50}})
      await deep.acquire({consume: {tpd: 60}})
      await second.acquire({consume: {tpd: 5}})
      expect(await run.end()).toMatchObject({spent: {tpd: 65}, returned: {tpd: 335}, subRuns: []})
      for (const each of [sub, deep, second])
        expect(await failure(each.acquire({consume: {tpd: 1}}))).toBeInstanceOf(RunEnded)
      expect(await totals()).toEqual({tokens: 935, consumed: 65})
      await audit()
    })

    it('lets them last no longer than itself', async () => {
      const run = await delegate({tpd: 400})
      const [long, short] = [
        await run.delegate({amounts: {tpd: 1}, for: '2h'}),
        await run.delegate({amounts: {tpd: 1}, for: '1min'}),
      ]
      expect(long.endsAt).toEqual(run.endsAt)
      expect(short.endsAt.getTime()).toBe(scene.nowMs + 60_000)
    })

    it('is at most 8 levels deep', async () => {
      let run = await delegate({tpd: 400})
      for (let depth = 1; depth < 8; depth++) run = await run.delegate({amounts: {tpd: 100}})
      await expect(run.delegate({amounts: {tpd: 1}})).rejects.toThrow(/8 levels deep/)
      expect(await run.state()).toMatchObject({spent: {tpd: 0}})
    })

    it('S14 has at most 100 open ones', async () => {
      const run = await delegate({tpd: 400})
      for (let at = 0; at < 100; at++) await run.delegate({amounts: {tpd: 1}})
      await expect(run.delegate({amounts: {tpd: 1}})).rejects.toThrow(/100 open sub-runs/)
      expect(await run.state()).toMatchObject({spent: {tpd: 100}})
      expect(await run.end()).toMatchObject({spent: {tpd: 0}, returned: {tpd: 400}})
      expect(await totals()).toEqual({tokens: 1000, consumed: 0})
    })

    it('S14 ends all of them after their time, in any order', async () => {
      const run = await delegate({tpd: 400})
      const sub = await run.delegate({amounts: {tpd: 300}, for: '1min'})
      await (await sub.delegate({amounts: {tpd: 100}})).acquire({consume: {tpd: 7}})
      scene.nowMs += HOUR_MS
      await endDueRuns(scene.tenant)
      expect((await listRuns(scene.tenant)).records).toEqual([])
      expect(await totals()).toEqual({tokens: 993, consumed: 7})
      await audit()
    })
  })

  it.each(['deleted', 'reset'] as const)(
    'S14 returns nothing if its bucket was %s: nobody knows what it spent',
    async how => {
      const run = await delegate({tpd: 400})
      await run.acquire({consume: {tpd: 100}})
      const bucket = {entity: runEntity(run.id), resource: 'llm'}
      if (how === 'reset') await new NamespaceRepository(scene.tenant, undefined).resetBucket(bucket)
      else {
        const Key = {PK: {S: `${scene.namespace}/BUCKET#${bucket.entity}#llm#0`}, SK: {S: '#STATE'}}
        await table.transport.send('DeleteItem', {TableName: table.name, Key})
      }
      expect(await run.end()).toMatchObject({spent: {tpd: 400}, returned: {tpd: 0}, lapsed: {tpd: 0}})
      expect(await failure(run.acquire({consume: {tpd: 1}}))).toBeInstanceOf(RunEnded)
      expect(await totals()).toEqual({tokens: 600, consumed: 400})
    },
  )

  it('S14 lets its rest lapse if the bucket of its entity was deleted', async () => {
    const run = await delegate({tpd: 400})
    const Key = {PK: {S: `${scene.namespace}/BUCKET#user-1#llm#0`}, SK: {S: '#STATE'}}
    await table.transport.send('DeleteItem', {TableName: table.name, Key})
    expect((await ask(10)).admitted).toBe(true)
    expect(await run.end()).toMatchObject({spent: {tpd: 0}, returned: {tpd: 0}, lapsed: {tpd: 400}})
    expect(await totals()).toEqual({tokens: 990, consumed: 10})
    await audit()
  })

  it.each([500, 3000])('S9 S14 returns its rest when the allowance is %i meanwhile', async allowance => {
    const run = await delegate({tpd: 400})
    await run.acquire({consume: {tpd: 100}})
    await new NamespaceRepository(scene.tenant, undefined).setLimits(
      {level: 'resource', resource: 'llm'},
      parseLimits(['rpm=1000/min', `tpd=${allowance}/day@UTC`]),
    )
    await run.end()
    expect(await totals()).toEqual({tokens: allowance - 100, consumed: 100})
  })

  it('S8 S14 takes from several shards, and returns to those with room', async () => {
    await other.acquire({entity: 'user-1', resource: 'llm', consume: {tpd: 1}})
    await splitInto(scene, 4, 'user-1', 'llm')
    const run = await delegate({tpd: 900})
    await run.acquire({consume: {tpd: 100}})
    await run.end()
    expect(await totals('user-1', 'tpd', 4)).toEqual({tokens: 899, consumed: 101})
    for (const {state} of await scene.shards('user-1', 'llm', 4))
      expect(Number(state.limits.get('tpd')?.tokensMilli)).toBeLessThanOrEqual(250_000)
  })

  it('S14 ends with all shards of its own bucket', async () => {
    const run = await delegate({tpd: 400})
    await run.acquire({consume: {tpd: 10}})
    await splitInto(scene, 4, runEntity(run.id), 'llm')
    for (let at = 0; at < 10; at++) await other.run(run.id).then(each => each.acquire({consume: {tpd: 20}}))
    expect(await run.end()).toMatchObject({spent: {tpd: 210}, returned: {tpd: 190}})
    expect(await totals(runEntity(run.id), 'tpd', 4)).toEqual({tokens: 0, consumed: 210})
    expect(await totals()).toEqual({tokens: 790, consumed: 210})
  })

  it('S14 ends although other processes use it all the time, and admits nothing after', async () => {
    const run = await delegate({tpd: 900})
    const users = Array.from({length: 4}, () => scene.limiter({denyCacheMs: 0}))
    let admitted = 0
    const use = async (user: RateLimiter): Promise<void> => {
      const opened = await user.run(run.id)
      for (let at = 0; at < 100; at++) {
        const decision = await opened.tryAcquire({consume: {tpd: 1}})
        if (decision.admitted) admitted++
      }
    }
    const using = users.map(user => use(user).catch(error => expect(error).toBeInstanceOf(RunEnded)))
    const {spent} = await run.end()
    await Promise.all(using)
    expect(spent).toEqual({tpd: admitted})
    expect(await totals()).toEqual({tokens: 1000 - admitted, consumed: admitted})
  })

  it('S12 S14 holds no slot of its entity, and cannot have slots', async () => {
    await scene.configure({level: 'resource', resource: 'llm'}, 'tpd=1000/day@UTC', 'parallel=1/inflight')
    const run = await delegate({tpd: 400})
    await run.acquire({consume: {tpd: 1}})
    expect((await ask(1)).admitted).toBe(true)
    const asked = {entity: 'user-2', resource: 'llm', amounts: {tpd: 10, parallel: 1}, for: '1h'}
    await expect(limiter.delegate(asked)).rejects.toThrow(/in flight/)
    expect(await totals('user-2')).toEqual({tokens: 1000, consumed: 0})
  })

  it('S14 of a bypassed entity returns nothing: nothing was taken', async () => {
    const repository = new NamespaceRepository(scene.tenant, undefined)
    await ask(1)
    await repository.setAccess({level: 'entity', entity: 'user-1', resource: 'llm'}, 'bypass')
    const run = await scene.limiter().delegate({entity: 'user-1', resource: 'llm', amounts: {tpd: 400}, for: '1h'})
    await run.acquire({consume: {tpd: 100}})
    expect(await run.end()).toMatchObject({spent: {tpd: 100}, returned: {tpd: 0}, lapsed: {tpd: 300}})
    expect((await totals()).tokens).toBe(999)
    await audit()
  })

  it('is refused by a switch of its resource, and goes on after it', async () => {
    const repository = new NamespaceRepository(scene.tenant, undefined)
    const run = await delegate({tpd: 400})
    await run.acquire({consume: {tpd: 1}})
    await repository.setAccess({level: 'resource', resource: 'llm'}, 'disabled')
    expect(await run.tryAcquire({consume: {tpd: 1}})).toMatchObject({admitted: false, reason: 'disabled'})
    await repository.setAccess({level: 'resource', resource: 'llm'}, undefined)
    expect(await run.tryAcquire({consume: {tpd: 1}})).toMatchObject({admitted: true})
    await run.end()
    await repository.setAccess({level: 'resource', resource: 'llm'}, 'enabled')
    expect(await failure(run.acquire({consume: {tpd: 1}}))).toBeInstanceOf(RunEnded)
  })

  it('S11 is deleted with its namespace', async () => {
    const run = await delegate({tpd: 400})
    await run.acquire({consume: {tpd: 1}})
    await (await run.delegate({amounts: {tpd: 10}})).end()
    await limiter.close()
    const {byKind} = await new Namespaces(scene.tenant).purge(scene.namespace)
    expect(byKind).toMatchObject({bucket: 3})
    expect(await scanNamespace(scene.tenant, scene.namespace)).toEqual([])
  })

  it('is no entity and no configuration of people', async () => {
    await delegate({tpd: 400})
    const {configs, entities} = new NamespaceRepository(scene.tenant, undefined)
    expect((await entities.list()).records).toEqual([])
    expect((await configs.entities('llm')).records).toEqual([])
  })

  it('L8 is listed and read without a write', async () => {
    const run = await delegate({tpd: 400})
    scene.nowMs += 2 * HOUR_MS
    await listRuns(scene.tenant)
    await run.state()
    expect((await readRun(scene.tenant, run.id))?.end).toBeUndefined()
    expect((await totals()).tokens).toBe(600)
  })

  it('L5 is refused while the table is unavailable, even if requests are admitted then', async () => {
    const down = scene.limiter({onUnavailable: 'allow', timeoutMs: 50, transport: {send: () => new Promise(() => {})}})
    const asked = {entity: 'user-1', resource: 'llm', amounts: {tpd: 1}, for: '1h'}
    expect(await failure(down.delegate(asked))).toBeInstanceOf(RateLimiterUnavailable)
  })
})
