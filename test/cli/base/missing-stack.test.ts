import {beforeAll, expect, inject, it} from 'vitest'
import {Repository} from '../../../src/lib/repository/repository.js'
import {zael} from '../../e2e/zael.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'

/** A mistyped stack name deployed a whole new stack, even from commands that only look. */
describeOnEngine('C-1 a stack that does not exist', () => {
  const table = useTable()
  const mistyped = table.name.replace('test', 'tset')
  const tables = async () => (await table.transport.send('ListTables', {})).TableNames ?? []

  beforeAll(async () => {
    await new Repository({stack: table.name, transport: table.transport}).namespaces.register('default')
  })

  it('is refused with the nearest name by every command, and not created', async () => {
    const flags = ['--stack', mistyped, '--endpoint-url', inject('engineEndpoint')]
    const commands = [
      'namespace list',
      'namespace show default',
      'namespace orphans',
      'namespace create acme',
      'namespace purge acme --confirm acme',
      'entity list',
      'entity show user',
      'entity create user',
      'entity delete user --yes',
    ]
    const outcomes = await Promise.all(commands.map(command => zael([...command.split(' '), ...flags])))
    expect(new Set(outcomes.map(outcome => JSON.stringify(outcome))).size).toBe(1)
    expect(outcomes[0]).toEqual({
      code: 3,
      stdout: '',
      stderr: `Error: Stack "${mistyped}" not found.\nHint: Did you mean "${table.name}"?\n`,
    })
    expect(await tables()).not.toContain(mistyped)
  })
})
