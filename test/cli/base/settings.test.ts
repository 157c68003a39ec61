import {execFileSync} from 'node:child_process'
import {chown, mkdir, mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {foreignOrigin, SETTING_KEYS} from '../../../src/lib/cli/base/setting-rules.js'
import {applySettings, findSettings} from '../../../src/lib/cli/base/settings.js'
import {settingsFileLines, settingsListing} from '../../../src/lib/cli/base/settings-presenter.js'

let folder = ''
let deep = ''
let configDir = ''

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-settings-'))
  deep = join(folder, 'a', 'b')
  configDir = join(folder, 'config')
  await mkdir(deep, {recursive: true})
  await mkdir(configDir)
})

afterEach(async () => {
  await rm(folder, {recursive: true})
})

const project = (text: string) => writeFile(join(folder, 'a', 'zael.config.json'), text)
const user = (text: string) => writeFile(join(configDir, 'config.json'), text)
const find = async (flags: object = {}, env: Record<string, string> = {}) =>
  (await findSettings({flags: {...flags}, env, folder: deep, configDir})).settings

describe('a setting', () => {
  it('comes from the first of flag, variable, project file, user file, AWS variable and default', async () => {
    await user('{"region": "user-1"}')
    await project('{"region": "project-1"}')
    const env = {ZAEL_REGION: 'zael-1', AWS_REGION: 'aws-1', AWS_DEFAULT_REGION: 'aws-2'}
    expect((await find({region: 'flag-1'}, env)).region).toMatchObject({
      value: 'flag-1',
      source: 'flag',
      from: '--region',
    })
    expect((await find({}, env)).region).toMatchObject({value: 'zael-1', source: 'environment', from: 'ZAEL_REGION'})
    const noVariable = {AWS_REGION: 'aws-1', AWS_DEFAULT_REGION: 'aws-2', ZAEL_REGION: ''}
    expect((await find({}, noVariable)).region).toMatchObject({
      value: 'project-1',
      source: 'project',
      from: `${join(folder, 'a', 'zael.config.json')}, line 1`,
    })
    await project('{}')
    expect((await find({}, noVariable)).region).toMatchObject({value: 'user-1', source: 'user'})
    await user('{"region": ""}')
    expect((await find({}, noVariable)).region).toMatchObject({value: 'aws-1', source: 'aws', from: 'AWS_REGION'})
    expect((await find({}, {AWS_DEFAULT_REGION: 'aws-2'})).region).toMatchObject({value: 'aws-2', source: 'aws'})
    await user('{}')
    expect((await find()).region).toEqual({key: 'region', value: undefined, source: 'default', from: undefined})
    expect((await find({}, {AWS_REGION: ''})).region).toMatchObject({source: 'default', empty: 'AWS_REGION'})
  })

  it('has its own flag and variable', async () => {
    const env = {
      ZAEL_STACK: 's',
      ZAEL_NAMESPACE: 'n',
      ZAEL_REGION: 'r',
      ZAEL_PROFILE: 'p',
      ZAEL_ENDPOINT_URL: 'http://e',
      ZAEL_OUTPUT: 'yaml',
    }
    const settings = await find({}, env)
    expect(SETTING_KEYS.map(key => settings[key].value)).toEqual(Object.values(env))
    expect(SETTING_KEYS.map(key => settings[key].from)).toEqual(Object.keys(env))
    const flags = {stack: '1', namespace: '2', region: '3', profile: '4', 'endpoint-url': '5', output: 'csv'}
    const typed = await find(flags, env)
    expect(SETTING_KEYS.map(key => typed[key].value)).toEqual(Object.values(flags))
  })

  it('is read from the nearest project file only', async () => {
    await project('{"stack": "outer", "namespace": "outer"}')
    await writeFile(join(deep, 'zael.config.json'), '{"stack": "inner"}')
    expect(await find()).toMatchObject({stack: {value: 'inner'}, namespace: {value: 'default', source: 'default'}})
  })

  it('ignores endpointUrl when a source of higher priority selects the local stack', async () => {
    await user('{"stack": "prod", "endpointUrl": "http://prod"}')
    expect((await find({stack: 'local'})).endpointUrl).toMatchObject({value: undefined, source: 'default'})
    expect((await find({stack: 'other'})).endpointUrl).toMatchObject({value: 'http://prod'})
    expect((await find({stack: 'local', 'endpoint-url': 'http://x'})).endpointUrl).toMatchObject({value: 'http://x'})
    await project('{"stack": "local", "endpointUrl": "http://127.0.0.1:9"}')
    expect((await find()).endpointUrl).toMatchObject({value: 'http://127.0.0.1:9'})
  })
})

describe('the flags of a command', () => {
  afterEach(() => vi.unstubAllEnvs())

  it('come from settings, except those that the AWS SDK reads itself', async () => {
    vi.stubEnv('AWS_REGION', 'aws-1')
    vi.stubEnv('AWS_PROFILE', 'aws-profile')
    vi.stubEnv('ZAEL_STACK', 'variable')
    vi.stubEnv('ZAEL_PROFILE', 'zael-profile')
    const flags: Record<string, unknown> = {namespace: 'typed'}
    const {settings} = await applySettings(flags, {isJson: false, configDir})
    expect(flags).toMatchObject({stack: 'variable', namespace: 'typed', profile: 'zael-profile', output: 'table'})
    expect(flags.region).toBeUndefined()
    expect(settings.region).toMatchObject({value: 'aws-1', source: 'aws'})
  })

  it('set the format to json with --json, whatever is configured', async () => {
    vi.stubEnv('ZAEL_OUTPUT', 'yaml')
    const {settings} = await applySettings({}, {isJson: true, configDir})
    expect(settings.output).toMatchObject({value: 'json', source: 'flag'})
  })
})

describe('a mistake in a file', () => {
  it('is reported with all others, by file, line and column, with the line and a mark below it', async () => {
    await project('{\n  "stack": 7,\n  "nmaespace": "hush",\n  "output": "jsn",\n  "stack": "hush"\n}')
    const file = join(folder, 'a', 'zael.config.json')
    const error = await find().catch(thrown => thrown)
    expect(error).toMatchObject({code: 'config.file', kind: 'usage', details: {file, line: 2}})
    expect(error.message).toBe(`The settings file has 4 problems:
  ${file}:2:12 the value of "stack" must be a JSON string, in double quotes
      "stack": …,
               ^
  ${file}:3:3 "nmaespace" is not a key here; did you mean "namespace"?
      "…": "…",
      ^
  ${file}:4:13 output must be one of table, json, jsonl, csv, yaml; did you mean "json"?
      "output": "…",
                ^
  ${file}:5:3 "stack" is given twice
      "stack": "…"
      ^`)
  })

  it('can be a folder in place of the file', async () => {
    await mkdir(join(configDir, 'config.json'))
    const message = `Cannot read ${join(configDir, 'config.json')}: it is a folder`
    await expect(find()).rejects.toMatchObject({code: 'config.unreadable', kind: 'failed', message})
  })

  it('can be a size of 50 MB, found before parsing', async () => {
    await project(`{"stack": "${' '.repeat(50e6)}"}`)
    const message = expect.stringContaining('it is larger than 64 KiB')
    await expect(find()).rejects.toMatchObject({code: 'config.unreadable', kind: 'usage', message})
  })

  it('names an invalid variable', async () => {
    await expect(find({}, {ZAEL_OUTPUT: 'xml'})).rejects.toMatchObject({
      kind: 'usage',
      message: expect.stringMatching(/^ZAEL_OUTPUT: /),
    })
    // AWS SDKs validate their own variables.
    expect((await find({}, {AWS_ENDPOINT_URL: 'nonsense'})).endpointUrl).toMatchObject({
      value: 'nonsense',
      source: 'aws',
    })
  })
})

describe('a settings file of others', () => {
  afterEach(() => vi.restoreAllMocks())

  it.each([
    'http://192.0.2.1',
    'https://db.example.com',
    'https://dynamodb.eu-west-1.amazonaws.com',
    'http://127.0.0.1@db.example.com',
    'http://localhost.example.com',
    'http://0.0.0.0:8000',
  ])('cannot send requests to another machine from a project folder: %s', async endpointUrl => {
    await project(`{"stack": "a",\n"endpointUrl": "${endpointUrl}"}`)
    const error = await find({'endpoint-url': 'http://127.0.0.1:1'}).catch(thrown => thrown)
    expect(error).toMatchObject({code: 'config.file', kind: 'usage'})
    expect(error.message).toContain(
      `${join(folder, 'a', 'zael.config.json')}:2:16 endpointUrl in a project file must be on`,
    )
    expect(error.message).toContain('use --endpoint-url, ZAEL_ENDPOINT_URL or your user settings file')
    expect(error.message).not.toContain(endpointUrl)
  })

  it.each(['http://localhost:8000', 'http://127.0.0.1:8000', 'http://127.1:8000', 'http://[::1]:8000', ''])(
    'may name an engine on this machine: %s',
    async endpointUrl => {
      await project(JSON.stringify({endpointUrl}))
      expect((await find()).endpointUrl.value ?? '').toBe(endpointUrl)
    },
  )

  it("may name any endpoint if it is the user's own", async () => {
    await user('{"endpointUrl": "https://db.example.com"}')
    expect((await find()).endpointUrl).toMatchObject({value: 'https://db.example.com', source: 'user'})
  })

  it.skipIf(process.getuid === undefined)('is ignored if it belongs to another user, except root', async () => {
    await project('{"stack": "theirs"}')
    await writeFile(join(folder, 'zael.config.json'), '{"stack": "above"}')
    await user('not even JSON')
    const theirs = [join(folder, 'a', 'zael.config.json'), join(configDir, 'config.json')]
    const own = process.getuid?.() ?? 0
    // Root can give files away; others can only seem to be someone else.
    if (own === 0) for (const path of theirs) await chown(path, 1234, 1234)
    else await rm(join(folder, 'zael.config.json'))
    const me = vi.spyOn(process as {getuid(): number}, 'getuid').mockReturnValue(4321)
    const search = {flags: {}, env: {}, folder: deep, configDir}
    const {settings, files, ignored} = await findSettings(search)
    expect([...ignored].sort()).toEqual([...theirs].sort())
    expect(settings.stack.value).toBe(own === 0 ? 'above' : 'zae-limiter')
    expect(files.user).toBeUndefined()
    me.mockReturnValue(own === 0 ? 1234 : own)
    await user('{}')
    expect((await findSettings(search)).settings.stack.value).toBe('theirs')
  })

  it.skipIf(process.platform === 'win32')('is ignored without blocking if it is a pipe', async () => {
    execFileSync('/bin/sh', ['-c', 'mkfifo "$0"', join(folder, 'a', 'zael.config.json')])
    await expect(find()).rejects.toMatchObject({message: expect.stringContaining('it is not a regular file')})
  })
})

describe('the origin of an endpoint', () => {
  it.each([
    [undefined, undefined],
    ['http://127.0.0.1:8000', undefined],
    ['http://localhost:8000', undefined],
    ['https://dynamodb.eu-west-1.amazonaws.com', undefined],
    ['https://123456789012.ddb.us-east-1.amazonaws.com', undefined],
    ['https://vpce-1-a.dynamodb.us-east-1.vpce.amazonaws.com', undefined],
    ['https://dynamodb.cn-north-1.amazonaws.com.cn', undefined],
    ['http://dynamodb.eu-west-1.amazonaws.com', 'http://dynamodb.eu-west-1.amazonaws.com'],
    ['https://abc.execute-api.eu-west-1.amazonaws.com/x', 'https://abc.execute-api.eu-west-1.amazonaws.com'],
    ['https://dynamodb.eu-west-1.amazonaws.com.example.com', 'https://dynamodb.eu-west-1.amazonaws.com.example.com'],
    ['http://me:secret@db.example.com:8000/x', 'http://db.example.com:8000'],
  ])('is shown for %s if it is neither AWS nor this machine: %s', (endpointUrl, origin) => {
    expect(foreignOrigin(endpointUrl)).toBe(origin)
  })
})

describe('the list of settings', () => {
  it('has readable sources as text, and the raw ones in CSV', async () => {
    const {rows, columns} = settingsListing(await find({}, {ZAEL_STACK: 's', AWS_PROFILE: 'p'}))
    const source = columns.find(({name}) => name === 'source')
    expect(rows.map(row => source?.value(row))).toEqual([
      'variable',
      'default',
      'default',
      'AWS variable',
      'default',
      'default',
    ])
    expect(rows.map(row => source?.raw?.(row))).toEqual([
      'environment',
      'default',
      'default',
      'aws',
      'default',
      'default',
    ])
  })

  it('names existing files, and the paths of missing ones', () => {
    expect(settingsFileLines({project: undefined, user: undefined}, '/work', '/home/c/config.json')).toEqual([
      'Files',
      '  project  no zael.config.json in /work or above',
      '  user     no /home/c/config.json',
    ])
  })
})
