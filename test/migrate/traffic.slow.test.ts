import {describe, expect, it} from 'vitest'
import {type Item, readBigInt} from '../../src/lib/schema/attribute-value.js'
import {type BucketRecord, decodeBucket} from '../../src/lib/schema/bucket-record.js'
import {describeOnEngine} from '../helpers/table.js'
import {earnedMilli} from '../limiter/fixtures/ledger.js'
import {type OldTableScene, useOldTable} from './old-table-scene.js'
import {ENTITIES, excessOf, itemsFor, LIMIT, mostAdmitted, Traffic} from './traffic.js'

/** Ms for thousands of requests on a busy machine. */
const SLOW_MS = 900_000

async function bucketsOf(scene: OldTableScene): Promise<Map<string, {record: BucketRecord; old: Item}>> {
  const items = await scene.items()
  const found = new Map<string, {record: BucketRecord; old: Item}>()
  for (const item of items) {
    const stored = decodeBucket(item)
    if (stored?.kind !== 'bucket') continue
    const {record} = stored
    const old = items.find(
      each =>
        (each.PK as {S: string}).S === `ENTITY#${record.entity}` && (each.SK as {S: string}).S.startsWith('#BUCKET'),
    )
    if (old) found.set(record.entity, {record, old})
  }
  return found
}

describeOnEngine('traffic of both layouts during a migration', () => {
  describe.each(['composite', 'per limit'] as const)('on buckets with %s items', layout => {
    const scene = useOldTable(4, population => itemsFor(layout)(population))

    it('loses and mints no token (S2), and both sides together stay within the stated bound (S1)', {
      timeout: SLOW_MS,
    }, async () => {
      const traffic = new Traffic(scene, layout, 7)
      scene.transport = traffic.transport
      await scene.migrate({leaseMs: 3_600_000})
      // Greedy clients on both sides, and a pass now and then.
      for (let round = 0; round < 8; round++) {
        for (const entity of ENTITIES) {
          while (await traffic.acquireOld(entity, 3));
          while (await traffic.acquireNew(entity, 3));
        }
        scene.nowMs += 20_000
        await scene.migrate({leaseMs: 3_600_000})
      }
      traffic.isOn = false
      expect(await scene.migrate()).toMatchObject({settled: true, conflicts: {count: 0}})
      expect((await scene.verify()).clean).toBe(true)

      for (const [entity, {record, old}] of await bucketsOf(scene)) {
        const copy = traffic.copies.get(entity)
        const client = traffic.old.get(entity)
        const limit = record.state.limits.get('rpm')
        if (!copy || !client || !limit) throw new Error(`${entity} was not copied`)
        // S2: the copied balance plus refill since, minus the consumption of both sides since.
        const oldTotal = readBigInt(old, layout === 'composite' ? 'b_rpm_tc' : 'total_consumed_milli') ?? 0n
        const newTotal = traffic.newConsumedMilli.get(entity) ?? 0n
        expect(oldTotal).toBe(client.consumedMilli)
        expect(limit.consumedMilli).toBe(newTotal)
        const initial = copy.state.limits.get('rpm')?.tokensMilli ?? 0n
        const balance = initial + earnedMilli(copy, record, 'rpm') - (oldTotal - copy.oldConsumed) - newTotal
        expect({entity, balance: limit.tokensMilli}).toEqual({entity, balance})
        // The old item is true as well, for clients that go back to it.
        const oldBalance = 60_000n + client.refilledMilli - oldTotal - newTotal
        if (layout === 'composite') expect(readBigInt(old, 'b_rpm_tk')).toBe(oldBalance)
        // S7: time never went back.
        expect(record.state.refilledAtMs).toBeGreaterThanOrEqual(copy.state.refilledAtMs)

        const admissions = traffic.admissions.get(entity) ?? []
        const consumed = admissions.reduce((sum, [, tokens]) => sum + tokens, 0)
        expect(consumed).toBeGreaterThan(3 * LIMIT.capacity)
        // S1: at most the admissions of one side before it sees the other; here clients come once in each gap.
        expect(excessOf(admissions)).toBeLessThanOrEqual(LIMIT.capacity)
        expect(scene.nowMs - scene.population.nowMs).toBeGreaterThan(160_000)
      }
    })
  })
})

describeOnEngine('clients of both layouts without a pass', () => {
  const scene = useOldTable(4, population => itemsFor('composite')(population))
  const MINUTES = 60

  it('admit too many requests by the refill of one side in that time, and then nothing until that is paid back', {
    timeout: SLOW_MS,
  }, async () => {
    const traffic = new Traffic(scene, 'composite', 7)
    const [entity = ''] = ENTITIES
    const drain = async () => {
      while (await traffic.acquireOld(entity, 20));
      while (await traffic.acquireNew(entity, 20));
    }
    await scene.migrate()
    const beganMs = scene.nowMs
    for (let minute = 0; minute < MINUTES; minute++) {
      await drain()
      scene.nowMs += 60_000
    }
    await drain()
    const gapMs = scene.nowMs - beganMs
    await scene.migrate()
    const admissions = traffic.admissions.get(entity) ?? []
    expect(excessOf(admissions)).toBeLessThanOrEqual(mostAdmitted(gapMs))
    // Far more than a capacity, the excess of a short gap.
    expect(excessOf(admissions)).toBeGreaterThan((MINUTES - 2) * LIMIT.capacity)

    const admits = async () => [await traffic.acquireOld(entity, 1), await traffic.acquireNew(entity, 1)]
    expect(await admits()).toEqual([false, false])
    scene.nowMs += gapMs - 60_000
    expect(await admits()).toEqual([false, false])
    // The gap and the time to fill a bucket.
    scene.nowMs += 120_000
    expect(await admits()).toEqual([true, true])
    // Tokens that were paid back are not admitted again: the whole time is within the same bound.
    await scene.migrate()
    expect(excessOf(admissions)).toBeLessThanOrEqual(mostAdmitted(gapMs))
    expect((await scene.verify()).clean).toBe(true)
  })
})
