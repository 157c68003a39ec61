import {chown, mkdir, mkdtemp, rm, writeFile} from 'node:fs/promises'
import {createServer, type Server} from 'node:http'
import type {AddressInfo} from 'node:net'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, it} from 'vitest'
import {zael} from './zael.js'

const IDENTITY = {
  AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE',
  AWS_SECRET_ACCESS_KEY: 'secret',
  AWS_SESSION_TOKEN: 'the-token',
  AWS_REGION: 'us-east-1',
  NO_COLOR: '1',
}

/** A host whose name is not this machine's. It records the requests it receives. */
let server: Server
let endpoint = ''
let tokens: Array<string | undefined> = []
let folder = ''

beforeAll(async () => {
  server = createServer((request, response) => {
    tokens.push(request.headers['x-amz-security-token'] as string | undefined)
    response.writeHead(400, {'content-type': 'application/x-amz-json-1.0'})
    response.end('{"__type":"ResourceNotFoundException","message":"no table"}')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  endpoint = `http://0.0.0.0:${(server.address() as AddressInfo).port}`
})

afterAll(() => {
  server.closeAllConnections()
  server.close()
})

beforeEach(async () => {
  tokens = []
  folder = await mkdtemp(join(tmpdir(), 'zael-endpoint-'))
  await mkdir(join(folder, 'zael'))
})

afterEach(() => rm(folder, {recursive: true}))

const inFolder = (args: string[], env: Record<string, string> = {}) =>
  zael(args, {cwd: folder, env: {...IDENTITY, XDG_CONFIG_HOME: folder, ...env}})

const project = (settings: object) => writeFile(join(folder, 'zael.config.json'), JSON.stringify(settings))
const COMPLETE = ['__complete', 'entity', 'show', '']

describe('an endpoint in a project file', () => {
  it('receives no request and no session token, from commands or from completion', async () => {
    await project({endpointUrl: endpoint})
    const {code, stdout, stderr} = await inFolder(['namespace', 'list'])
    expect({code, stdout}).toEqual({code: 2, stdout: ''})
    expect(stderr).toContain('zael.config.json:1:16 endpointUrl in a project file must be on this machine')
    expect(await inFolder(COMPLETE)).toEqual({code: 0, stdout: '', stderr: ''})
    expect(tokens).toEqual([])
  })

  it('receives both if the user chose it', async () => {
    await inFolder(['namespace', 'list'], {ZAEL_ENDPOINT_URL: endpoint})
    expect(tokens).toContain('the-token')
    tokens = []
    await writeFile(join(folder, 'zael', 'config.json'), JSON.stringify({endpointUrl: endpoint}))
    await inFolder(COMPLETE)
    expect(tokens).toContain('the-token')
  })
})

describe('an endpoint other than AWS and this machine', () => {
  it.each([
    ['--endpoint-url', (url: string) => inFolder(['config', 'show', '--endpoint-url', url])],
    ['ZAEL_ENDPOINT_URL', (url: string) => inFolder(['config', 'show'], {ZAEL_ENDPOINT_URL: url})],
    ['AWS_ENDPOINT_URL', (url: string) => inFolder(['config', 'show'], {AWS_ENDPOINT_URL: url})],
  ])('is named on stderr with its source: %s', async (source, show) => {
    const {stdout, stderr} = await show(endpoint)
    expect(stderr).toBe(`Endpoint: ${endpoint} (${source})\n`)
    expect(stdout).toContain(endpoint)
  })

  it('is named before the output of any command on a stack', async () => {
    const {stderr} = await inFolder(['namespace', 'list', '--endpoint-url', endpoint])
    expect(stderr.split('\n')[0]).toBe(`Endpoint: ${endpoint} (--endpoint-url)`)
  })

  it('is not named in output for programs', async () => {
    for (const format of ['json', 'yaml', 'csv']) {
      const {stderr} = await inFolder(['config', 'show', '--endpoint-url', endpoint, '--output', format])
      expect(stderr).toBe('')
    }
  })

  it('is the only one named', async () => {
    for (const url of ['http://127.0.0.1:1', 'https://dynamodb.eu-west-1.amazonaws.com']) {
      expect((await inFolder(['config', 'show', '--endpoint-url', url])).stderr).toBe('')
    }
    expect((await inFolder(['config', 'show', '--stack', 'local'], {AWS_ENDPOINT_URL: endpoint})).stderr).toBe('')
  })
})

describe.skipIf(process.getuid?.() !== 0)('a settings file of another user', () => {
  it('is ignored with a warning; completion says nothing', async () => {
    await project({stack: 'theirs', endpointUrl: endpoint})
    const path = join(folder, 'zael.config.json')
    await chown(path, 1234, 1234)
    const {code, stdout, stderr} = await inFolder(['config', 'show'])
    expect({code, stderr}).toEqual({code: 0, stderr: `Warning: Ignored ${path}: another user owns it\n`})
    expect(stdout).not.toContain('theirs')
    const json = JSON.parse((await inFolder(['config', 'show', '--json'])).stdout)
    expect(json).toMatchObject({files: {project: null}, warnings: [expect.stringContaining(path)]})
    expect(await inFolder(COMPLETE, {AWS_ENDPOINT_URL: 'http://127.0.0.1:1'})).toEqual({
      code: 0,
      stdout: '',
      stderr: '',
    })
  })
})
