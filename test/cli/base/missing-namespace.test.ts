import {rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {expect, it} from 'vitest'
import {Repository} from '../../../src/lib/repository/repository.js'
import {tableCli} from '../../e2e/table-cli.js'
import {zael} from '../../e2e/zael.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {scanWhere} from '../../repository/namespace-items.js'
import {newTenant} from '../../repository/namespace-table.js'

/** A mistyped namespace was registered as a new one. */
describeOnEngine('C-2 a namespace that does not exist', () => {
  const table = useTable()
  const cli = tableCli(table)

  it('is refused with the nearest name by every command on entities, and nothing is written', async () => {
    await new Repository({stack: table.name, transport: table.transport}).namespaces.registerMany(['default', 'acme'])
    const everything = () => scanWhere(newTenant(table), () => true)
    const before = await everything()
    const commands = [
      'entity list',
      'entity show user',
      'entity children user',
      'entity create user',
      'entity update user --name User',
      'entity delete user --yes',
    ]
    const outcomes = await Promise.all(commands.map(command => cli.run(`${command} --namespace amce`)))
    const refusal = {
      code: 3,
      stdout: '',
      stderr: `Error: Namespace "amce" does not exist.\nHint: Did you mean "acme"? To create a new one: zael namespace create amce ${cli.flags.join(' ')}\n`,
    }
    expect(outcomes).toEqual(commands.map(() => refusal))
    expect(await everything()).toEqual(before)
  })

  it.each([
    ['plan', 'emea'],
    ['apply', 'quarterly'],
  ])('is created by the command that limits %s suggests', async (verb, name) => {
    const file = join(tmpdir(), `zael-namespace-${process.pid}-${verb}.yaml`)
    await writeFile(file, `namespace: ${name}\nsystem: {limits: {rpm: 5}}\n`)
    const {code, stderr} = await cli.run(`limits ${verb} -f ${file}`)
    const [, command = ''] = /To create it: zael (.*)/.exec(stderr) ?? []
    expect([code, command]).toEqual([3, `namespace create ${name} ${cli.flags.join(' ')}`])
    expect((await zael(command.split(' '))).code).toBe(0)
    expect((await cli.run(`limits ${verb} -f ${file} --json`)).code).toBe(0)
    await rm(file)
  })
  it('names the command that recovers a deleted one, instead of the one that would take its name', async () => {
    await cli.run('namespace create season')
    await cli.run('namespace delete season --yes')
    const {code, error} = await cli.fail('entity list --namespace season')
    expect({code, error}).toMatchObject({
      code: 3,
      error: {code: 'namespace.missing', message: expect.stringMatching(/^Namespace "season" was deleted at 20/)},
    })
    expect(error.hint).toMatch(/^Recover it with its data: `zael namespace recover \S+/)
    const [, id] = /recover (\S+?)[ `]/.exec(error.hint) ?? []
    expect((await cli.run(`namespace recover ${id}`)).code).toBe(0)
    expect((await cli.run('entity list --namespace season')).code).toBe(0)
  })
})
