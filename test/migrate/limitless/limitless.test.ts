import {beforeAll, describe, expect, it} from 'vitest'
import {limitlessLines} from '../../../src/lib/cli/migrate/limitless-presenter.js'
import {formatLimit, parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {batchWrite} from '../../../src/lib/dynamo/batch.js'
import {verifyTable} from '../../../src/lib/insight/verify/verify.js'
import {surveyTable} from '../../../src/lib/migrate/survey.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {type ConfigScope, configKey} from '../../../src/lib/schema/config-record.js'
import {keyOf, wireKey} from '../../../src/lib/schema/keys.js'
import {migrationRecordKey} from '../../../src/lib/schema/migration-record.js'
import {describeOnEngine} from '../../helpers/table.js'
import {makePopulation} from '../fixtures/make-population.js'
import {type OldTableScene, useOldTable, VERSION} from '../old-table-scene.js'
import {limitlessItems} from './old-buckets.js'

const POPULATION = makePopulation({entities: 0})

/** The survey of the table: per resource the limits of most buckets, exceptions, and the rest. */
async function surveyed(scene: OldTableScene) {
  const {limitless} = await surveyTable(scene.table, {ourVersion: VERSION})
  const rows = limitless.resources.map(row => ({
    resource: row.resource,
    buckets: row.buckets,
    common: row.common?.map(limit => formatLimit(limit)),
    exceptions: row.shownExceptions.map(({entity}) => entity).sort(),
    underivable: row.underivable,
  }))
  return {buckets: limitless.buckets, rows: rows.sort((a, b) => (a.resource < b.resource ? -1 : 1))}
}

async function repositoryOf(scene: OldTableScene): Promise<NamespaceRepository> {
  const id = (await new Namespaces(scene.table).resolve('default'))?.id as string
  return new NamespaceRepository({...scene.table, namespace: id}, undefined)
}

async function applied(scene: OldTableScene, entity: string, resource: string): Promise<string> {
  const {source, limits} = await (await repositoryOf(scene)).configs.resolve({entity, resource})
  return [source ?? 'nothing', ...limits.map(limit => formatLimit(limit))].join(' ')
}

const QUOTA = {name: 'rpm', capacity: 5, refillAmount: 0, refillPeriodSeconds: 1, reset: {crons: ['0 0 * * *']}}

const FOUND = {
  buckets: 10,
  rows: [
    {resource: 'db.read', buckets: 2, common: undefined, exceptions: ['user-1', 'user-2'], underivable: 0},
    {resource: 'gpt-4', buckets: 8, common: ['rpm=100/min', 'tpm=10k/min'], exceptions: ['vip'], underivable: 1},
  ],
}

const ALL = [
  ['user-1', 'gpt-4', 'resource rpm=100/min tpm=10k/min'],
  ['user-5', 'gpt-4', 'resource rpm=100/min tpm=10k/min'],
  ['partly', 'gpt-4', 'resource rpm=100/min tpm=10k/min'],
  ['vip', 'gpt-4', 'entity rpm=900/min tpm=90k/min'],
  ['user-1', 'db.read', 'entity rps=10/sec'],
  ['user-2', 'db.read', 'entity rps=20/sec'],
  ['own', 'gpt-4', 'entity rpm=60/min'],
  ['own-default', 'gpt-4', 'entity_default rpm=70/min'],
  ['odd', 'gpt-4', 'resource rpm=100/min tpm=10k/min'],
] as const

describeOnEngine('buckets without limits', () => {
  describe('in a table of 0.6 or older', () => {
    const scene = useOldTable(1, limitlessItems, POPULATION)

    it('are found before a run, with proposed limits for them', async () => {
      expect(await surveyed(scene)).toEqual(FOUND)
    })

    it('are reported by a run that does not write them, and by a comparison, which is clean', async () => {
      const result = await scene.migrate()
      expect(result).toMatchObject({finished: true, limitsWritten: undefined, limitless: {buckets: 10}})
      expect(await scene.verify()).toMatchObject({clean: true, limitless: {buckets: 10}})
      // The same from the copies as from the old items.
      expect(await surveyed(scene)).toEqual(FOUND)
      await expect(
        scene.limiter().acquire({entity: 'user-2', resource: 'gpt-4', consume: {requests: 1}}),
      ).rejects.toMatchObject({code: 'limits.missing'})
    })

    it('get limits from the buckets: common ones for the resource, others for single entities', async () => {
      const result = await scene.migrate({limitsFromBuckets: {principal: 'ops'}})
      expect(result).toMatchObject({limitsWritten: {resources: 1, entities: 3}, limitless: {buckets: 0}})
      expect(
        await Promise.all(
          ALL.map(async ([entity, resource]) => [entity, resource, await applied(scene, entity, resource)]),
        ),
      ).toEqual(ALL)
      expect(await surveyed(scene)).toEqual({buckets: 0, rows: []})
      expect(await scene.verify()).toMatchObject({clean: true, limitless: {buckets: 0}})
    })

    it('are audited as if they had been set', async () => {
      const {audit} = await repositoryOf(scene)
      const {records} = await audit.list({entity: 'vip'})
      expect(records).toMatchObject([{action: 'limits_set', principal: 'ops', resource: 'gpt-4'}])
      expect((await audit.list({entity: '$RESOURCE:gpt-4'})).records).toMatchObject([
        {action: 'limits_set', principal: 'ops'},
      ])
    })

    it('are listed in the registries', async () => {
      const {configs} = await repositoryOf(scene)
      expect((await configs.resources()).map(({scope}) => scope)).toEqual([{level: 'resource', resource: 'gpt-4'}])
      const names = await configs.resourcesOfEntities()
      expect(names).toEqual(['_default_', 'db.read', 'gpt-4'])
      const counts = names.map(async name => (await configs.entities(name)).records.length)
      expect(await Promise.all(counts)).toEqual([1, 2, 2])
    })

    it('are written once: a second run finds nothing to do', async () => {
      const before = await scene.items()
      const result = await scene.migrate({limitsFromBuckets: {}})
      expect(result.limitsWritten).toEqual({resources: 0, entities: 0})
      const isProgress = (item: {SK?: unknown}) => JSON.stringify(item.SK).includes(migrationRecordKey.SK)
      expect((await scene.items()).filter(item => !isProgress(item))).toEqual(before.filter(item => !isProgress(item)))
    })
  })

  describe('that get their limits in the first run', () => {
    const scene = useOldTable(1, limitlessItems, POPULATION)

    it('have them before clients are admitted, with the confirmed numbers', async () => {
      const {limitless} = await surveyTable(scene.table, {ourVersion: VERSION})
      await scene.migrate({until: 'configuration'})
      await expect(
        scene.limiter().acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}}),
      ).rejects.toMatchObject({code: 'schema.migrating', kind: 'conflict'})
      await scene.migrate({until: 'limits', limitsFromBuckets: {agreed: limitless}})
      const served = await scene.limiter().acquire({entity: 'vip', resource: 'gpt-4', consume: {rpm: 1}})
      expect(served.limits.rpm).toMatchObject({capacity: 900})
      expect(await scene.migrate()).toMatchObject({finished: true, limitless: {buckets: 0}})
    })
  })

  describe('of the current layout', () => {
    const scene = useOldTable(6, () => [], POPULATION)
    const resource = {level: 'resource', resource: 'gpt-4'} as const

    beforeAll(async () => {
      for (const name of ['default', 'left']) {
        const {id} = (await new Namespaces(scene.table).register(name)).namespace
        const {configs} = new NamespaceRepository({...scene.table, namespace: id}, undefined)
        await configs.set(resource, [parseLimit('rpm=1001/min')])
        await configs.set({level: 'entity', entity: 'quota', resource: 'gpt-4'}, [QUOTA])
        const limiter = scene.limiter(scene.own, name)
        for (const entity of ['wide', 'plain', 'off', 'quota']) {
          await limiter.acquire({entity, resource: 'gpt-4', consume: {rpm: 1}})
        }
        await splitBucket({...scene.table, namespace: id}, 'wide', 'gpt-4', 1)
        await configs.delete({level: 'entity', entity: 'quota', resource: 'gpt-4'})
        await configs.delete(resource)
        await configs.setAccess({level: 'entity', entity: 'off', resource: 'gpt-4'}, 'disabled')
      }
      await new Namespaces(scene.table).delete('left')
    })

    const kinds = async () => {
      const {findings} = await verifyTable(scene.table)
      return findings.filter(({kind}) => kind === 'limitless').map(({entity}) => entity)
    }

    it('are not reported in a table that never had an older layout, because clients may have their own limits', async () => {
      expect(await surveyed(scene)).toEqual({buckets: 0, rows: []})
      expect((await scene.verify()).limitless.buckets).toBe(0)
      expect(await kinds()).toEqual([])
    })

    it('are counted for namespaces in use, over all shards, unless a switch refuses every request', async () => {
      await scene.migrate()
      const row = {resource: 'gpt-4', buckets: 3, common: ['rpm=1001/min'], exceptions: [], underivable: 1}
      expect(await surveyed(scene)).toEqual({buckets: 3, rows: [row]})
      const {limitless} = await surveyTable(scene.table, {ourVersion: VERSION})
      expect((await limitlessLines(limitless, 100)).join('\n')).toMatch(/gpt-4 +default +3/)
      expect((await kinds()).sort()).toEqual(['plain', 'quota', 'wide'])
      await scene.migrate({limitsFromBuckets: {}})
      expect(await applied(scene, 'wide', 'gpt-4')).toBe('resource rpm=1001/min')
      expect(await kinds()).toEqual([])
    })
  })

  describe('for which somebody else configures limits meanwhile', () => {
    const scene = useOldTable(1, limitlessItems, POPULATION)
    const vip = {level: 'entity', entity: 'vip', resource: 'gpt-4'} as const
    const resource = {level: 'resource', resource: 'gpt-4'} as const
    const system = {level: 'system'} as const

    /** Sets limits right before a configuration is written, after the last look at the levels. */
    async function writeWhile(written: ConfigScope, set: ConfigScope): Promise<void> {
      await scene.migrate({until: 'configuration'})
      const {id} = await repositoryOf(scene)
      const {configs} = new NamespaceRepository({...scene.table, transport: scene.own, namespace: id}, undefined)
      const key = wireKey(configKey(id, written))
      let hasSet = false
      scene.transport = {
        send: async (operation, input, options) => {
          const [first] = (input as {TransactItems?: {Update?: {Key: object}}[]}).TransactItems ?? []
          if (!hasSet && JSON.stringify(first?.Update?.Key) === JSON.stringify(key)) {
            hasSet = true
            await configs.set(set, [parseLimit('rpm=3/min')])
          }
          return scene.own.send(operation, input, options)
        },
      }
      await scene.migrate({until: 'limits', limitsFromBuckets: {}})
      scene.transport = scene.own
      expect(hasSet).toBe(true)
    }

    it.each([
      ['the entity itself', vip, vip, 'entity'],
      ['the default of the entity', vip, {...vip, resource: '_default_'}, 'entity_default'],
      ['the resource, before an exception is written', vip, resource, 'resource'],
      ['the system, before an exception is written', vip, system, 'system'],
      ['the resource itself', resource, resource, 'resource'],
      ['the system, before the resource is written', resource, system, 'system'],
    ] as const)('keep the limits of %s', async (_, written, set, level) => {
      await writeWhile(written, set)
      expect(await applied(scene, written === vip ? 'vip' : 'user-2', 'gpt-4')).toBe(`${level} rpm=3/min`)
      await restore(scene)
    })
  })
})

/** Deletes all that is of the current layout. */
async function restore(scene: OldTableScene): Promise<void> {
  const ofToday = (await scene.items()).map(keyOf).filter(({PK}) => PK.includes('/'))
  const deletes = ofToday.map(key => ({delete: key}))
  await batchWrite(scene.own, scene.name, deletes, {backoff: scene.table.backoff})
}
