import {describe, expect, it} from 'vitest'
import type {Generation} from '../../src/lib/migrate/records/classify.js'
import {describeOnEngine} from '../helpers/table.js'
import {expectMigrated} from './expect-migrated.js'
import {expectedOf} from './fixtures/expected.js'
import {makePopulation} from './fixtures/make-population.js'
import {itemsOf} from './fixtures/old-table.js'
import {useOldTable} from './old-table-scene.js'

/** Migrates a table of every old generation with that many entities, until no old items are left. */
export function testGenerations(entities: number, expiredEvery = 11): void {
  describeOnEngine(`migration of ${entities} entities`, () => {
    describe.each([1, 2, 3, 4, 5] as Generation[])('of generation %i', generation => {
      const population = makePopulation({entities, expiredEvery})
      const scene = useOldTable(generation, () => itemsOf(generation, population), population)
      const expectAll = () =>
        expectMigrated(scene, expectedOf(population, generation), {midnightsStay: generation === 5})

      it('moves everything, compares clean, and leaves nothing old behind', {timeout: 300_000}, async () => {
        const before = await scene.census()
        expect((await scene.verify()).clean).toBe(false)
        const result = await scene.migrate()
        expect(result).toMatchObject({finished: true, settled: true, conflicts: {count: 0}, unknown: {count: 0}})
        expect((await scene.verify()).differences.shown).toEqual([])
        await expectAll()

        const again = await scene.migrate()
        expect(again.steps.map(step => step.written)).toEqual(again.steps.map(() => 0))

        const {deleted, left} = await scene.cleanUp()
        expect(left.count).toBe(0)
        expect(deleted).toEqual(before.old)
        expect((await scene.census()).old).toEqual({})
        await expectAll()
      })
    })
  })
}
