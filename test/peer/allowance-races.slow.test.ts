import {describe, expect, it} from 'vitest'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {CHILDREN, type Family, sum, useFleet} from './fleet.js'
import {describeWithPeers, limit, quota} from './python-client.js'

const HOUR_MS = 3_600_000

/** Each child has 40 and their parent 60 per period; all of it is granted at once when the next period starts. */
const KINDS = {
  'a calendar quota': {of: (amount: number) => quota('q', amount, {cron: '0 * * * *'}), periodMs: HOUR_MS},
  'a session': {of: (amount: number) => quota('q', amount, {afterSeconds: 3600}), periodMs: HOUR_MS},
  'a schedule': {
    of: (amount: number) => limit('q', 10 * amount, 36_000, {schedule: [{cron: '* * * * *', scale: 0.1}]}),
    // A tenth of the rate fills a tenth of the capacity in the stored period.
    periodMs: 10 * HOUR_MS,
  },
} as const

describeWithPeers('allowances raced by zae-limiter 0.17 and zael', () => {
  const fleet = useFleet('0.17')

  describe.each(Object.entries(KINDS))('%s', (_, {of, periodMs}) => {
    it.each([1, 4])('is admitted once per period, by all together, with shards: %d', async shards => {
      const raced = await fleet.family(of(40), of(60))
      const {scene} = raced
      const base = await split(raced, shards)
      const totals = (entity: string) => scene.totals(entity, 'gpt', 'q', shards)
      const admitted = new Map<string, number>(base)
      let periods = 0
      do {
        const before = sum(admitted.values())
        for (const [entity, count] of await fleet.race(raced, 'q', 6))
          admitted.set(entity, (admitted.get(entity) ?? 0) + count)
        periods++
        const raceTotal = sum(admitted.values())
        if (periods > 1) expect(raceTotal - before).toBeLessThanOrEqual(60)
        for (const entity of CHILDREN) {
          const {tokens, consumed} = await totals(entity)
          expect(consumed).toBe(admitted.get(entity))
          expect(tokens).toBeGreaterThanOrEqual(0)
        }
        expect((await totals('org')).consumed).toBe(raceTotal)
        // Tokens not given to contended requests are still there.
        const rest = await scene.ask('org', 'gpt', {q: 1}, 70)
        expect(rest.errors).toEqual([])
        admitted.set('org', (admitted.get('org') ?? 0) + rest.admitted)
        expect(sum(admitted.values())).toBe(60 * periods)
        expect(await totals('org')).toEqual({tokens: 0, consumed: 60 * periods})
        await scene.pass(periodMs)
      } while (periods < 2)
    })
  })

  it('resets once, even if a process does not know yet that a reset is due', async () => {
    const {of} = KINDS['a calendar quota']
    const raced = await fleet.family(of(40), of(60))
    const {scene} = raced
    const first = sum((await fleet.race(raced, 'q', 6)).values())
    expect(first).toBeLessThanOrEqual(60)
    await scene.at(Math.ceil(scene.nowMs / HOUR_MS) * HOUR_MS)
    const second = sum((await fleet.race(raced, 'q', 6, 2000)).values())
    const rest = await scene.ask('org', 'gpt', {q: 1}, 70)
    // Requests of the process that is behind may still take from the previous hour.
    expect(first + second + rest.admitted).toBeLessThanOrEqual(120)
    expect(second + rest.admitted).toBeGreaterThanOrEqual(60)
    expect(await scene.totals('org', 'gpt', 'q')).toEqual({tokens: 0, consumed: first + second + rest.admitted})
  })

  it('meters every request of a soft limit, and refuses none', async () => {
    const soft = (amount: number) => limit('q', amount, 60, {soft: true})
    const raced = await fleet.family(soft(4), soft(6))
    const admitted = await fleet.race(raced, 'q', 6)
    expect([...admitted.values()]).toEqual([24, 24, 24])
    for (const entity of CHILDREN) expect(await raced.scene.totals(entity, 'gpt', 'q')).toMatchObject({consumed: 24})
    expect(await raced.scene.totals('org', 'gpt', 'q')).toMatchObject({consumed: 72})
  })

  it('stops a race by a switch: earlier admissions are counted, later requests refused', async () => {
    const raced = await fleet.family(limit('q', 4000), limit('q', 6000))
    const {scene} = raced
    await fleet.race(raced, 'q', 1)
    const racing = fleet.race(raced, 'q', 12)
    await raced.clients[0]?.repository('disable_resource', {resource: 'gpt'})
    await racing
    const counts = () =>
      Promise.all([...CHILDREN, 'org'].map(async each => (await scene.totals(each, 'gpt', 'q')).consumed))
    const counted = await counts()
    expect([...(await fleet.race(raced, 'q', 2)).values()]).toEqual([0, 0, 0])
    expect(await counts()).toEqual(counted)
    expect(sum(counted.slice(0, -1))).toBe(counted.at(-1))
    expect(sum([...(await racing).values()]) + 12).toBe(counted.at(-1))
  })

  it('admits a top-up bought in a race once', async () => {
    const {of} = KINDS['a calendar quota']
    const raced = await fleet.family(of(40), of(60))
    const {scene} = raced
    await scene.ask('org', 'gpt', {q: 1})
    const topUp = {entity_id: 'org', resource: 'gpt', amounts: {q: 15}, idempotency_key: 'purchase-1'}
    const buying = Promise.all(raced.clients.map(client => client.repository('top_up', topUp)))
    const admitted = sum((await fleet.race(raced, 'q', 6)).values())
    await buying
    const rest = await scene.ask('org', 'gpt', {q: 1}, 90)
    expect(1 + admitted + rest.admitted).toBe(75)
    expect(await scene.totals('org', 'gpt', 'q')).toEqual({tokens: 0, consumed: 75})
  })
})

/** Uses every bucket once and splits it; resolves to the admitted amounts. */
async function split({scene}: Family, shards: number): Promise<[entity: string, admitted: number][]> {
  if (shards === 1) return []
  const admitted: [string, number][] = []
  for (const entity of [...CHILDREN, 'org']) {
    admitted.push([entity, (await scene.ask(entity, 'gpt', {q: 1})).admitted])
    for (let count = 1; count < shards; count *= 2)
      expect(await splitBucket(scene.tenant, entity, 'gpt', count)).toBe(2 * count)
  }
  return admitted
}
