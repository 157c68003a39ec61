import {beforeAll, describe, expect, it} from 'vitest'
import {type MigrationPlan, planMigration} from '../../src/lib/migrate/plan.js'
import {surveyTable} from '../../src/lib/migrate/survey.js'
import {type Item, s} from '../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../helpers/table.js'
import {makePopulation} from './fixtures/make-population.js'
import {GENERATIONS, itemsOf, writeItems} from './fixtures/old-table.js'
import {useOldTable} from './use-old-table.js'

const pendingSteps = ({steps}: MigrationPlan) => steps.filter(step => step.isPending).map(({id}) => id)

/**
 * `upgrade` of the Python tool moved the recorded version forward and left the data as it was; one release changed the
 * layout without a new version. The survey looks at the data.
 */
describeOnEngine('C-8 a survey does not rely on the version record', () => {
  const population = makePopulation({entities: 2})
  const isVersion = ({SK}: Item) => SK !== undefined && 'S' in SK && SK.S === '#VERSION'
  const unversioned = (generation: (typeof GENERATIONS)[number]) =>
    itemsOf(generation, population).filter(item => !isVersion(item))

  describe.each(GENERATIONS.slice(0, 5))('generation %i', generation => {
    const table = useOldTable(generation, population.nowMs)
    beforeAll(() => writeItems(table, unversioned(generation)))

    it('is recognised without any version', async () => {
      const plan = planMigration(await surveyTable(table, {ourVersion: '0.1.0'}), 100)
      expect(pendingSteps(plan)).toEqual(expect.arrayContaining(['data', 'version']))
    })

    it('still has everything to be copied when the record names the current version', async () => {
      const wrong = {PK: s('_/SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.9.0'), updated_by: s('cli:0.10.3')}
      await writeItems(table, [wrong])
      const survey = await surveyTable(table, {ourVersion: '0.1.0'})
      expect(survey.schema.isAccepted).toBe(true)
      expect(pendingSteps(planMigration(survey, 100))).toContain('data')
      const buckets = survey.old.filter(({type}) => type === 'bucket')
      const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)
      expect(sum(buckets.map(({pending, expired}) => pending + expired))).toBe(sum(buckets.map(({items}) => items)))
    })
  })

  describe('a table of the current layout whose record is behind', () => {
    const table = useOldTable(6, population.nowMs)
    const behind = {PK: s('_/SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.8.0')}
    beforeAll(() => writeItems(table, [...unversioned(6), behind]))

    it('gets a new record and keeps its buckets', async () => {
      const pending = pendingSteps(planMigration(await surveyTable(table, {ourVersion: '0.1.0'}), 100))
      expect(pending).toContain('version')
      expect(pending).not.toContain('data')
    })
  })
})
