import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {DescribeStacksCommand} from '@aws-sdk/client-cloudformation'
import {describe, expect, it} from 'vitest'
import {openAws} from '../../../src/lib/infra/aws/clients.js'
import {listStacks} from '../../../src/lib/infra/stack/list-stacks.js'

const KEYS = {AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b'}

/** The endpoint of requests; `undefined`: AWS. */
async function addressOf(input: {endpointUrl?: string}, env: Record<string, string>): Promise<string | undefined> {
  using aws = openAws(input, {...KEYS, AWS_REGION: 'eu-west-1', ...env})
  const endpoint = await (await aws.cloudFormation()).config.endpoint?.()
  return endpoint && `${endpoint.protocol}//${endpoint.hostname}:${endpoint.port}`
}

describe('openAws', () => {
  it.each([
    [{region: 'eu-west-3'}, {AWS_REGION: 'us-east-1'}, 'eu-west-3'],
    [{}, {AWS_REGION: 'us-east-1', AWS_DEFAULT_REGION: 'us-east-2'}, 'us-east-1'],
    [{}, {AWS_DEFAULT_REGION: 'us-east-2'}, 'us-east-2'],
  ])('resolves %o with %o to the region %s', async (input, env, region) => {
    using aws = openAws(input, {...KEYS, ...env})
    expect(await aws.region()).toBe(region)
  })

  it('creates each client once', async () => {
    using aws = openAws({region: 'eu-west-1'}, KEYS)
    expect(await aws.lambda()).toBe(await aws.lambda())
  })

  it('sends all requests to --endpoint-url', async () => {
    expect(await addressOf({endpointUrl: 'http://127.0.0.1:5000'}, {})).toBe('http://127.0.0.1:5000')
  })

  it('uses no AWS service when DynamoDB runs on this machine, as after `zael local env`', async () => {
    const env = {AWS_ENDPOINT_URL_DYNAMODB: 'http://127.0.0.1:8000'}
    expect(await addressOf({}, env)).toBe('http://127.0.0.1:8000')
  })

  it('does not use a DynamoDB-only endpoint, such as that of a VPC, for CloudFormation', async () => {
    const env = {AWS_ENDPOINT_URL_DYNAMODB: 'https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com'}
    expect(await addressOf({}, env)).toBeUndefined()
  })

  it('aborts requests in flight when it is disposed, without retries', async () => {
    let requests = 0
    let arrive = () => {}
    const arrived = new Promise<void>(resolve => {
      arrive = resolve
    })
    // A server that never responds.
    const server = createServer(() => {
      requests++
      arrive()
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const {port} = server.address() as AddressInfo
    const aws = openAws({endpointUrl: `http://127.0.0.1:${port}`}, {})
    const response = (await aws.cloudFormation()).send(new DescribeStacksCommand({StackName: 'prod'}))
    const aborted = expect(response).rejects.toMatchObject({name: 'AbortError'})
    await arrived
    aws[Symbol.dispose]()
    await aborted
    expect(requests).toBe(1)
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  })

  it('does not accept a web page as an empty list', async () => {
    const server = createServer((_, response) => {
      response.writeHead(200, {'content-type': 'text/html'}).end('<!doctype html><title>Log in</title>')
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const {port} = server.address() as AddressInfo
    using aws = openAws({endpointUrl: `http://127.0.0.1:${port}`}, {})
    await expect(listStacks(aws)).rejects.toMatchObject({
      code: 'aws.proxy',
      message: expect.stringContaining('a proxy or a web page responded instead of AWS (HTTP status 200)'),
    })
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  })

  it('needs no credentials on this machine', async () => {
    using aws = openAws({endpointUrl: 'http://127.0.0.1:5000'}, {})
    expect(aws.isLocal).toBe(true)
    expect(await (await aws.s3()).config.credentials()).toMatchObject({accessKeyId: 'local'})
  })
})
