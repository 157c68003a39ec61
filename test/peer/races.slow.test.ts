import {expect, it} from 'vitest'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {CHILDREN, sum, useFleet} from './fleet.js'
import {describeWithPeers, limit} from './python-client.js'

describeWithPeers.each(['0.10', '0.17'] as const)('plain limits raced by zae-limiter %s and zael', release => {
  const fleet = useFleet(release)
  const family = () => fleet.family(limit('rpm', 40), limit('rpm', 60))

  it('admit no more than available, and count their admissions at the child and its parent', async () => {
    const raced = await family()
    const {scene} = raced
    const first = await fleet.race(raced, 'rpm', 12)
    await scene.pass(30_000)
    const later = await fleet.race(raced, 'rpm', 8)
    const total = sum(first.values()) + sum(later.values())
    // 60 at the start, and 30 in half a minute.
    expect(total).toBeLessThanOrEqual(90)
    for (const entity of CHILDREN) {
      const {tokens, consumed} = await scene.totals(entity, 'gpt', 'rpm')
      expect(consumed).toBe((first.get(entity) ?? 0) + (later.get(entity) ?? 0))
      expect(tokens).toBeGreaterThanOrEqual(0)
    }
    expect(await scene.totals('org', 'gpt', 'rpm')).toEqual({tokens: 90 - total, consumed: total})
    // No token is withheld: a minute later the whole capacity is there again.
    await scene.pass(60_000)
    expect(await scene.ask('org', 'gpt', {rpm: 1}, 70)).toMatchObject({admitted: 60, refused: 10})
  })

  it('count the same in the usage records, whichever stream processor runs', async () => {
    const raced = await family()
    const {scene} = raced
    for (const entity of [...CHILDREN, 'org']) await scene.ask(entity, 'gpt', {rpm: 1})
    const base = (await scene.totals('org', 'gpt', 'rpm')).consumed
    let admitted = new Map<string, number>()
    const records = await scene.changes(async () => {
      admitted = await fleet.race(raced, 'rpm', 10)
    })
    if (release === '0.10') await scene.client.process.stream(scene.client.stack, records)
    else await scene.aggregate(records)
    const usage = async (entity: string) => {
      const {records: windows} = await scene.repository.usageWindows({entity, resource: 'gpt', window: 'hourly'})
      return sum(windows.map(({tokens}) => tokens.rpm ?? 0))
    }
    for (const entity of CHILDREN) expect(await usage(entity)).toBe(admitted.get(entity))
    expect(await usage('org')).toBe(sum(admitted.values()))
    expect((await scene.totals('org', 'gpt', 'rpm')).consumed - base).toBe(sum(admitted.values()))
  })

  // Clients of 0.10 credit every shard with the whole bucket's refill: see write-pressure.slow.test.ts.
  it.runIf(release === '0.17')('share four shards, at the child and at the parent', async () => {
    const raced = await family()
    const {scene} = raced
    for (const entity of [...CHILDREN, 'org']) {
      await scene.ask(entity, 'gpt', {rpm: 1})
      for (const count of [1, 2]) expect(await splitBucket(scene.tenant, entity, 'gpt', count)).toBe(2 * count)
    }
    const base = (await scene.totals('org', 'gpt', 'rpm', 4)).consumed
    const first = await fleet.race(raced, 'rpm', 10)
    await scene.pass(30_000)
    const later = await fleet.race(raced, 'rpm', 6)
    const total = base + sum(first.values()) + sum(later.values())
    expect(total).toBeLessThanOrEqual(90)
    for (const entity of CHILDREN) {
      const {consumed} = await scene.totals(entity, 'gpt', 'rpm', 4)
      expect(consumed).toBe(1 + (first.get(entity) ?? 0) + (later.get(entity) ?? 0))
    }
    expect((await scene.totals('org', 'gpt', 'rpm', 4)).consumed).toBe(total)
    await scene.pass(60_000)
    expect(await scene.ask('org', 'gpt', {rpm: 1}, 70)).toMatchObject({admitted: 60, refused: 10})
  })
})
