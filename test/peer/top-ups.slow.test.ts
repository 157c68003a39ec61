import {beforeAll, beforeEach, describe, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {type PeerScene, usePeers} from './peers.js'
import {describeWithPeers, limit, quota} from './python-client.js'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const DAILY = {cron: '0 0 * * *'}

/** Results of both clients. */
interface Done {
  readonly shards: number
  readonly amounts: Readonly<Record<string, number>>
}

describeWithPeers('resets and top-ups with zae-limiter 0.17', () => {
  const peers = usePeers('0.17')
  let scene: PeerScene
  let users = 0
  let user = ''

  beforeAll(async () => {
    scene = await peers.currentScene()
  })

  /** Every test has its own entity, at the start of a day. */
  beforeEach(async () => {
    user = `u${++users}`
    await scene.at(Math.ceil((scene.nowMs + 1) / DAY_MS) * DAY_MS + HOUR_MS)
  })

  const python = (consume: Readonly<Record<string, number>>, times: number) =>
    scene.client.acquire(user, 'gpt', consume, {times})
  const zael = (consume: Readonly<Record<string, number>>, times: number) => scene.ask(user, 'gpt', consume, times)
  const setLimits = (...limits: readonly object[]) =>
    scene.client.repository('set_limits', {entity_id: user, resource: 'gpt', limits})

  /** The same operations of both clients. */
  const operators = {
    zael: {
      topUp: (amounts: Readonly<Record<string, number>>, idempotencyKey?: string): Promise<Done> =>
        scene.repository.topUpBucket({entity: user, resource: 'gpt'}, amounts, {idempotencyKey}),
      reset: (limits?: readonly string[], idempotencyKey?: string): Promise<Done> =>
        scene.repository.resetBucket({entity: user, resource: 'gpt'}, {limits, idempotencyKey}),
    },
    Python: {
      topUp: (amounts: Readonly<Record<string, number>>, key?: string): Promise<Done> =>
        scene.client.repository('top_up', {entity_id: user, resource: 'gpt', amounts, ...named(key)}),
      reset: (limits?: readonly string[], key?: string): Promise<Done> =>
        scene.client.repository('reset_bucket', {
          entity_id: user,
          resource: 'gpt',
          limits: limits ?? null,
          ...named(key),
        }),
    },
  }
  const named = (key: string | undefined) => (key === undefined ? {} : {idempotency_key: key})

  /** The stored bucket, without write marks and attributes of only one client. */
  async function stored(): Promise<Record<string, object>> {
    const own = /^(GSI.*|PK|wn_.*|rfr|lr|bi|rq|vu|b_wcu_.*|asked|writer|entity_id)$/
    const found = [...(await scene.items())].filter(([key]) => key.includes(`BUCKET#${user}#gpt#`))
    return Object.fromEntries(
      found.map(([key, item]) => [
        key.slice(key.indexOf(' ')),
        Object.fromEntries(Object.entries(item).filter(([name]) => !own.test(name))),
      ]),
    )
  }

  describe.each(['zael', 'Python'] as const)('by %s', who => {
    const other = who === 'zael' ? 'Python' : 'zael'
    const operator = operators[who]

    it.each([1, 4])(
      'G8: admits 5 more to both together in this period, over %i shards, after a top-up of 5',
      async shards => {
        await setLimits(quota('rpd', 12, DAILY), limit('rpm', 1000))
        expect(await zael({rpd: 1}, 2)).toMatchObject({admitted: 2})
        for (let count = 1; count < shards; count *= 2) await splitBucket(scene.tenant, user, 'gpt', count)
        expect((await zael({rpd: 1}, 4)).admitted + (await python({rpd: 1}, 14)).admitted).toBeLessThanOrEqual(10)
        expect(await operator.topUp({rpd: 5}, 'purchase-1')).toMatchObject({shards, amounts: {rpd: 5}})
        expect(await operators[other].topUp({rpd: 5}, 'purchase-1')).toMatchObject({shards, amounts: {rpd: 5}})
        expect(await operator.topUp({rpd: 5}, 'purchase-1')).toMatchObject({amounts: {rpd: 5}})
        await scene.pass(HOUR_MS)
        // Python asks one shard at a time, so the last ones are zael's.
        await python({rpd: 1, rpm: 1}, 4)
        await zael({rpd: 1, rpm: 1}, 20)
        expect(await scene.totals(user, 'gpt', 'rpd', shards)).toEqual({tokens: 0, consumed: 17})
        await scene.pass(DAY_MS)
        await python({rpd: 1}, 4)
        await zael({rpd: 1}, 30)
        expect(await scene.totals(user, 'gpt', 'rpd', shards)).toEqual({tokens: 0, consumed: 29})
      },
    )

    it('starts an unused bucket with a top-up', async () => {
      await setLimits(quota('rpd', 10, DAILY), limit('rpm', 1000))
      expect(await operator.topUp({rpd: 5, rpm: 3})).toMatchObject({shards: 1, amounts: {rpd: 5, rpm: 0}})
      expect((await python({rpd: 1}, 8)).admitted + (await zael({rpd: 1}, 20)).admitted).toBe(15)
    })

    it('opens a session with a top-up, which ends with it', async () => {
      await setLimits(quota('session', 10, {afterSeconds: 3600}))
      expect(await operator.topUp({session: 5})).toMatchObject({amounts: {session: 5}})
      await scene.pass(HOUR_MS / 2)
      expect((await python({session: 1}, 8)).admitted + (await zael({session: 1}, 20)).admitted).toBe(15)
      await scene.pass(HOUR_MS / 2)
      expect((await zael({session: 1}, 4)).admitted + (await python({session: 1}, 20)).admitted).toBe(10)
      expect(await operator.topUp({session: 2})).toMatchObject({amounts: {session: 2}})
      expect((await zael({session: 1}, 1)).admitted + (await python({session: 1}, 20)).admitted).toBe(2)
    })

    it('adds at most the missing tokens to a rate', async () => {
      await setLimits(limit('rpm', 100))
      await python({rpm: 60}, 1)
      expect(await operator.topUp({rpm: 25})).toMatchObject({amounts: {rpm: 25}})
      expect(await operator.topUp({rpm: 90})).toMatchObject({amounts: {rpm: 35}})
      expect(await zael({rpm: 100}, 2)).toMatchObject({admitted: 1, refused: 1})
    })

    it('starts a new period by a reset: top-ups end, and later refunds are dropped', async () => {
      await setLimits(quota('rpd', 10, DAILY), limit('rpm', 100))
      const lease = await scene.limiter().acquire({entity: user, resource: 'gpt', consume: {rpd: 4, rpm: 50}})
      await operators[other].topUp({rpd: 5}, 'purchase-1')
      expect(await operator.reset(['rpd'], 'case-1')).toMatchObject({shards: 1, amounts: {rpd: -1}})
      expect(await operators[other].reset(['rpd'], 'case-1')).toMatchObject({shards: 1, amounts: {rpd: -1}})
      await lease.release({rpd: 4})
      expect(await scene.totals(user, 'gpt', 'rpm')).toMatchObject({tokens: 50})
      expect((await python({rpd: 1}, 4)).admitted + (await zael({rpd: 1}, 20)).admitted).toBe(10)
      expect(await operator.reset()).toMatchObject({amounts: {rpd: 10, rpm: 50}})
      expect((await zael({rpd: 1}, 4)).admitted + (await python({rpd: 1}, 20)).admitted).toBe(10)
    })

    it('ends a session by a reset', async () => {
      await setLimits(quota('session', 10, {afterSeconds: 3600}))
      await python({session: 1}, 4)
      await zael({session: 1}, 4)
      await scene.pass(60_000)
      expect(await operator.reset(undefined, 'case-1')).toMatchObject({shards: 1})
      expect((await zael({session: 1}, 4)).admitted + (await python({session: 1}, 20)).admitted).toBe(10)
    })

    it('rejects a key that the other used for something else', async () => {
      await setLimits(quota('rpd', 10, DAILY))
      await zael({rpd: 1}, 2)
      await operators[other].topUp({rpd: 5}, 'k')
      await expect(operator.reset(undefined, 'k')).rejects.toThrow(/already used/)
      expect(await scene.totals(user, 'gpt', 'rpd')).toMatchObject({tokens: 13})
    })

    it('belongs to an entity creation that the other knows', async () => {
      await scene.client.repository('create_entity', {entity_id: user})
      await setLimits(quota('rpd', 10, DAILY))
      await operator.topUp({rpd: 5}, 'k')
      await operators[other].topUp({rpd: 5}, 'k')
      expect(await scene.totals(user, 'gpt', 'rpd')).toMatchObject({tokens: 15})
      if (who === 'zael') await scene.client.repository('delete_entity', {entity_id: user})
      else await scene.repository.entities.delete(user)
      expect(await stored()).toEqual({})
    })
  })

  it('write the same records and buckets', async () => {
    const both: object[] = []
    for (const {topUp, reset} of [operators.zael, operators.Python]) {
      user = `u${++users}`
      const startMs = scene.nowMs
      await setLimits(quota('rpd', 10, DAILY), quota('free', 7, DAILY), limit('rpm', 100))
      await python({rpd: 8, rpm: 40}, 1)
      await scene.pass(6000)
      await topUp({rpd: 5, rpm: 10}, 'k1')
      await scene.pass(6000)
      await reset(['free'], 'k2')
      both.push(await stored())
      await scene.at(startMs)
    }
    expect(both[0]).toEqual(both[1])
    const {records} = await scene.repository.audit.list({entity: user})
    expect(records.map(({action, details}) => [action, details])).toEqual(
      expect.arrayContaining([
        ['bucket_topped_up', {amounts: {rpd: 5, rpm: 10}, shards: 1}],
        ['bucket_reset', {amounts: {free: 0}, shards: 1}],
      ]),
    )
  })

  it('applies one key of both at once only once, while both spend', async () => {
    await setLimits(quota('rpd', 10, DAILY))
    await zael({rpd: 1}, 1)
    await splitBucket(scene.tenant, user, 'gpt', 1)
    const buying = Promise.all(
      [operators.zael, operators.Python, operators.zael, operators.Python].map(({topUp}) => topUp({rpd: 15}, 'k')),
    )
    const spending = [python({rpd: 1}, 10), zael({rpd: 1}, 10)]
    await Promise.all([buying, ...spending])
    await zael({rpd: 1}, 30)
    expect(await scene.totals(user, 'gpt', 'rpd', 2)).toEqual({tokens: 0, consumed: 25})
  })

  it("outlive both stream processors, and zael's limits", async () => {
    const scope = {level: 'entity', entity: user, resource: 'gpt'} as const
    await setLimits(quota('rpd', 10, DAILY), limit('rpm', 4))
    await python({rpd: 1, rpm: 1}, 1)
    await operators.zael.topUp({rpd: 20})
    for (const run of [
      (records: Parameters<PeerScene['aggregate']>[0]) => scene.aggregate(records).then(({failures}) => failures),
      (records: readonly object[]) => peers.python.stream(scene.client.stack, records).then(({errors}) => errors),
    ]) {
      await scene.pass(15_000)
      const records = await scene.changes(() => python({rpd: 1, rpm: 1}, 1))
      await scene.pass(15_000)
      expect(await run(records)).toEqual([])
    }
    await scene.repository.setLimits(scope, parseLimits(['rpd=11/day@UTC']))
    expect(await scene.totals(user, 'gpt', 'rpd')).toMatchObject({tokens: 28})
    expect((await python({rpd: 1}, 9)).admitted + (await zael({rpd: 1}, 30)).admitted).toBe(28)
  })
})
