import {mkdtempSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi} from 'vitest'
import {type ConnectionInput, resolveConnection} from '../../../src/lib/dynamo/connection.js'
import {accessOf, explicitAccess} from '../../../src/lib/dynamo/transports/access.js'

const KEYS = {AWS_ACCESS_KEY_ID: 'KEY', AWS_SECRET_ACCESS_KEY: 'secret'}
const LAMBDA = {...KEYS, AWS_SESSION_TOKEN: 'session', AWS_REGION: 'eu-west-1'}

let home = ''
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'zael-access-'))
  writeFileSync(join(home, 'config'), '[default]\nendpoint_url = http://proxy.example\n')
})
afterAll(() => rmSync(home, {recursive: true}))

beforeEach(() => {
  for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) vi.stubEnv(name, undefined)
  vi.stubEnv('AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED', 'true')
  vi.stubEnv('HOME', home)
})
afterEach(() => {
  vi.unstubAllEnvs()
})

/** Access without the SDK. */
function direct(env: Record<string, string>, input: ConnectionInput = {}) {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  return explicitAccess(resolveConnection(input, process.env), process.env)
}

/** What the SDK uses in this environment. */
async function bySdk({endpointUrl: endpoint, region}: ConnectionInput) {
  const client = new DynamoDBClient({...(endpoint ? {endpoint} : {}), ...(region ? {region} : {})})
  try {
    return await accessOf(client)
  } finally {
    client.destroy()
  }
}

describe('access by the environment', () => {
  it.each<[string, Record<string, string>, ConnectionInput]>([
    ['a Lambda function', LAMBDA, {}],
    ['keys without a session', {...KEYS, AWS_REGION: 'us-east-1'}, {}],
    ['keys that expire', {...LAMBDA, AWS_CREDENTIAL_EXPIRATION: '2099-01-01T00:00:00Z'}, {}],
    ['the region of an option', {...KEYS, AWS_REGION: 'us-east-1'}, {region: 'ap-southeast-2'}],
    ['an endpoint for all services', {...LAMBDA, AWS_ENDPOINT_URL: 'https://vpc.example'}, {}],
    [
      'an endpoint for DynamoDB',
      {...LAMBDA, AWS_ENDPOINT_URL: 'https://a.example', AWS_ENDPOINT_URL_DYNAMODB: 'https://b.example'},
      {},
    ],
    [
      'the endpoint of an option',
      {...LAMBDA, AWS_ENDPOINT_URL: 'https://a.example'},
      {endpointUrl: 'http://c.example:81'},
    ],
  ])('is that of the SDK: %s', async (_, env, input) => {
    const {endpoint, region, credentials} = await bySdkAfter(env, input)
    const found = direct(env, input)
    expect(found?.endpoint.href).toBe(endpoint.href)
    expect(found?.region).toBe(region)
    const {accessKeyId, secretAccessKey, sessionToken, expiration} = credentials
    expect({sessionToken: undefined, expiration: undefined, ...found?.credentials}).toEqual({
      accessKeyId,
      secretAccessKey,
      sessionToken,
      expiration,
    })
  })

  it.each<[string, Record<string, string>, ConnectionInput]>([
    ['no region', KEYS, {}],
    ['no keys', {AWS_REGION: 'eu-west-1'}, {}],
    ['half of the keys', {AWS_REGION: 'eu-west-1', AWS_ACCESS_KEY_ID: 'KEY'}, {}],
    ['empty keys', {...KEYS, AWS_REGION: 'eu-west-1', AWS_SECRET_ACCESS_KEY: ''}, {}],
    ['a profile', {...LAMBDA, AWS_PROFILE: 'p'}, {}],
    ['a profile as an option', LAMBDA, {profile: 'p'}],
    ['an account', {...LAMBDA, AWS_ACCOUNT_ID: '123456789012'}, {}],
    ['FIPS endpoints', {...LAMBDA, AWS_USE_FIPS_ENDPOINT: 'true'}, {}],
    ['dual-stack endpoints', {...LAMBDA, AWS_USE_DUALSTACK_ENDPOINT: 'true'}, {}],
    [
      'ignored endpoints',
      {...LAMBDA, AWS_IGNORE_CONFIGURED_ENDPOINT_URLS: 'true', AWS_ENDPOINT_URL: 'https://a.example'},
      {},
    ],
    ['China', {...LAMBDA, AWS_REGION: 'cn-north-1'}, {}],
    ['a government region', {...LAMBDA, AWS_REGION: 'us-gov-west-1'}, {}],
    ['an isolated region', {...LAMBDA, AWS_REGION: 'us-isob-east-1'}, {}],
  ])('is left to the SDK: %s', (_, env, input) => {
    expect(direct(env, input)).toBeUndefined()
  })

  it('is left to the SDK if a settings file may name an endpoint', async () => {
    const env = {...LAMBDA, AWS_CONFIG_FILE: join(home, 'config')}
    expect((await bySdkAfter(env, {})).endpoint.href).toBe('http://proxy.example/')
    expect(direct(env)).toBeUndefined()
    expect(direct({...LAMBDA, AWS_CONFIG_FILE: '', AWS_SHARED_CREDENTIALS_FILE: join(home, 'config')})).toBeUndefined()
    expect(direct(env, {endpointUrl: 'http://c.example'})?.endpoint.href).toBe('http://c.example/')
  })

  it('needs neither keys nor a region for an engine on this machine, whatever the settings files say', () => {
    const env = {AWS_ENDPOINT_URL_DYNAMODB: 'http://127.0.0.1:8000', AWS_CONFIG_FILE: join(home, 'config')}
    expect(direct(env)).toEqual({
      endpoint: new URL('http://127.0.0.1:8000'),
      region: 'us-east-1',
      credentials: {accessKeyId: 'local', secretAccessKey: 'local'},
    })
  })
})

function bySdkAfter(env: Record<string, string>, input: ConnectionInput) {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  return bySdk(input)
}
