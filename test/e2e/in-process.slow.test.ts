import {describe, expect, it} from 'vitest'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {populate} from './populate.js'
import {tableCli} from './table-cli.js'
import {spawnZael, zael} from './zael.js'

// Most tests run commands in their own process. These show that it makes no difference.

async function expectSame(args: string[], env: Record<string, string> = {}): Promise<void> {
  const [here, spawned] = await Promise.all([zael(args, {env}), spawnZael(args, {env})])
  expect(here).toEqual(spawned)
}

describe("a command in the test's process behaves as in its own", () => {
  it.each<[string, Record<string, string>?]>([
    ['limits set --help'],
    ['hlep --json'],
    ['version --bogus'],
    ['limits validate -f -'],
    ['__complete local '],
    ['local status --json', {ZAEL_DATA_DIR: '/no-such-folder'}],
    ['config show', {ZAEL_STACK: 'from-env', COLUMNS: '60'}],
  ])('%s', async (line, env) => {
    await expectSame(line.split(' '), env)
  })

  it('leaves the process unchanged', async () => {
    const before = {env: {...process.env}, argv: process.argv, cwd: process.cwd(), write: process.stdout.write}
    await zael(['limits', 'get'], {cwd: '/', env: {ZAEL_DEBUG: '1'}})
    const after = {env: {...process.env}, argv: process.argv, cwd: process.cwd(), write: process.stdout.write}
    expect(after).toEqual(before)
    expect(process.exitCode).toBeUndefined()
  })

  it('reads the given input, on a terminal of the given width', async () => {
    const stdin = 'namespace: acme\nsystem: {limits: {rpm: fast}}\n'
    expect(await zael(['limits', 'validate', '-f', '-'], {stdin})).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(':2:'),
    })
    const lines = async (columns: number) => (await zael(['config', 'show'], {columns})).stdout.split('\n')
    expect(Math.max(...(await lines(40)).slice(0, 7).map(line => line.length))).toBeLessThanOrEqual(40)
  })
})

describeOnEngine('a command on a table', () => {
  const table = useTable()
  const {flags} = tableCli(table)

  it('prints the same rows, documents, failures and negative answers in both', async () => {
    await populate(table)
    for (const line of [
      'bucket list --resource gpt-4 --limit 1',
      'entity list --output csv',
      'limits list --output yaml',
      'bucket show user-l --json',
      'migrate status --json',
    ]) {
      await expectSame([...line.split(' '), ...flags])
    }
  })
})
