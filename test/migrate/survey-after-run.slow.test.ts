import {beforeAll, describe, expect, it} from 'vitest'
import {CapacityMeter} from '../../src/lib/dynamo/capacity.js'
import {planMigration} from '../../src/lib/migrate/plan.js'
import {migrateTable} from '../../src/lib/migrate/run.js'
import {surveyTable} from '../../src/lib/migrate/survey.js'
import {describeOnEngine} from '../helpers/table.js'
import {makePopulation} from './fixtures/make-population.js'
import {GENERATIONS, writeGeneration} from './fixtures/old-table.js'
import {useOldTable} from './use-old-table.js'

const population = makePopulation({entities: 20})

describeOnEngine('a plan matches what a run does', () => {
  describe.each(GENERATIONS)('generation %i', generation => {
    const capacity = new CapacityMeter()
    const table = useOldTable(generation, population.nowMs, capacity)
    beforeAll(() => writeGeneration(table, generation, population))

    it('finds nothing pending after a run, and estimates the right order of magnitude', async () => {
      // Tables of the first generation have no limits for some of their buckets.
      const plan = planMigration(await surveyTable(table, {ourVersion: '0.1.0'}), 100, {limitsFromBuckets: true})
      const before = capacity.snapshot()
      await migrateTable(table, {owner: 'test', ourVersion: '0.1.0', limitsFromBuckets: {}})
      const used = capacity.since(before)
      // Engines count transactions and reads of nothing differently, and every run has some writes of its own for its progress.
      expect(used.read).toBeGreaterThan(plan.readUnits / 3)
      expect(used.read).toBeLessThan(plan.readUnits * 2 + 50)
      expect(used.write).toBeGreaterThan(plan.writeUnits / 2)
      expect(used.write).toBeLessThan(plan.writeUnits * 2 + 50)
      const after = planMigration(await surveyTable(table, {ourVersion: '0.1.0'}), 100)
      expect(after.steps.filter(step => step.isPending)).toEqual([])
      expect(after).toMatchObject({isPending: false, conflicts: 0, leftovers: plan.leftovers})
    })
  })
})
