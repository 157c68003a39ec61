import {describe, expect, it} from 'vitest'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import {STEP_IDS} from '../../src/lib/migrate/walk/steps.js'
import {Namespaces} from '../../src/lib/repository/namespaces/namespaces.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {STEPS_BEFORE_LIMITS} from '../../src/lib/schema/migration-record.js'
import {describeOnEngine} from '../helpers/table.js'
import {makePopulation} from './fixtures/make-population.js'
import {versionItem} from './limitless/old-buckets.js'
import {useOldTable} from './old-table-scene.js'
import {describeStartingClients} from './starting-clients.js'

describeOnEngine('a client that starts in the middle of a migration', () => {
  it('is let in after the steps that write limits', () => {
    expect(STEP_IDS.slice(0, STEP_IDS.indexOf('data'))).toEqual(STEPS_BEFORE_LIMITS)
  })

  describeStartingClients('of a table without buckets', {
    hasBuckets: false,
    version: '0.7.0',
    first: 'schema.needs-migration 5',
  })

  describe('and finds no limits', () => {
    const population = makePopulation({entities: 0})
    const scene = useOldTable(3, () => [versionItem], population)

    it('finds limits that are copied later at once while the migration is open, and caches their absence after it', async () => {
      await scene.migrate({until: 'limits'})
      const {id} = (await new Namespaces(scene.table).register('default')).namespace
      const {configs} = new NamespaceRepository({...scene.table, namespace: id}, undefined)
      const limiter = scene.limiter(scene.own)
      const sourceOf = async (entity: string) => (await limiter.resolveLimits({entity, resource: 'gpt-4'})).source
      const set = (entity: string) =>
        configs.set({level: 'entity', entity, resource: 'gpt-4'}, [parseLimit('rpm=5/min')])
      const acquired = limiter.acquire({entity: 'early', resource: 'gpt-4', consume: {rpm: 1}})
      await expect(acquired).rejects.toMatchObject({code: 'limits.missing'})
      expect(await sourceOf('early')).toBeUndefined()
      await set('early')
      expect(await sourceOf('early')).toBe('entity')

      await scene.migrate()
      // The next lookup of the namespace also shows that the migration is over.
      scene.nowMs += 60_000
      expect(await sourceOf('late')).toBeUndefined()
      await set('late')
      expect(await sourceOf('late')).toBeUndefined()
      await limiter.close()
    })
  })
})
