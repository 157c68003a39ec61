import {beforeAll, expect, it} from 'vitest'
import {Repository} from '../../../src/lib/repository/repository.js'
import {schemaProblems} from '../../e2e/schemas.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'

describeOnEngine('cascade policies and moves on the command line', () => {
  const table = useTable()
  const cli = tableCli(table)
  const json = async (command: string) => {
    const answer = JSON.parse((await cli.run(`${command} --json`)).stdout)
    expect(schemaProblems(command.split(' ')[0] ?? '', answer)).toEqual([])
    return answer
  }

  beforeAll(async () => {
    await new Repository({stack: table.name, transport: table.transport}).namespaces.register('default')
    await cli.run('limits set --resource gpt-4 rpm=100/min')
    for (const team of ['team-1', 'team-2']) await cli.run(`entity create ${team}`)
    await cli.run('entity create user-1 --parent team-1 --cascade')
    await cli.run('acquire user-1 gpt-4 rpm=1')
  })

  it('are set, stamped, shown where they apply and where they come from, and cleared', async () => {
    expect(await cli.show('resource cascade gpt-4 off', 100)).toMatch(
      /Cascade policy of resource gpt-4\n +cascade +\(none\) → off\n +live buckets +1 updated/,
    )
    expect(await cli.show('limits get --resource gpt-4', 100)).toMatch(/cascade +off/)
    expect(await cli.show('limits list', 100)).toMatch(/gpt-4 +no-cascade rpm=100\/min$/m)
    expect(await cli.show('limits resolve user-1 gpt-4', 100)).toMatch(/cascade +off \(resource level\)/)
    expect(await cli.show('why user-1 gpt-4', 100)).toContain(
      'Requests of user-1 do not charge its parent team-1, by the cascade policy at the resource level.',
    )
    expect(await cli.show('entity show user-1', 120)).toMatch(/CASCADE.*\ngpt-4 .*off, resource/)
    expect(await cli.show('audit list', 200)).toContain('cascade: not set → no')
    const result = await cli.tell('entity cascade user-1 on --resource gpt-4')
    expect(result).toMatchObject({
      scope: {level: 'entity', entity: 'user-1', resource: 'gpt-4'},
      cascade: {before: null, after: true},
      buckets: {checked: 1, updated: 1, failed: 0},
    })
    const resolved = await cli.tell('limits resolve user-1 gpt-4')
    expect(resolved).toMatchObject({cascade: {charged: true, level: 'entity'}, parent: {entity: 'team-1'}})
    expect(resolved.levels.map(({cascade}: {cascade: unknown}) => cascade)).toEqual([true, null, false, null])
    expect(await json('why user-1 gpt-4')).toMatchObject({cascade: {charged: true, level: 'entity'}})
    const shown = await cli.tell('entity show user-1')
    expect(shown.resources[0]).toMatchObject({resource: 'gpt-4', cascade: {charged: true, level: 'entity'}})
    await cli.run('entity cascade user-1 clear --resource gpt-4')
    expect((await cli.run('resource cascade gpt-4 clear')).stdout).toMatch(/off → \(none\)/)
    expect(await cli.show('limits resolve user-1 gpt-4', 100)).toMatch(/cascade +on \(of the entity itself\)/)
    expect(await cli.show('entity show user-1', 120)).not.toContain('CASCADE')
  })

  it('warn about an unknown name, and refuse an unknown policy', async () => {
    expect((await cli.run('resource cascade gtp-4 on')).stderr).toContain('Did you mean "gpt-4"?')
    expect((await cli.run('resource cascade gtp-4 clear')).stderr).toBe('')
    expect((await cli.fail('limits get --resource gtp-4')).code).toBe(3)
    expect((await cli.fail('resource cascade gpt-4 maybe')).code).toBe(2)
    expect((await cli.fail('resource cascade gpt-4')).code).toBe(2)
  })

  it('count the live buckets with the new parent of a move, and change nothing when repeated', async () => {
    expect(await cli.show('entity update user-1 --parent team-2', 100)).toMatch(
      /parent +team-1 → team-2\n +also charged +team-2\n +live buckets +1 updated/,
    )
    const again = await cli.tell('entity update user-1 --parent team-2')
    expect(again).toMatchObject({changed: [], parent: 'team-2', buckets: {checked: 1, updated: 0, failed: 0}})
    expect(await json('acquire user-1 gpt-4 rpm=1')).toMatchObject({parent: 'team-2'})
  })
})
