import {expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {type ConfigSelection, configPage, getConfigured} from '../../../src/lib/repository/limits/limit-pages.js'
import type {ConfigRecord, ConfigScope} from '../../../src/lib/schema/config-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant} from '../namespace-table.js'

const system: ConfigScope = {level: 'system'}
const of = (entity: string, resource = DEFAULT_RESOURCE): ConfigScope => ({level: 'entity', entity, resource})
const resource = (name: string): ConfigScope => ({level: 'resource', resource: name})

/** In the order in which they are listed. */
const EVERYTHING = [
  system,
  resource('claude'),
  resource('gpt-4'),
  of('team-1'),
  of('user-1'),
  of('team-1', 'gpt-4'),
  of('user-1', 'gpt-4'),
  of('user-2', 'gpt-4'),
  of('user-1', 'llama'),
]

describeOnBoth('the listing of configurations', {}, table => {
  const populated = async (): Promise<Configs> => {
    const tenant = newTenant(table)
    const configs = new Configs(tenant, {audit: newAudit(tenant)})
    for (const scope of EVERYTHING.toReversed()) await configs.set(scope, [parseLimit('rpm=1/min')])
    return configs
  }

  const scopes = (records: readonly ConfigRecord[]) => records.map(({scope}) => scope)

  const pages = async (configs: Configs, selection: ConfigSelection, limit?: number): Promise<ConfigScope[][]> => {
    const found: ConfigScope[][] = []
    for (let cursor: string | undefined; ; ) {
      const {records, next} = await configPage(configs, selection, {limit, cursor})
      found.push(scopes(records))
      if (next === undefined) return found
      cursor = next
    }
  }

  it('is listed completely, in order, whatever the size of a page', async () => {
    const configs = await populated()
    expect(await pages(configs, {})).toEqual([EVERYTHING])
    for (const limit of [1, 2, 3, 4, 5, 9, 10]) {
      const found = await pages(configs, {}, limit)
      expect(found.flat()).toEqual(EVERYTHING)
      expect(Math.max(...found.map(page => page.length))).toBeLessThanOrEqual(limit)
      expect(found).toHaveLength(Math.ceil(EVERYTHING.length / limit))
    }
  })

  it('can be narrowed to the system, a resource, an entity, or both', async () => {
    const configs = await populated()
    expect(await pages(configs, {system: true})).toEqual([[system]])
    const gpt4 = [resource('gpt-4'), ...['team-1', 'user-1', 'user-2'].map(entity => of(entity, 'gpt-4'))]
    for (const limit of [1, 2, 3, 4, 5, undefined]) {
      const found = await pages(configs, {resource: 'gpt-4'}, limit)
      expect(found.flat()).toEqual(gpt4)
      expect(Math.max(...found.map(page => page.length))).toBeLessThanOrEqual(limit ?? Infinity)
    }
    expect(await pages(configs, {resource: 'claude'}, 1)).toEqual([[resource('claude')]])
    expect(await pages(configs, {entity: 'user-1'})).toEqual([
      [of('user-1'), of('user-1', 'gpt-4'), of('user-1', 'llama')],
    ])
    expect(await pages(configs, {entity: 'user-1', resource: 'llama'})).toEqual([[of('user-1', 'llama')]])
    expect(await pages(configs, {entity: 'unknown'})).toEqual([[]])
  })

  it('accepts a cursor only for the listing that created it', async () => {
    const configs = await populated()
    const {next: cursor} = await configPage(configs, {resource: 'gpt-4'}, {limit: 2})
    await expect(configPage(configs, {resource: 'llama'}, {cursor})).rejects.toMatchObject({code: 'page.cursor'})
    const {next: ofAll} = await configPage(configs, {}, {limit: 3})
    expect(ofAll).toEqual(expect.stringMatching(/^[\w-]+$/))
    await expect(configPage(configs, {resource: 'gpt-4'}, {cursor: ofAll})).rejects.toMatchObject({code: 'page.cursor'})
  })

  it('does not accept a cursor within the resources for the entities of one resource', async () => {
    const configs = await populated()
    const {next: cursor} = await configPage(configs, {}, {limit: 2})
    await expect(configPage(configs, {resource: 'claude'}, {cursor})).rejects.toMatchObject({code: 'page.cursor'})
  })

  it('omits an empty system configuration', async () => {
    const configs = await populated()
    await configs.set(system, [], {auditRetentionDays: 30})
    await configs.delete(system)
    expect((await pages(configs, {})).flat()).toEqual(EVERYTHING.slice(1))
    await expect(getConfigured(configs, system)).rejects.toMatchObject({code: 'limits.missing', kind: 'notFound'})
    await configs.set(system, [], {onUnavailable: 'allow'})
    expect(await getConfigured(configs, system)).toMatchObject({limits: [], onUnavailable: 'allow'})
  })

  it.each(['nonsense', 'WyJyZXNvdXJjZSJd', 'W10', 'WyJlbnRpdHkiLCJhIl0', 'MQ'])(
    'refuses the cursor %s',
    async cursor => {
      const configs = await populated()
      await expect(configPage(configs, {resource: 'gpt-4'}, {cursor})).rejects.toMatchObject({code: 'page.cursor'})
      await expect(configPage(configs, {}, {cursor})).rejects.toMatchObject({code: 'page.cursor', kind: 'usage'})
    },
  )
})
