import {describe, expect, test} from 'vitest'
import {InvalidInput} from '../../src/lib/core/errors.js'
import {resolveConnection} from '../../src/lib/dynamo/connection.js'
import {createSdkTransport} from '../../src/lib/dynamo/transports/sdk.js'

describe('region', () => {
  const all = {AWS_REGION: 'eu-west-1', AWS_DEFAULT_REGION: 'eu-west-2'}
  test.each([
    [{region: 'eu-west-3'}, all, 'eu-west-3'],
    [{}, all, 'eu-west-1'],
    [{}, {AWS_DEFAULT_REGION: 'eu-west-2'}, 'eu-west-2'],
    [{region: ''}, {AWS_REGION: '', AWS_DEFAULT_REGION: 'eu-west-2'}, 'eu-west-2'],
    [{profile: 'p'}, all, 'eu-west-1'],
    [{}, {AWS_DEFAULT_REGION: ''}, undefined],
    [{}, {}, undefined],
  ])('%j with %j is %s', (input, env, region) => {
    expect(resolveConnection(input, env).region).toBe(region)
  })
})

describe('a local engine', () => {
  test.each([
    'http://127.0.0.1:8000',
    'http://127.9.9.9',
    'http://127.1:80',
    'http://localhost:8000',
    'https://[::1]:1',
  ])('needs no setup at %s', endpointUrl => {
    expect(resolveConnection({endpointUrl}, {})).toEqual({
      region: 'us-east-1',
      profile: undefined,
      endpoint: endpointUrl,
      credentials: {accessKeyId: 'local', secretAccessKey: 'local'},
      isLocal: true,
    })
  })

  test.each(['AWS_ENDPOINT_URL', 'AWS_ENDPOINT_URL_DYNAMODB'])(
    'is recognised by %s, which the SDK reads itself',
    name => {
      const connection = resolveConnection({}, {[name]: 'http://localhost:8000'})
      expect(connection).toMatchObject({isLocal: true, region: 'us-east-1', endpoint: undefined})
      expect(connection.credentials).toEqual({accessKeyId: 'local', secretAccessKey: 'local'})
    },
  )

  test('prefers the flag to the variables, and the variable for DynamoDB to the general one', () => {
    const env = {AWS_ENDPOINT_URL: 'http://localhost:1', AWS_ENDPOINT_URL_DYNAMODB: 'https://ddb.example.com'}
    expect(resolveConnection({}, env).isLocal).toBe(false)
    expect(resolveConnection({endpointUrl: 'http://localhost:2'}, env).isLocal).toBe(true)
    expect(resolveConnection({endpointUrl: ''}, {...env, AWS_ENDPOINT_URL_DYNAMODB: ''}).isLocal).toBe(true)
  })

  test('gives every client its own credentials, because the SDK writes to the object', async () => {
    const local = {accessKeyId: 'local', secretAccessKey: 'local'}
    const connections = [1, 2].map(() => resolveConnection({endpointUrl: 'http://127.0.0.1:8000'}, {}))
    expect(connections[0]?.credentials).not.toBe(connections[1]?.credentials)
    for (const connection of connections) {
      const transport = createSdkTransport({connection, clock: Date.now})
      const {config} = await transport.client()
      expect(await config.credentials()).toMatchObject({...local, $source: expect.anything()})
      expect(connection.credentials).toEqual(local)
      await transport.close()
    }
    expect(resolveConnection({endpointUrl: 'http://127.0.0.1:8000'}, {}).credentials).toEqual(local)
  })

  test('keeps an identity chosen by the user', () => {
    const endpointUrl = 'http://127.0.0.1:8000'
    const keys = {AWS_ACCESS_KEY_ID: 'AKIA', AWS_SECRET_ACCESS_KEY: 'x'}
    expect(resolveConnection({endpointUrl}, keys)).toMatchObject({credentials: undefined, region: 'us-east-1'})
    expect(resolveConnection({endpointUrl, profile: 'p'}, {})).toMatchObject({
      credentials: undefined,
      region: undefined,
    })
    expect(resolveConnection({endpointUrl}, {AWS_PROFILE: 'p'}).credentials).toBeUndefined()
    expect(resolveConnection({endpointUrl}, {AWS_PROFILE: ''}).credentials?.accessKeyId).toBe('local')
    expect(resolveConnection({endpointUrl, region: 'eu-west-1'}, {})).toMatchObject({region: 'eu-west-1'})
  })
})

test.each([
  'https://dynamodb.eu-west-1.amazonaws.com',
  'http://127.0.0.1.example.com',
  'http://localhost.example.com',
  'http://128.0.0.1',
])('is not recognised at %s, which gets no invented credentials', endpointUrl => {
  expect(resolveConnection({endpointUrl}, {})).toMatchObject({
    isLocal: false,
    credentials: undefined,
    region: undefined,
  })
})

test.each(['localhost:8000', '127.0.0.1:8000', 'http://', 'ftp://localhost', 'nonsense'])(
  'rejects the endpoint %s',
  text => {
    expect(() => resolveConnection({endpointUrl: text}, {})).toThrow(InvalidInput)
    expect(() => resolveConnection({endpointUrl: text}, {})).toThrow('--endpoint-url')
    expect(() => resolveConnection({}, {AWS_ENDPOINT_URL: text})).toThrow('AWS_ENDPOINT_URL')
  },
)
