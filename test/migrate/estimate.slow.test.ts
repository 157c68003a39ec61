import {describe, expect, inject, it} from 'vitest'
import {DEFAULT_PACE, planMigration} from '../../src/lib/migrate/plan.js'
import type {Generation} from '../../src/lib/migrate/records/classify.js'
import {surveyTable} from '../../src/lib/migrate/survey.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../helpers/table.js'
import {makePopulation} from './fixtures/make-population.js'
import {mixtureItems} from './fixtures/mixture.js'
import {itemsOf} from './fixtures/old-table.js'
import type {Population} from './fixtures/population.js'
import {useOldTable, VERSION} from './old-table-scene.js'

const TABLES: [string, Generation, (population: Population) => readonly Item[]][] = [
  ...([1, 2, 3, 4, 5] as const).map(
    generation =>
      [`generation ${generation}`, generation, (population: Population) => itemsOf(generation, population)] as const,
  ),
  ['a mixture', 3, mixtureItems],
].map(([name, generation, items]) => [name, generation, items] as [string, Generation, typeof mixtureItems])

/** Reading an item that does not exist costs units; DynamoDB Local does not count them in batches and queries. */
const MOST_OF_READS = inject('engineName') === 'dynamodb-local' ? 2.2 : 1.3

describeOnEngine('the estimated cost of a migration', () => {
  describe.each(TABLES)('on a table of %s', (_, generation, items) => {
    const scene = useOldTable(generation, items, makePopulation({entities: 16}))

    /** Estimates: some entities have several buckets, and items of a kind are not all of one size. */
    const expectNear = (planned: number, counted: number, most = 1.3) => {
      expect(planned / counted).toBeGreaterThan(0.8)
      expect(planned / counted).toBeLessThan(most)
    }
    const planned = async () => planMigration(await surveyTable(scene.table, {ourVersion: VERSION}), DEFAULT_PACE)
    const counted = async () => {
      const before = scene.capacity.snapshot()
      await scene.migrate()
      return scene.capacity.since(before)
    }

    it('is close to the units that the engine counts', async () => {
      const plan = await planned()
      const {read, write} = await counted()
      expectNear(plan.readUnits, read, MOST_OF_READS)
      expectNear(plan.writeUnits, write)
    })

    it('is close to the units that the engine counts when every copy is up to date', async () => {
      // The table still lacks its stream, which these tests do not enable.
      const plan = await planned()
      expect(plan.steps.filter(({isPending}) => isPending).map(({id}) => id)).toEqual(['indexes'])
      expect(plan.writeUnits).toBe(0)
      expectNear(plan.readUnits, (await counted()).read)
    })
  })
})
