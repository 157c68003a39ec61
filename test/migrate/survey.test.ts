import {beforeAll, describe, expect, it} from 'vitest'
import {planMigration} from '../../src/lib/migrate/plan.js'
import {type Survey, surveyTable} from '../../src/lib/migrate/survey.js'
import {Namespaces} from '../../src/lib/repository/namespaces/namespaces.js'
import type {Table} from '../../src/lib/repository/table/table.js'
import {s} from '../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../helpers/table.js'
import {Interceptor} from '../repository/namespace-table.js'
import {makePopulation} from './fixtures/make-population.js'
import {mixtureItems, strangers} from './fixtures/mixture.js'
import {GENERATIONS, itemsOf, writeGeneration, writeItems} from './fixtures/old-table.js'
import {useOldTable} from './use-old-table.js'

const population = makePopulation({entities: 5, expiredEvery: 5})
const survey = (table: Table): Promise<Survey> => surveyTable(table, {ourVersion: '0.1.0'})

const totalOf = ({old}: Survey, of: 'items' | 'pending' | 'conflicts' | 'expired') =>
  old.reduce((total, row) => total + row[of], 0)

describeOnEngine('a survey', () => {
  describe.each(GENERATIONS)('of generation %i', generation => {
    const table = useOldTable(generation, population.nowMs)
    const transport = new Interceptor(table.transport)
    const progress: number[] = []
    let found: Survey
    beforeAll(async () => {
      await writeGeneration(table, generation, population)
      const onProgress = (items: number) => progress.push(items)
      found = await surveyTable({...table, transport}, {ourVersion: '0.1.0', onProgress})
    })

    it('counts every item once and writes nothing (L8)', () => {
      const written = itemsOf(generation, population)
      expect(found.items).toBe(written.length)
      expect(progress.at(-1)).toBe(written.length)
      expect(found.unknown).toEqual({items: 0, keys: []})
      const current = Object.values(found.current).reduce((sum, count) => sum + count, 0)
      expect(totalOf(found, 'items') + current).toBe(written.length)
      const reads = new Set(['Scan', 'GetItem', 'BatchGetItem', 'Query', 'DescribeTable', 'DescribeTimeToLive'])
      expect(transport.calls.filter(call => !reads.has(call))).toEqual([])
    })

    it('reports pending items, expired items and the missing parts of the table', () => {
      const expired = population.buckets.filter(bucket => bucket.expired)
      const isPerLimit = generation <= 2
      const expiredItems = isPerLimit ? expired.flatMap(({limits}) => limits).length : expired.length
      expect(expiredItems).toBeGreaterThan(0)
      expect(totalOf(found, 'expired')).toBe(generation === 6 ? 0 : expiredItems)
      expect(totalOf(found, 'conflicts')).toBe(0)
      expect(found.missing.indexes).toEqual(['GSI3', 'GSI4'].slice([0, 0, 0, 0, 1, 2, 2][generation]))
      expect(found.registersDefault).toBe(generation <= 4)
      expect(found.schema.isAccepted).toBe(generation === 6)
    })
  })

  describe('of a mixture with items of unknown shape', () => {
    const table = useOldTable(2, population.nowMs)
    beforeAll(() => writeItems(table, [...mixtureItems(population), ...strangers]))

    it('finds several generations, and counts unknown items apart', async () => {
      const found = await survey(table)
      expect(new Set(found.old.map(({generation}) => generation))).toEqual(new Set([1, 2, 3, 4]))
      expect(found.unknown.items).toBe(strangers.length)
      expect(found.unknown.keys).toContain('LOCK#deploy #META')
    })
  })

  describe('of data under the id `default`', () => {
    const table = useOldTable(5, population.nowMs)
    const entity = {entity_id: s('e'), name: s('e'), created_at: s('2026-01-01T00:00:00Z')}
    beforeAll(() => writeItems(table, [{PK: s('default/ENTITY#e'), SK: s('#META'), ...entity}]))

    it('counts it as current until the namespace of that name has another id', async () => {
      expect(await survey(table)).toMatchObject({old: [], current: {entity: 1}, registersDefault: false})
      // For data without a namespace the namespace will be registered, and then this has to move too.
      await writeItems(table, [{PK: s('ENTITY#f'), SK: s('#META'), ...entity, entity_id: s('f')}])
      const before = await survey(table)
      expect(before.old.map(({generation, type, pending}) => [generation, type, pending])).toEqual([
        [2, 'entity', 1],
        [5, 'entity', 1],
      ])
      await new Namespaces(table).register('default')
      const after = await survey(table)
      expect(after.old.map(({generation, type, pending}) => [generation, type, pending])).toEqual([
        [2, 'entity', 1],
        [5, 'entity', 1],
      ])
    })
  })

  describe('of a record that differs in both places', () => {
    const table = useOldTable(4, population.nowMs)

    it('reports a conflict, with the key to resolve it', async () => {
      const {namespace} = await new Namespaces(table).register('default')
      const entity = (PK: string, name: string) => ({
        PK: s(PK),
        SK: s('#META'),
        entity_id: s('e'),
        name: s(name),
        created_at: s('2026-01-01T00:00:00Z'),
      })
      await writeItems(table, [entity('ENTITY#e', 'Ada'), entity(`${namespace.id}/ENTITY#e`, 'Grace')])
      const found = await survey(table)
      expect(found.old).toMatchObject([{type: 'entity', items: 1, pending: 0, conflicts: 1}])
      expect(found.conflicts).toEqual([{key: 'ENTITY#e #META', reason: expect.stringContaining('new layout')}])
      expect(planMigration(found, 100)).toMatchObject({isPending: true, conflicts: 1, blockers: [{blocks: 'cleanup'}]})
    })
  })

  describe('of a table with a newer layout', () => {
    const table = useOldTable(6, population.nowMs)

    it('is refused', async () => {
      await writeItems(table, [{PK: s('_/SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.11.0')}])
      await expect(survey(table)).rejects.toMatchObject({code: 'schema.too-new', kind: 'conflict'})
    })
  })

  describe('of an empty table', () => {
    const table = useOldTable(6, population.nowMs)

    it('finds nothing to copy', async () => {
      const found = await survey(table)
      expect(found).toMatchObject({items: 0, old: [], registersDefault: false, isRunning: false, run: undefined})
      expect(
        planMigration(found, 100)
          .steps.filter(({isPending}) => isPending)
          .map(({id}) => id),
      ).toEqual(['indexes'])
    })
  })
})
