import {beforeAll, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {putUsers} from '../live/support.js'
import {newTenant} from '../repository/namespace-table.js'
import {tableCli} from './table-cli.js'
import {zael} from './zael.js'

/** More than one poll reads without --all. */
const COUNT = 2100

describeOnEngine('zael watch --once on many buckets', {timeout: 60_000}, () => {
  const table = useTable()
  const cli = tableCli(table)

  beforeAll(async () => {
    const repository = new Repository({stack: table.name, transport: table.transport})
    await repository.namespaces.register('default')
    const {id} = await repository.namespace('default')
    await putUsers({...newTenant(table), namespace: id}, COUNT, parseLimits(['rpm=100']))
  }, 60_000)

  const PART = /Read 1,\d{3} of 2,\d{3}( or more)? buckets\. .*To read all, add --all\./

  it('L6 warns that rows and documents have only a part of the buckets', async () => {
    const csv = await cli.run('watch --once --output csv')
    expect(csv).toMatchObject({code: 0, stderr: expect.stringMatching(PART)})
    const json = await cli.run('watch --once --json')
    expect(JSON.parse(json.stdout)).toMatchObject({sampled: true, warnings: [expect.stringMatching(PART)]})
    expect(csv.stdout.trimEnd().split('\n').length - 1).toBeLessThan(COUNT)
  })

  it('prints every bucket and column into a pipe with --all', async () => {
    const {stdout, stderr} = await cli.run('watch --once --all')
    expect(stderr).toBe('')
    const users = new Set(stdout.match(/\buser-\d+\b/g))
    expect(users.size).toBe(COUNT)
    expect(stdout.split('\n')[0]).toMatch(/CAPACITY +LEFT +DEBT .*LAST REFUSED +SHARDS$/)
  })

  it('names only flags that the command has when columns do not fit', async () => {
    const {stdout} = await zael(['watch', '--once', '--top', '3', ...cli.flags], {env: {NO_COLOR: '1'}, columns: 60})
    expect(stdout).toContain('Not shown (--json): ')
    expect(stdout).not.toContain('--columns')
  })
})
