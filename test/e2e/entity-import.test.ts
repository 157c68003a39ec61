import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {tableCli} from './table-cli.js'

describeOnEngine('zael entity import', () => {
  const cli = tableCli(useTable())
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
    await cli.tell('namespace create default')
    await cli.tell('limits set --resource gpt-4 rpm=10 tpm=1k')
  })

  afterAll(() => rm(folder, {recursive: true}))

  const file = async (name: string, ...lines: string[]) => {
    const path = join(folder, name)
    await writeFile(path, `${lines.join('\n')}\n`)
    return path
  }

  it('shows, then creates, then has nothing to do; asks before it changes what is there', async () => {
    const path = await file(
      'customers.csv',
      'id,name,parent,cascade,metadata.plan,limits.gpt-4',
      'acme,Acme Inc.,,,gold,rpm=50',
      'ann,,acme,yes,,',
    )
    expect(await cli.tell(`entity import ${path} --dry-run`)).toMatchObject({create: 2, limits: 1, result: null})
    expect((await cli.tell('entity list')).entities).toEqual([])
    const {stdout} = await cli.run(`entity import ${path}`)
    expect(stdout.replaceAll(folder, '')).toBe(
      '/customers.csv: 2 entities; 2 to create, 0 to update, limits of 1 to set, 0 as they are\n' +
        'Created 2, updated 0, limits set for 1\n',
    )
    expect(await cli.tell(`entity import ${path}`)).toMatchObject({unchanged: 2, result: {created: 0, left: 0}})
    const changed = await file('more.csv', 'id,name', 'acme,Acme Ltd.')
    expect(await cli.fail(`entity import ${changed}`)).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect((await cli.run(`entity import ${changed} --yes`)).stdout).toContain('~ acme: name Acme Inc. → Acme Ltd.\n')
    expect(await cli.tell('entity list --parent acme')).toMatchObject({entities: [{id: 'ann', cascade: true}]})
    expect(await cli.tell('entity list -m plan=gold')).toMatchObject({entities: [{id: 'acme', name: 'Acme Ltd.'}]})
    expect(await cli.fail('entity list --parent nobody')).toMatchObject({code: 3})
    expect((await cli.run('limits export --output csv')).stdout).toBe(
      'level,entity,resource,limit,value,capacity,refill-amount,refill-period-seconds,boosted-to,boosted-until,unit\n' +
        'resource,,gpt-4,rpm,10/min,10,10,60,,,\n' +
        'resource,,gpt-4,tpm,1k/min,1000,1000,60,,,\n' +
        'entity,acme,gpt-4,rpm,50/min,50,50,60,,,\n' +
        'entity,acme,gpt-4,tpm,1k/min,1000,1000,60,,,\n',
    )
  })

  it('reads JSON Lines, and refuses what it cannot read', async () => {
    const lines = await file('users.jsonl', '{"id": "bob", "metadata": {"seats": 3}}')
    expect(await cli.tell(`entity import ${lines}`)).toMatchObject({result: {created: 1}})
    const broken = await file('broken.csv', 'id,limits', 'x,rpm=fast', 'y,')
    expect(await cli.fail(`entity import ${broken}`)).toMatchObject({
      code: 2,
      error: {code: 'import.invalid', details: {problems: [{line: 2, path: 'limits.rpm'}]}},
    })
    expect(await cli.fail('entity show y')).toMatchObject({code: 3})
    expect(await cli.fail(`entity import ${await file('list.txt', 'id')}`)).toMatchObject({
      code: 2,
      error: {code: 'import.format'},
    })
    expect(await cli.fail('entity import nowhere.csv')).toMatchObject({code: 3, error: {code: 'import.file'}})
  })
})
