import {mkdir, mkdtemp, realpath, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {EVENT_ID, populate} from './populate.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'
import {zael} from './zael.js'

let folder = ''

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'zael-config-')))
  await mkdir(join(folder, 'project', 'deep'), {recursive: true})
  await mkdir(join(folder, 'broken'))
  await mkdir(join(folder, 'home', 'zael'), {recursive: true})
  await writeFile(
    join(folder, 'project', 'zael.config.json'),
    '{\n  "stack": "from-project",\n  "region": "eu-north-1"\n}\n',
  )
  await writeFile(join(folder, 'home', 'zael', 'config.json'), '{"stack": "from-user", "namespace": "mine"}')
  await writeFile(join(folder, 'broken', 'zael.config.json'), '{\n  "stack": "x",\n  "namspace": "y"\n}')
})

afterAll(async () => {
  await rm(folder, {recursive: true})
})

const inProject = (args: string[], env: Record<string, string> = {}) =>
  zael(args, {
    cwd: join(folder, 'project', 'deep'),
    env: {NO_COLOR: '1', XDG_CONFIG_HOME: join(folder, 'home'), ...env},
  })

it('config show names the source of every value', async () => {
  const show = (columns: Record<string, string>) =>
    inProject(['config', 'show', '--profile', 'ops'], {
      ...columns,
      ZAEL_OUTPUT: 'table',
      AWS_REGION: 'us-east-1',
      AWS_ENDPOINT_URL: 'http://127.0.0.1:1',
    })
  // Without a width, because the length of the folder's name varies.
  const {stdout, stderr} = await show({})
  expect(stderr).toBe('')
  const text = stdout.replaceAll(folder, '/F')
  expect(text).toMatchInlineSnapshot(`
    "SETTING      VALUE               SOURCE        FROM
    stack        from-project        project file  /F/project/zael.config.json, line 2
    namespace    mine                user file     /F/home/zael/config.json, line 1
    region       eu-north-1          project file  /F/project/zael.config.json, line 3
    profile      ops                 flag          --profile
    endpointUrl  http://127.0.0.1:1  AWS variable  AWS_ENDPOINT_URL
    output       table               variable      ZAEL_OUTPUT

    Files
      project  /F/project/zael.config.json
      user     /F/home/zael/config.json
    "
  `)
  const [table = ''] = (await show({COLUMNS: '80'})).stdout.split('\n\n')
  expect(table.split('\n').filter(line => line.length > 80)).toEqual([])
})

it('config show --json matches its schema', async () => {
  const {stdout} = await inProject(['config', 'show', '--json'])
  const result = JSON.parse(stdout)
  expect(schemaProblems('config show', result)).toEqual([])
  expect(result.settings[0]).toEqual({
    key: 'stack',
    value: 'from-project',
    source: 'project',
    from: `${folder}/project/zael.config.json, line 2`,
  })
})

it('names a file with a mistake and its line, in every command', async () => {
  for (const args of [
    ['config', 'show'],
    ['bucket', 'show', 'x'],
  ]) {
    const {code, stdout, stderr} = await zael(args, {cwd: join(folder, 'broken')})
    expect({code, stdout}).toEqual({code: 2, stdout: ''})
    expect(stderr).toContain('zael.config.json:3:3 "namspace" is not a key here; did you mean "namespace"?')
  }
})

describeOnEngine('settings from a file', () => {
  const table = useTable()
  const cli = tableCli(table)

  it('select the stack of every command', async () => {
    await populate(table)
    const endpointUrl = cli.flags.at(-1)
    const settings = {stack: table.name, endpointUrl, output: 'json'}
    await mkdir(join(folder, 'real'))
    await writeFile(join(folder, 'real', 'zael.config.json'), JSON.stringify(settings))
    const {code, stdout} = await zael(['bucket', 'show', 'user-1'], {cwd: join(folder, 'real')})
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({entity: 'user-1', buckets: [{resource: 'gpt-4'}]})
    const asCsv = {cwd: join(folder, 'real'), env: {ZAEL_OUTPUT: 'csv'}}
    expect((await zael(['bucket', 'show', 'user-2', '--columns', 'resource,level'], asCsv)).stdout).toMatch(
      /^resource,level\ngpt-4,60\ngpt-4,9960\n/,
    )
    // Results that are not lists ignore a configured CSV format, and refuse --output csv.
    expect((await zael(['audit', 'show', EVENT_ID], asCsv)).stdout).toMatch(/^Event 01KA/)
    expect(await zael(['audit', 'show', EVENT_ID, '--output', 'csv'], asCsv)).toMatchObject({code: 2, stdout: ''})
    const missing = await zael(['bucket', 'show', 'user-1'], {
      cwd: join(folder, 'real'),
      env: {ZAEL_NAMESPACE: 'nowhere'},
    })
    expect(missing.code).toBe(3)
    expect(JSON.parse(missing.stdout)).toMatchObject({error: {code: 'namespace.missing'}})
  })
})
