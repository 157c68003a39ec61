import {execFile} from 'node:child_process'
import {Agent} from 'node:https'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {DynamoDBClient, type DynamoDBClientConfig} from '@aws-sdk/client-dynamodb'
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi} from 'vitest'
import {Denied, RegionMissing} from '../../../src/lib/dynamo/errors.js'
import type {ClosableTransport} from '../../../src/lib/dynamo/transport.js'
import {accessOf} from '../../../src/lib/dynamo/transports/access.js'
import {createTransport, isPlainClient} from '../../../src/lib/dynamo/transports/create.js'
import {answer, localTransport, ScriptedServer} from './scripted-server.js'

const server = new ScriptedServer()
const clients: DynamoDBClient[] = []
const transports: ClosableTransport[] = []

beforeAll(() => server.start())
afterAll(() => server.stop())
beforeEach(() => server.play(answer(200, {})))
afterEach(async () => {
  vi.unstubAllEnvs()
  await Promise.all(transports.splice(0).map(transport => transport.close()))
  for (const client of clients.splice(0)) client.destroy()
})

const KEYS = {accessKeyId: 'KEY', secretAccessKey: 'secret'}
const LAMBDA = {AWS_ACCESS_KEY_ID: 'KEY', AWS_SECRET_ACCESS_KEY: 'secret', AWS_REGION: 'eu-west-1'}
const update = {TableName: 't', Key: {PK: {S: 'a'}, SK: {S: 'b'}}}

function clientOf(config: DynamoDBClientConfig = {}): DynamoDBClient {
  const client = new DynamoDBClient({endpoint: server.endpoint, region: 'eu-west-1', credentials: KEYS, ...config})
  clients.push(client)
  return client
}

function through(client: DynamoDBClient, clock = Date.now): ClosableTransport {
  const transport = createTransport({client, clock})
  transports.push(transport)
  return transport
}

/** Which transport the last request came from. */
function lastSender(): 'lean' | 'SDK' {
  return server.requests.at(-1)?.headers['user-agent'] === 'zael' ? 'lean' : 'SDK'
}

const lastAuthorization = () => String(server.requests.at(-1)?.headers.authorization)

describe('the choice of a transport', () => {
  test('uses the lean transport for items, and the SDK for tables', async () => {
    const transport = localTransport(server.endpoint)
    transports.push(transport)
    await transport.send('UpdateItem', update)
    expect(lastSender()).toBe('lean')
    await transport.send('ListTables', {})
    expect(lastSender()).toBe('SDK')
  })

  test('uses the SDK for an endpoint with a path', async () => {
    const transport = localTransport(`${server.endpoint}/prefix`)
    transports.push(transport)
    await transport.send('UpdateItem', update)
    expect(lastSender()).toBe('SDK')
  })

  test('takes identity and region from a client of the caller, and keeps it open', async () => {
    const client = clientOf({credentials: {...KEYS, sessionToken: 'session'}})
    const destroy = vi.spyOn(client, 'destroy')
    const transport = through(client)
    await transport.send('UpdateItem', update)
    expect(lastSender()).toBe('lean')
    expect(lastAuthorization()).toMatch(/Credential=KEY\/\d{8}\/eu-west-1\/dynamodb\/aws4_request/)
    expect(server.requests[0]?.headers['x-amz-security-token']).toBe('session')
    await transport.close()
    expect(destroy).not.toHaveBeenCalled()
  })

  const custom: [string, () => DynamoDBClient][] = [
    ['timeouts', () => clientOf({requestHandler: {requestTimeout: 5_000}})],
    ['agent settings', () => clientOf({requestHandler: {httpAgent: {maxSockets: 7}}})],
    ['a secure agent', () => clientOf({requestHandler: {httpsAgent: new Agent({ca: 'mine'})}})],
    ['an agent of its own kind', () => clientOf({requestHandler: {httpsAgent: new (class extends Agent {})()}})],
    ['a logger', () => clientOf({logger: {debug() {}, info() {}, warn() {}, error() {}}})],
    ['a name of its own', () => clientOf({customUserAgent: 'mine'})],
    [
      'middleware',
      () => {
        const client = clientOf()
        client.middlewareStack.add(next => args => next(args), {name: 'mine', step: 'build'})
        return client
      },
    ],
    [
      'a replaced send',
      () => {
        const client = clientOf()
        const {send} = client
        client.send = ((...args: Parameters<typeof send>) => send.apply(client, args)) as typeof send
        return client
      },
    ],
  ]

  test.each(custom)('uses a client with %s directly', async (_, make) => {
    await through(make()).send('UpdateItem', update)
    expect(lastSender()).toBe('SDK')
  })

  test('treats a used client as plain, like a new one', async () => {
    const client = clientOf({maxAttempts: 1, cacheMiddleware: true})
    await through(client).send('ListTables', {})
    expect(await isPlainClient(client)).toBe(true)
  })

  test('treats a client that cannot be compared as not plain', async () => {
    expect(await isPlainClient({} as DynamoDBClient)).toBe(false)
  })

  test.each([
    ['a local engine', () => [server.endpoint], () => ({})],
    ['the endpoint and keys of the environment', () => [], () => ({...LAMBDA, AWS_ENDPOINT_URL: server.endpoint})],
  ])('reaches %s without the SDK, and lets the process end', async (_, args, env) => {
    const script = fileURLToPath(new URL('../fixtures/loaded-modules.ts', import.meta.url))
    const run = promisify(execFile)
    const options = {timeout: 100_000, env: {PATH: process.env.PATH, ...env()}}
    const {stdout} = await run(process.execPath, ['--import', 'tsx', script, ...args()], options)
    expect(JSON.parse(stdout)).toEqual({afterItem: false, afterTable: true})
  })
})

describe('settings taken from a client', () => {
  const withAccount = {...KEYS, accountId: '123456789012'}

  test.each<[string, DynamoDBClientConfig, string]>([
    ['the endpoint of the region', {}, 'https://dynamodb.eu-west-1.amazonaws.com'],
    ['that of the account', {credentials: withAccount}, 'https://123456789012.ddb.eu-west-1.amazonaws.com'],
    ['dual stack', {useDualstackEndpoint: true}, 'https://dynamodb.eu-west-1.api.aws'],
    ['FIPS', {useFipsEndpoint: true, region: 'us-east-1'}, 'https://dynamodb-fips.us-east-1.amazonaws.com'],
    ['an endpoint with a port', {endpoint: 'http://[::1]:8000'}, 'http://[::1]:8000'],
    ['another partition', {region: 'cn-north-1'}, 'https://dynamodb.cn-north-1.amazonaws.com.cn'],
  ])('%s', async (_, config, origin) => {
    for (const name of ['AWS_ENDPOINT_URL', 'AWS_ENDPOINT_URL_DYNAMODB']) vi.stubEnv(name, undefined)
    const client = new DynamoDBClient({region: 'eu-west-1', credentials: KEYS, ...config})
    clients.push(client)
    const access = await accessOf(client)
    expect(access).toMatchObject({region: config.region ?? 'eu-west-1', credentials: KEYS})
    expect(access.endpoint.origin).toBe(origin)
  })

  test('include an endpoint variable, which the SDK honours', async () => {
    vi.stubEnv('AWS_ENDPOINT_URL_DYNAMODB', server.endpoint)
    const client = new DynamoDBClient({region: 'eu-west-1', credentials: KEYS})
    clients.push(client)
    await through(client).send('UpdateItem', update)
    expect(lastSender()).toBe('lean')
  })

  test('include new credentials, before the old ones expire', async () => {
    let round = 0
    const credentials = async () => ({
      accessKeyId: `KEY${++round}`,
      secretAccessKey: 's',
      sessionToken: `token${round}`,
      expiration: new Date(Date.now() + 60_000),
    })
    let aheadMs = 0
    const transport = through(clientOf({credentials}), () => Date.now() + aheadMs)
    await transport.send('UpdateItem', update)
    const first = lastAuthorization()
    aheadMs = 30_000
    await transport.send('UpdateItem', update)
    expect(lastAuthorization().match(/KEY\d+/)).not.toEqual(first.match(/KEY\d+/))
    expect(server.requests.at(-1)?.headers['x-amz-security-token']).toBe(`token${round}`)
  })
})

describe('a credentials provider that never responds', () => {
  const hanging = () =>
    createTransport({
      client: new DynamoDBClient({
        endpoint: server.endpoint,
        region: 'us-east-1',
        credentials: () => new Promise<never>(() => {}),
      }),
      clock: Date.now,
    })

  test('holds a request no longer than its deadline', async () => {
    const transport = hanging()
    const error = await transport.send('GetItem', update, {timeoutMs: 50}).catch(error => error)
    expect(error).toMatchObject({code: 'dynamo.unavailable', maybeApplied: false})
    await transport.close()
  })

  test('does not hold close()', async () => {
    const transport = hanging()
    const waiting = transport.send('GetItem', update).catch(error => error)
    await transport.close()
    expect(await waiting).toMatchObject({code: 'dynamo.unavailable', maybeApplied: false})
  })
})

describe('missing settings', () => {
  test('deny requests without credentials, which are requested again', async () => {
    const missing = Object.assign(new Error('none here'), {name: 'CredentialsProviderError'})
    const credentials = vi.fn().mockResolvedValue(KEYS).mockRejectedValueOnce(missing)
    const transport = through(clientOf({credentials}))
    const error = await transport.send('UpdateItem', update).catch(error => error)
    expect(error).toBeInstanceOf(Denied)
    expect(server.requests).toHaveLength(0)
    expect(await transport.send('UpdateItem', update)).toEqual({})
  })

  test('include the region', async () => {
    vi.stubEnv('AWS_REGION', undefined)
    vi.stubEnv('AWS_CONFIG_FILE', '/dev/null')
    const client = new DynamoDBClient({endpoint: server.endpoint, credentials: KEYS})
    clients.push(client)
    const error = await through(client)
      .send('UpdateItem', update)
      .catch(error => error)
    expect(error).toBeInstanceOf(RegionMissing)
  })
})
