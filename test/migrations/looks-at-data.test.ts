import {beforeAll, describe, expect, it} from 'vitest'
import {planMigration} from '../../src/lib/migrations/plan.js'
import {surveyTable} from '../../src/lib/migrations/survey.js'
import {type Item, s} from '../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../helpers/table.js'
import {makePopulation} from './fixtures/make-population.js'
import {GENERATIONS, itemsOf, writeItems} from './fixtures/old-table.js'
import {useOldTable} from './use-old-table.js'

/**
 * `upgrade` moved the recorded version forward and left the data as it was; one release changed the layout without a new
 * version. A record that lies is seen through: the data itself is looked at.
 */
describeOnEngine('C-8 a record that lies about the layout', () => {
  const population = makePopulation({entities: 6})
  const isVersion = ({SK}: Item) => SK !== undefined && 'S' in SK && SK.S === '#VERSION'

  describe.each(GENERATIONS.slice(0, 5))('generation %i with the version of today', generation => {
    const table = useOldTable(generation, population.nowMs)
    const items = itemsOf(generation, population).filter(item => !isVersion(item))
    const lie = {PK: s('_/SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.9.0'), updated_by: s('cli:0.10.3')}
    beforeAll(() => writeItems(table, [...items, lie]))

    it('still has everything to be moved', async () => {
      const survey = await surveyTable(table, {ourVersion: '0.1.0'})
      const plan = planMigration(survey, 100)
      const pending = plan.steps.filter(step => step.isPending).map(({id}) => id)
      expect(pending).toContain('data')
      expect(survey.schema.isAccepted).toBe(true)
      const pendingBuckets = survey.old.filter(({type}) => type === 'bucket').map(row => row.pending + row.expired)
      expect(pendingBuckets.reduce((sum, count) => sum + count, 0)).toBe(
        survey.old.filter(({type}) => type === 'bucket').reduce((sum, {items: count}) => sum + count, 0),
      )
    })
  })

  describe.each(GENERATIONS.slice(0, 5))('generation %i without any version', generation => {
    const table = useOldTable(generation, population.nowMs)
    beforeAll(() =>
      writeItems(
        table,
        itemsOf(generation, population).filter(item => !isVersion(item)),
      ),
    )

    it('is recognised', async () => {
      const plan = planMigration(await surveyTable(table, {ourVersion: '0.1.0'}), 100)
      expect(plan.steps.filter(step => step.isPending).map(({id}) => id)).toEqual(
        expect.arrayContaining(['data', 'version']),
      )
    })
  })

  describe('a table of today whose record is behind', () => {
    const table = useOldTable(6, population.nowMs)
    const behind = {PK: s('_/SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.8.0')}
    beforeAll(() => writeItems(table, [...itemsOf(6, population).filter(item => !isVersion(item)), behind]))

    it('gets a new record and keeps its buckets', async () => {
      const plan = planMigration(await surveyTable(table, {ourVersion: '0.1.0'}), 100)
      const pending = plan.steps.filter(step => step.isPending).map(({id}) => id)
      expect(pending).toContain('version')
      expect(pending).not.toContain('data')
    })
  })
})
