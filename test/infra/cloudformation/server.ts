/*
 * A local server that responds like CloudFormation, for cases that moto does not support: imports, drift, rollbacks, early
 * validation, throttling, and two deployments at once. It is a state machine: stacks, change sets, events and resources
 * follow from the calls before. Tables are on the engine of the tests; of Lambda, it supports only the calls of `deploy`.
 *
 * Sources of its responses: the API reference and the user guide of CloudFormation (change sets, drift-aware change
 * sets, automatic import, early validation, drift detection), and event sequences of published logs of deployments.
 *
 * Limits, which no test here covers:
 * - Time. Operations advance when they are read, a change set is planned with its second description, a detection of drift
 *   ends with its third.
 * - Other templates than zael's. Functions and conditions are evaluated, but references to resources stay symbols, so a
 *   resource that changes only because another one was replaced is not listed.
 * - Order. Resources follow each other in the order of the template, not by their dependencies, and never in parallel.
 * - Validation of properties, permissions, quotas, service roles, stack policies and nested stacks.
 * - Which properties need a replacement is known for the types in the template only. `Conditional` occurs for the
 *   attributes of a table, whose replacement CloudFormation never carries out here.
 * - An import is taken as it is documented: nothing of the resource changes. In practice the handler for updates may set
 *   properties back that differ from the template, which is why `deploy` refuses such tables before.
 * - Whether RetainExceptOnCreate deletes an imported resource when a creation fails is not documented; here it does, so that
 *   no code relies on the contrary. How a drift-aware change set lists a resource that is gone (`Add` or `Modify`) is not
 *   documented either; tests cover both.
 */
import {createHash} from 'node:crypto'
import {createServer, type IncomingMessage, request, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import {buffer} from 'node:stream/consumers'
import {inject} from 'vitest'
import {resolveConnection} from '../../../src/lib/dynamo/connection.js'
import {createTransport} from '../../../src/lib/dynamo/transports/create.js'
import {Account} from './account.js'
import {CloudFormation} from './cloudformation.js'
import {CloudFormationError, parseForm, toErrorResponse, toResponse} from './query-protocol.js'
import {answerTableCall, withProtection} from './table-calls.js'

const FUNCTION = 'AWS::Lambda::Function'
const JSON_1_0 = {'content-type': 'application/x-amz-json-1.0'}

/** A running server. */
export interface CloudFormationServer extends AsyncDisposable {
  readonly endpoint: string
  readonly cloudFormation: CloudFormation
  /** The names of the calls of CloudFormation since the last time. */
  takeCalls(): string[]
  /** This many of the next calls of CloudFormation are throttled. */
  throttle(calls: number): void
  /** Called before a call is answered; two deployments meet here. */
  onCall: (action: string) => Promise<void> | void
}

/** Starts a server with an empty account. Tables are those of the test engine. */
export async function startCloudFormation(): Promise<CloudFormationServer> {
  const engineUrl = inject('engineEndpoint')
  const engine = createTransport({connection: resolveConnection({endpointUrl: engineUrl}, {}), clock: Date.now})
  const cloudFormation = new CloudFormation(new Account(engine))
  const calls: string[] = []
  let toThrottle = 0

  const server = createServer(async (incoming, outgoing) => {
    const body = await buffer(incoming)
    const [service = '', operation = ''] = String(incoming.headers['x-amz-target']).split('.')
    if (service.startsWith('DynamoDB')) {
      const {account} = cloudFormation
      const answered = await answerTableCall(account, operation, JSON.parse(body.toString()))
      if (answered) return void outgoing.writeHead(200, JSON_1_0).end(JSON.stringify(answered))
      const change = operation === 'DescribeTable' ? (text: string) => withProtection(account, text) : undefined
      return forward(engineUrl, incoming, body, outgoing, change)
    }
    if (
      /^\/2015-03-31\/(functions\/[^/]+\/(configuration|code)|event-source-mappings\/[^/?]+)$/.test(incoming.url ?? '')
    )
      return answerLambda(cloudFormation.account, incoming, body, outgoing)
    const {Action: action, Version: _, ...input} = parseForm(body.toString())
    // Denies access to other services.
    if (action === undefined || incoming.headers.authorization?.includes('/cloudformation/') !== true) {
      return void outgoing.writeHead(403, {'x-amzn-errortype': 'AccessDeniedException'}).end('{}')
    }
    try {
      calls.push(action)
      await running.onCall(action)
      if (toThrottle > 0) {
        toThrottle--
        throw new CloudFormationError('Throttling', 'Rate exceeded')
      }
      const result = await cloudFormation.answer(action, input)
      outgoing.writeHead(200, {'content-type': 'text/xml'}).end(toResponse(action, result))
    } catch (error) {
      const known = error instanceof CloudFormationError ? error : new CloudFormationError('Test', String(error))
      outgoing.writeHead(known.status, {'content-type': 'text/xml'}).end(toErrorResponse(known))
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const running: CloudFormationServer = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cloudFormation,
    onCall: () => {},
    takeCalls: () => calls.splice(0),
    throttle: count => {
      toThrottle = count
    },
    async [Symbol.asyncDispose]() {
      await new Promise(resolve => {
        server.close(resolve)
        server.closeAllConnections()
      })
      await engine.close()
    },
  }
  return running
}

/** Functions have the hash of their code; a mapping is enabled if it exists. */
async function answerLambda(
  account: Account,
  {url = '', method}: IncomingMessage,
  body: Buffer,
  outgoing: ServerResponse,
) {
  const [, , kind, id = '', part] = url.split('/')
  const isMapping = kind === 'event-source-mappings'
  const found = await account.find(isMapping ? 'AWS::Lambda::EventSourceMapping' : FUNCTION, decodeURIComponent(id))
  const answer = (status: number, result: object, error = '') =>
    outgoing
      .writeHead(status, {'content-type': 'application/json', ...(error && {'x-amzn-errortype': error})})
      .end(JSON.stringify(result))
  if (!found) return answer(404, {Message: `Not found: ${id}`}, 'ResourceNotFoundException')
  if (isMapping) return answer(200, {UUID: id, State: 'Enabled'})
  if (method === 'PUT' && part === 'code') {
    const zip = Buffer.from(JSON.parse(body.toString()).ZipFile, 'base64')
    await account.change(FUNCTION, id, {CodeSha256: createHash('sha256').update(zip).digest('base64')})
  }
  const {CodeSha256 = 'placeholder', Runtime, Architectures} = {...(await account.find(FUNCTION, id))}
  const state = {State: 'Active', LastUpdateStatus: 'Successful', CodeSize: 1_000_000}
  return answer(200, {FunctionName: id, CodeSha256, Runtime, Architectures, ...state})
}

function forward(
  engineUrl: string,
  {method, url: path, headers}: IncomingMessage,
  body: Buffer,
  outgoing: ServerResponse,
  /** Changes the text of an answer. */
  change?: (text: string) => Promise<string>,
) {
  const {hostname, port} = new URL(engineUrl)
  const forwarded = request({hostname, port, method, path, headers}, async response => {
    const {statusCode = 500} = response
    if (!change || statusCode !== 200) return response.pipe(outgoing.writeHead(statusCode, response.headers))
    outgoing.writeHead(statusCode, JSON_1_0).end(await change((await buffer(response)).toString()))
  })
  forwarded.on('error', () => outgoing.destroy())
  forwarded.end(body)
}
