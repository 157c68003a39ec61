import {execFile} from 'node:child_process'
import {readFileSync} from 'node:fs'
import {createServer} from 'node:https'
import type {AddressInfo} from 'node:net'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {LeanTransport} from '../../../src/lib/dynamo/transports/lean.js'

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url))
const run = promisify(execFile)

// A self-signed certificate for localhost and 127.0.0.1; it protects nothing.
const identity = {key: readFileSync(fixture('loopback-key.pem')), cert: readFileSync(fixture('loopback-cert.pem'))}
const connections = new Set<unknown>()
let requests = 0
let port = 0

const server = createServer({...identity, keepAliveTimeout: 0}, (request, response) => {
  requests++
  connections.add(request.socket)
  request.resume().on('end', () => response.end('{"Item":{}}'))
})

beforeAll(async () => {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  port = (server.address() as AddressInfo).port
})

afterAll(async () => {
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
})

test.each(['localhost', '127.0.0.1'])('connects to %s with a trusted certificate', async host => {
  connections.clear()
  const env = {...process.env, NODE_EXTRA_CA_CERTS: fixture('loopback-cert.pem')}
  const argv = ['--import', 'tsx', fixture('secure-requests.ts'), `https://${host}:${port}`]
  const {stdout} = await run(process.execPath, argv, {env, timeout: 100_000})
  expect(stdout).toBe('{"Item":{}}{"Item":{}}')
  expect(connections.size).toBe(1)
})

test('sends nothing to a server with an untrusted certificate, and does not call it an outage', async () => {
  requests = 0
  const endpoint = new URL(`https://127.0.0.1:${port}`)
  const credentials = {accessKeyId: 'KEY', secretAccessKey: 'secret'}
  const transport = new LeanTransport({access: () => ({endpoint, region: 'eu-west-1', credentials}), clock: Date.now})
  const update = {TableName: 't', Key: {PK: {S: 'a'}, SK: {S: 'b'}}}
  await expect(transport.send('UpdateItem', update)).rejects.toMatchObject({code: 'aws.certificate'})
  expect(requests).toBe(0)
  await transport.close()
})
