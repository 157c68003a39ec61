import {mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {Repository} from '../../src/lib/repository/repository.js'
import {s} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {encodeVersion, type VersionRecord} from '../../src/lib/schema/version-record.js'
import {tableCli} from '../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

const VERSION: VersionRecord = {
  schemaVersion: '0.10.0',
  lambdaVersion: '0.0.1',
  clientMinVersion: '0.0.0',
  updatedAt: '2026-01-01T00:00:00Z',
  updatedBy: 'client:0.0.1',
}

describeOnEngine('conventions of all commands', () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  const cli = tableCli(table)
  let folder = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-museum-'))
    await repository.namespaces.register('default')
  })

  afterAll(async () => {
    await rm(folder, {recursive: true})
  })

  const fileOf = async (name: string, text: string): Promise<string> => {
    const file = join(folder, `${name}.yaml`)
    await writeFile(file, text)
    return file
  }

  /** Any command of a newer client replaced the code of the Lambda and moved the recorded version. */
  it('C-3 keeps the deployed version in every read or write command', async () => {
    const Item = encodeVersion(VERSION)
    await table.transport.send('PutItem', {TableName: table.name, Item})
    await cli.tell('entity list')
    await cli.tell('limits set --system rpm=10/min')
    const Key = {PK: Item.PK, SK: Item.SK} as typeof Item
    expect((await table.transport.send('GetItem', {TableName: table.name, Key})).Item).toEqual(Item)
  })

  it('C-4 fails to plan for a missing namespace, and registers nothing', async () => {
    const file = await fileOf('c-4', 'namespace: c-4-typo\nsystem:\n  limits:\n    rpm: 10/min\n')
    expect(await cli.fail(`limits plan -f ${file}`)).toMatchObject({code: 3, error: {code: 'namespace.missing'}})
    expect((await repository.namespaces.list()).map(({name}) => name)).not.toContain('c-4-typo')
  })

  it('C-31 copies limits and entities between namespaces by manifest', async () => {
    await repository.namespaces.register('c-31-a')
    await repository.namespaces.register('c-31-b')
    await cli.run('entity create team-1 -n c-31-a')
    await cli.run('entity create user-1 --parent team-1 --cascade -n c-31-a')
    await cli.run('limits set --entity team-1 --resource gpt-4 tpm=12k/min -n c-31-a')
    const {stdout} = await cli.run('limits export -n c-31-a')
    const copy = await fileOf('c-31', stdout.replace('namespace: c-31-a', 'namespace: c-31-b'))
    expect((await cli.run(`limits apply --yes -f ${copy}`)).code).toBe(0)
    const exported = (await cli.run('limits export -n c-31-b')).stdout
    expect(exported).toBe(await readFile(copy, 'utf8'))
  })

  /** `--limit` was a limit, a row count or a page size; prompts ended in two ways; purge wanted an id. */
  it('C-34 gives each flag one meaning, reports missing confirmation with one error, and accepts names for ids', async () => {
    const manifest = JSON.parse(await readFile(new URL('../../oclif.manifest.json', import.meta.url), 'utf8'))
    const flags = Object.values(manifest.commands).flatMap(command =>
      Object.values((command as {flags: Record<string, {name: string; description: string}>}).flags),
    )
    const meanings = (name: string) => new Set(flags.filter(flag => flag.name === name).map(flag => flag.description))
    expect([...meanings('limit')]).toEqual(['Maximum number of rows to show.'])
    expect(meanings('cursor').size).toBe(1)

    await repository.namespaces.register('c-34')
    await cli.run('entity create user-1 -n c-34')
    const dangerous = ['entity delete user-1 -n c-34', 'namespace delete c-34', 'limits unset --all --system']
    for (const command of dangerous) {
      const {code, error} = await cli.fail(command)
      expect({command, code, error: error.code}).toEqual({command, code: 2, error: 'confirm.needed'})
    }
    const {id} = await cli.tell('namespace delete c-34 --yes')
    // A purge waits until a minute after the deletion.
    await table.transport.send('UpdateItem', {
      TableName: table.name,
      Key: wireKey(keys.namespaceById(id)),
      UpdateExpression: 'SET deleted_at = :then',
      ExpressionAttributeValues: {':then': s('2026-01-01T00:00:00Z')},
    })
    expect((await cli.run('namespace purge c-34 --confirm c-34')).code).toBe(0)
  })
})
