import {describe, expect, it} from 'vitest'
import {describeOnEngine} from '../helpers/table.js'
import {expectMigrated} from './expect-migrated.js'
import {expectedOf} from './fixtures/expected.js'
import {makePopulation} from './fixtures/make-population.js'
import {mixtureItems, strangers, supersededBucketItems} from './fixtures/mixture.js'
import {itemsOf} from './fixtures/old-table.js'
import {keyText, useOldTable} from './old-table-scene.js'

describeOnEngine('migration of a table of several layouts', () => {
  describe('with each entity in the layout of the release that last wrote it', () => {
    const scene = useOldTable(4, mixtureItems, makePopulation({entities: 5, expiredEvery: 5}))

    it('moves everything, and a second run finds nothing to do', async () => {
      const before = await scene.census()
      const result = await scene.migrate()
      expect(result).toMatchObject({finished: true, settled: true, conflicts: {count: 0}, unknown: {count: 0}})
      expect((await scene.verify()).differences.shown).toEqual([])
      const again = await scene.migrate()
      expect(again.steps.every(({written}) => written === 0)).toBe(true)
      expect((await scene.cleanUp()).deleted).toEqual(before.old)
      const after = await scene.census()
      expect(after.old).toEqual({})
      expect(after.current.entity).toBe(scene.population.entities.length)
    })
  })

  describe('with buckets in two layouts at once, and with items of no layout', () => {
    const scene = useOldTable(4, population => [
      ...itemsOf(4, population),
      ...supersededBucketItems(population),
      ...strangers,
    ])

    it('keeps the bucket used last and reports it; leaves unknown items exactly as they are', async () => {
      const before = await scene.items()
      const live = scene.population.buckets.slice(0, 5).filter(({expired}) => !expired).length
      const result = await scene.migrate()
      expect(result.decisions.superseded).toBe(live)
      expect(result.unknown.count).toBe((await scene.census()).unknown)
      expect(result.unknown.shown).toContain('LOCK#deploy #META')
      expect((await scene.verify()).clean).toBe(true)
      await expectMigrated(scene, expectedOf(scene.population, 4))
      await scene.cleanUp()
      const after = new Map((await scene.items()).map(item => [keyText(item), item]))
      for (const stranger of strangers) expect(after.get(keyText(stranger))).toEqual(stranger)
      expect((await scene.census()).old).toEqual({})
      expect(before.length).toBeGreaterThan(0)
    })
  })
})
