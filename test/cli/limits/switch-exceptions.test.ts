import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {switchExceptions} from '../../../src/lib/insight/preview/switch-exceptions.js'
import {NamespaceRepository, Repository} from '../../../src/lib/repository/repository.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {newTenant} from '../../repository/namespace-table.js'

describeOnEngine('a switch overruled by more specific ones', () => {
  const table = useTable()
  const cli = tableCli(table)
  const where = () => cli.flags.join(' ')

  it('names the resources with another switch on an entity, and the command for each', async () => {
    await new Repository({stack: table.name, transport: table.transport}).namespaces.register('default')
    await cli.run('entity create key-1')
    await cli.run('entity bypass key-1 --resource gpt-4')
    await cli.run('entity exempt key-1 --resource video')
    await cli.run('entity disable key-1 --resource search')
    const shown = await cli.show('entity disable key-1', 200)
    expect(shown).toContain('not for       gpt-4 (bypass), video (enabled): their own switch applies\n')
    expect(shown).toContain(
      `\nNext:\n  zael entity disable key-1 --resource gpt-4 ${where()}  same for gpt-4 (bypass)\n` +
        `  zael entity disable key-1 --resource video ${where()}  same for video (enabled)\n`,
    )
    const {exceptions} = await cli.tell('entity disable key-1')
    expect(exceptions).toEqual({
      found: [
        {
          scope: {level: 'entity', entity: 'key-1', resource: 'gpt-4'},
          access: 'bypass',
          command: `zael entity disable key-1 --resource gpt-4 ${where()}`,
        },
        {
          scope: {level: 'entity', entity: 'key-1', resource: 'video'},
          access: 'enabled',
          command: `zael entity disable key-1 --resource video ${where()}`,
        },
      ],
      looked: 3,
      complete: true,
    })
    for (const {command} of exceptions.found) await cli.run(command.replace('zael ', '').replace(where(), ''))
    expect((await cli.tell('entity disable key-1')).exceptions.found).toEqual([])
    expect(await cli.show('entity disable key-1', 200)).not.toContain('Next:')
  })

  it.each(['exempt', 'enable', 'bypass', 'clear'])('names the same for %s', async verb => {
    const {exceptions} = await cli.tell(`entity ${verb} key-1`)
    expect(exceptions.found.map(({command}: {command: string}) => command)).toEqual(
      ['gpt-4', 'search', 'video'].map(resource => `zael entity ${verb} key-1 --resource ${resource} ${where()}`),
    )
    expect((await cli.tell(`entity ${verb} key-1 --resource gpt-4`)).exceptions).toMatchObject({found: [], looked: 0})
    await cli.run('entity disable key-1 --resource gpt-4')
  })

  it("names the entities that override a resource's switch, and how many were searched", async () => {
    await cli.run('entity exempt free --resource music')
    await cli.run('entity bypass vip')
    // Its own switch for the resource agrees, so the one for all its resources does not matter.
    await cli.run('entity bypass both')
    await cli.run('entity disable both --resource music')
    const {exceptions} = await cli.tell('resource disable music')
    expect(exceptions.found.map(({command}: {command: string}) => command)).toEqual([
      `zael entity disable free --resource music ${where()}`,
      `zael entity disable vip --resource music ${where()}`,
    ])
    const shown = await cli.show('resource disable music', 300)
    expect(shown).toContain('not for       free (enabled), vip (bypass for every resource): their own switch applies')
    expect(shown).toMatch(/searched +\d entity configurations \(all\)\n/)
    // No suggestion may enable an entity that was disabled.
    await cli.run('entity disable abuser')
    const opened = (await cli.tell('resource enable music')).exceptions
    expect(opened.found).toContainEqual({
      scope: {level: 'entity_default', entity: 'abuser', resource: null},
      access: 'disabled',
      command: null,
    })
    expect(await cli.show('resource clear music', 300)).not.toContain('Next:')
  })

  it('searches a thousand configurations for a resource, and says if there are more', async () => {
    const own = new NamespaceRepository(newTenant(table), 'ops')
    const pages: (number | undefined)[] = []
    const configs = {
      entities: async (resource: string, {limit}: {limit: number}) => {
        pages.push(limit)
        return {records: [], next: resource === 'gpt-4' ? 'more' : undefined}
      },
      getMany: async () => [],
    }
    const found = await switchExceptions({configs} as never, {level: 'resource', resource: 'gpt-4'}, 'disabled')
    expect([found.isComplete, pages]).toEqual([false, [1000, 1000]])
    await own.configs.set({level: 'entity', entity: 'a', resource: 'gpt-4'}, parseLimits(['rpm=1']))
    expect(await switchExceptions(own, {level: 'resource', resource: 'gpt-4'}, 'disabled')).toEqual({
      found: [],
      looked: 1,
      isComplete: true,
    })
  })
})
