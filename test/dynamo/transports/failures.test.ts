import {createServer} from 'node:net'
import {DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {afterAll, beforeAll, describe, expect, test, vi} from 'vitest'
import {
  Aborted,
  BlockedByProxy,
  ConditionFailed,
  CredentialsUnavailable,
  Denied,
  isUnavailability,
  RequestFailed,
  TableMissing,
  Throttled,
  TransactionCancelled,
  TransactionConflict,
  Unavailable,
  ValidationFailed,
} from '../../../src/lib/dynamo/errors.js'
import type {ClosableTransport, ResponseInfo, Transport} from '../../../src/lib/dynamo/transport.js'
import {type Act, answer, localTransport, refusal, ScriptedServer, TRANSPORTS} from './scripted-server.js'

const server = new ScriptedServer()

beforeAll(() => server.start())
afterAll(() => server.stop())

const update = {TableName: 't', Key: {PK: {S: 'a'}, SK: {S: 'b'}}}

const resetBeforeAnswer: Act = request => void request.socket.destroy()
const cutAnswer: Act = (request, response) => {
  response.writeHead(200, {'content-length': '100'})
  response.write('{"Attr', () => request.socket.destroy())
}
const stalledAnswer: Act = (_, response) => {
  response.writeHead(200, {'content-length': '100'})
  response.write('{"Attr')
}
const drippingAnswer: Act = (request, response) => {
  response.writeHead(200, {'content-length': '1000000'})
  response.write('{')
  const drip = setInterval(() => response.write(' '), 20)
  request.socket.on('close', () => clearInterval(drip))
}
const noAnswer: Act = () => {}
const announcedAnswer: Act = (request, response) => {
  const announcing = setInterval(() => response.writeProcessing(), 20)
  request.socket.on('close', () => clearInterval(announcing))
}
const notHttp: Act = request => void request.socket.end('what?\r\n\r\n')

const HTML = {'content-type': 'text/html; charset=utf-8'}

const outages: [string, Act][] = [
  ['503 with a page of a load balancer', answer(503, '<html>busy</html>', HTML)],
  ['a success with a page of a guest network', answer(200, '<html>log in</html>', HTML)],
  ['503 from the service', refusal('ServiceUnavailable', {}, 503)],
  ['500 InternalServerError', refusal('InternalServerError', {}, 500)],
  ['500 with nothing in it', answer(500, '')],
  ['a success whose JSON is cut off', answer(200, '{"Attributes":')],
  ['a connection reset before the answer', resetBeforeAnswer],
  ['a connection reset within the answer', cutAnswer],
  ['an answer that stalls', stalledAnswer],
  ['an answer that never comes', noAnswer],
  ['an answer that is announced again and again', announcedAnswer],
  ['an answer that is not HTTP', notHttp],
]

const refusals: [string, Act, new (...args: never[]) => Error][] = [
  ['ProvisionedThroughputExceededException', refusal('ProvisionedThroughputExceededException'), Throttled],
  ['RequestLimitExceeded', refusal('RequestLimitExceeded'), Throttled],
  ['ThrottlingException', refusal('ThrottlingException'), Throttled],
  ['429 of a proxy', answer(429, 'slow'), Throttled],
  ['AccessDeniedException', refusal('AccessDeniedException'), Denied],
  ['UnrecognizedClientException', refusal('UnrecognizedClientException'), Denied],
  ['ExpiredTokenException', refusal('ExpiredTokenException'), CredentialsUnavailable],
  ['InvalidSignatureException', refusal('InvalidSignatureException'), Denied],
  ['403 without a word', answer(403, ''), Denied],
  ['403 with a page of a proxy', answer(403, '<html>no</html>', HTML), BlockedByProxy],
  ['407 of a proxy that wants credentials', answer(407, ''), BlockedByProxy],
  ['302 to the page of a guest network', answer(302, '<html>log in</html>', HTML), BlockedByProxy],
  ['ResourceNotFoundException', refusal('ResourceNotFoundException'), TableMissing],
  ['ValidationException', refusal('ValidationException'), ValidationFailed],
  ['SerializationException', refusal('SerializationException'), ValidationFailed],
  ['TransactionConflictException', refusal('TransactionConflictException'), TransactionConflict],
  ['ConditionalCheckFailedException', refusal('ConditionalCheckFailedException'), ConditionFailed],
  ['an unknown refusal', refusal('NeverHeardOfException'), RequestFailed],
]

describe.each(TRANSPORTS)('the $kind transport', ({create}) => {
  let transport: ClosableTransport
  let hasty: ClosableTransport
  const seen: ResponseInfo[] = []

  beforeAll(() => {
    transport = localTransport(server.endpoint, {onResponse: info => void seen.push(info)}, create)
    hasty = localTransport(server.endpoint, {requestTimeoutMs: 150}, create)
  })

  afterAll(async () => {
    await transport.close()
    await hasty.close()
  })

  /** The failure of one UpdateItem. */
  async function failure(act: Act, through: Transport = transport): Promise<unknown> {
    server.play(act)
    return through.send('UpdateItem', update).then(
      () => expect.unreachable('the request should have failed'),
      (error: unknown) => error,
    )
  }

  describe('D-28 one send is one HTTP request, whatever the response', () => {
    test.each(outages)('treats %s as an outage that may have applied the write', async (_, act) => {
      const error = await failure(act, hasty)
      expect(error).toBeInstanceOf(Unavailable)
      expect(error).toMatchObject({maybeApplied: true, code: 'dynamo.unavailable', kind: 'failed'})
      expect(server.requests).toHaveLength(1)
    })

    test.each(refusals)('%s', async (_, act, expected) => {
      const error = await failure(act)
      expect(error).toBeInstanceOf(expected)
      expect(server.requests).toHaveLength(1)
    })

    test("keeps the retries of a caller's client, except for requests through the transport", async () => {
      const client = new DynamoDBClient({
        endpoint: server.endpoint,
        region: 'us-east-1',
        credentials: {accessKeyId: 'a', secretAccessKey: 'b'},
        maxAttempts: 3,
        cacheMiddleware: true,
      })
      const {UpdateItemCommand} = await import('@aws-sdk/client-dynamodb')
      const command = () => new UpdateItemCommand(update)
      // The owner's request comes first: their cached handler, with retries, must not serve us, nor ours serve them.
      server.play(refusal('InternalServerError', {}, 500), answer(200, {}))
      await client.send(command())
      expect(server.requests).toHaveLength(2)

      const ours = create({client, clock: Date.now})
      expect(await failure(refusal('InternalServerError', {}, 500), ours)).toBeInstanceOf(Unavailable)
      expect(server.requests).toHaveLength(1)
      const destroy = vi.spyOn(client, 'destroy')
      await ours.close()
      expect(destroy).not.toHaveBeenCalled()

      server.play(refusal('InternalServerError', {}, 500), answer(200, {}))
      await client.send(command())
      expect(server.requests).toHaveLength(2)
      client.destroy()
    })
  })

  test.each(['message', 'Message'])('passes on the message of the service under "%s"', async field => {
    const error = await failure(answer(400, {__type: 'x#ValidationException', [field]: 'the key is too long'}))
    expect(error).toMatchObject({message: expect.stringContaining('the key is too long')})
  })

  describe('D-34 outages', () => {
    test.each(outages)('include %s', async (_, act) => {
      expect(isUnavailability(await failure(act, hasty))).toBe(true)
    })

    test.each(refusals)('include %s only if it is throttling', async (_, act, expected) => {
      expect(isUnavailability(await failure(act))).toBe(expected === Throttled)
    })
  })

  describe('a write may have been applied', () => {
    test('is false if the connection is refused', async () => {
      const idle = createServer()
      await new Promise<void>(resolve => idle.listen(0, '127.0.0.1', resolve))
      const {port} = idle.address() as {port: number}
      await new Promise(resolve => idle.close(resolve))
      const error = await localTransport(`http://127.0.0.1:${port}`, {}, create)
        .send('UpdateItem', update)
        .catch(error => error)
      expect(error).toBeInstanceOf(Unavailable)
      expect(error).toMatchObject({maybeApplied: false})
    })

    test('is false if the host name cannot be resolved', async () => {
      const connection = {
        endpoint: 'http://dynamodb.invalid:8000',
        region: 'us-east-1',
        profile: undefined,
        credentials: {accessKeyId: 'a', secretAccessKey: 'b'},
        isLocal: false,
      }
      const error = await create({connection, clock: Date.now})
        .send('UpdateItem', update)
        .catch(error => error)
      expect(error).toBeInstanceOf(Unavailable)
      expect(error).toMatchObject({maybeApplied: false})
    })

    test('is false if connecting timed out', async () => {
      const client = new DynamoDBClient({
        endpoint: server.endpoint,
        region: 'us-east-1',
        credentials: {accessKeyId: 'a', secretAccessKey: 'b'},
        requestHandler: {connectionTimeout: 1_500, httpAgent: {maxSockets: 1}},
      })
      const single = create({client, clock: Date.now})
      server.play(noAnswer)
      const stop = new AbortController()
      const occupying = single.send('UpdateItem', update, {signal: stop.signal}).catch(error => error)
      const error = await single.send('UpdateItem', update).catch(error => error)
      stop.abort()
      await occupying
      client.destroy()
      expect(error).toBeInstanceOf(Unavailable)
      expect(error).toMatchObject({maybeApplied: false})
      expect(server.requests).toHaveLength(1)
    })

    test('is false if it failed before it was sent, even with a 5xx of the credentials provider', async () => {
      const outage = Object.assign(new Error('sts is down'), {$metadata: {httpStatusCode: 503}})
      const client = new DynamoDBClient({
        endpoint: server.endpoint,
        region: 'us-east-1',
        credentials: () => Promise.reject(outage),
      })
      const error = await failure(answer(200, {}), create({client, clock: Date.now}))
      expect(error).toBeInstanceOf(Unavailable)
      expect(error).toMatchObject({maybeApplied: false})
      expect(server.requests).toHaveLength(0)
    })

    test('is false for a read', async () => {
      server.play(resetBeforeAnswer)
      const error = await transport.send('GetItem', update).catch(error => error)
      expect(error).toBeInstanceOf(Unavailable)
      expect(error).toMatchObject({maybeApplied: false})
    })
  })

  describe('stopping a request', () => {
    test('is possible for the caller, in flight', async () => {
      const stop = new AbortController()
      server.play(() => stop.abort())
      const error = await transport.send('UpdateItem', update, {signal: stop.signal}).catch(error => error)
      expect(error).toBeInstanceOf(Aborted)
      expect(error).toMatchObject({maybeApplied: true})
      expect(isUnavailability(error)).toBe(false)
    })

    test('is possible for the caller, within the response', async () => {
      const stop = new AbortController()
      server.play((request, response) => {
        stalledAnswer(request, response)
        setTimeout(() => stop.abort(), 20)
      })
      const error = await transport.send('UpdateItem', update, {signal: stop.signal}).catch(error => error)
      expect(error).toBeInstanceOf(Aborted)
    })

    test('is possible before it was sent', async () => {
      server.play(answer(200, {}))
      const error = await transport.send('UpdateItem', update, {signal: AbortSignal.abort()}).catch(error => error)
      expect(error).toBeInstanceOf(Aborted)
      expect(error).toMatchObject({maybeApplied: false})
      expect(server.requests).toHaveLength(0)
    })

    test('happens automatically if a response drips endlessly', async () => {
      const patient = localTransport(server.endpoint, {requestTimeoutMs: 100, connectTimeoutMs: 200}, create)
      const error = await failure(drippingAnswer, patient)
      expect(error).toBeInstanceOf(Unavailable)
      expect(error).toMatchObject({maybeApplied: true})
      await patient.close()
    })

    test('is an outage if a deadline passes', async () => {
      const deadline = new AbortController()
      // The reason that AbortSignal.timeout gives, when the request has certainly arrived.
      server.play(() => deadline.abort(new DOMException('too late', 'TimeoutError')))
      const error = await transport.send('UpdateItem', update, {signal: deadline.signal}).catch(error => error)
      expect(error).toBeInstanceOf(Unavailable)
      expect(error).toMatchObject({maybeApplied: true})
    })
  })

  describe('a cancelled transaction', () => {
    const cancel = (...reasons: object[]) =>
      refusal('TransactionCanceledException', {CancellationReasons: reasons, Message: 'cancelled'})
    const transaction = {TransactItems: [{Delete: update}]}
    const failed = (act: Act) => {
      server.play(act)
      return transport.send('TransactWriteItems', transaction).catch((error: unknown) => error)
    }

    test('names the reason of each item and gives the stored items', async () => {
      const error = await failed(
        cancel(
          {Code: 'ConditionalCheckFailed', Message: 'no', Item: {PK: {S: 'a'}, n: {N: '3'}}},
          {Code: 'None'},
          {Code: 'TransactionConflict'},
        ),
      )
      expect(error).toBeInstanceOf(TransactionCancelled)
      expect(error).toMatchObject({
        hasConditionFailure: true,
        hasConflict: true,
        reasons: [
          {code: 'ConditionalCheckFailed', message: 'no', oldItem: {PK: {S: 'a'}, n: {N: '3'}}},
          {code: 'None', oldItem: undefined},
          {code: 'TransactionConflict'},
        ],
      })
      expect(server.requests).toHaveLength(1)
    })

    test('is throttling when there is no other reason', async () => {
      expect(await failed(cancel({Code: 'None'}, {Code: 'ThrottlingError'}))).toBeInstanceOf(Throttled)
      expect(await failed(cancel({Code: 'ProvisionedThroughputExceeded'}))).toBeInstanceOf(Throttled)
    })

    test('is not throttling if a condition failed too, or without a reason', async () => {
      const mixed = await failed(cancel({Code: 'ThrottlingError'}, {Code: 'ConditionalCheckFailed'}))
      expect(mixed).toBeInstanceOf(TransactionCancelled)
      expect(isUnavailability(mixed)).toBe(false)
      expect(await failed(cancel({Code: 'None'}))).toBeInstanceOf(TransactionCancelled)
    })
  })

  describe('the observer gets', () => {
    test('the date of refusals too', async () => {
      seen.length = 0
      await failure(answer(400, {__type: 'x#ValidationException'}, {date: 'Tue, 03 Mar 2026 10:11:12 GMT'}))
      expect(seen).toHaveLength(1)
      expect(seen[0]).toMatchObject({operation: 'UpdateItem', serverDateMs: Date.UTC(2026, 2, 3, 10, 11, 12)})
    })

    test('no date if it is malformed', async () => {
      const infos: ResponseInfo[] = []
      // A separate transport: the SDK's signer accepts such a date and cannot sign afterwards.
      const misled = localTransport(server.endpoint, {onResponse: info => void infos.push(info)}, create)
      server.play(answer(200, {}, {date: 'yesterday'}))
      await misled.send('UpdateItem', update)
      expect(infos).toMatchObject([{serverDateMs: undefined, capacity: []}])
      await misled.close()
    })

    test('nothing without a response', async () => {
      seen.length = 0
      await failure(resetBeforeAnswer)
      expect(seen).toEqual([])
    })

    test('the times of sending and receiving, by the given clock', async () => {
      let nowMs = 1_000
      const infos: ResponseInfo[] = []
      const dated = localTransport(
        server.endpoint,
        {clock: () => nowMs, onResponse: info => void infos.push(info)},
        create,
      )
      server.play((request, response) => {
        nowMs = 1_700
        answer(200, {})(request, response)
      })
      await dated.send('UpdateItem', update)
      expect(infos).toMatchObject([{sentAtMs: 1_000, receivedAtMs: 1_700}])
      await dated.close()
    })
  })

  test('requests capacity only if metered, and only where DynamoDB reports it', async () => {
    const metered = localTransport(server.endpoint, {meterCapacity: true}, create)
    server.play(answer(200, {}))
    await metered.send('UpdateItem', update)
    await metered.send('ListTables', {})
    await transport.send('UpdateItem', update)
    expect(server.body(0)).toMatchObject({ReturnConsumedCapacity: 'INDEXES'})
    expect(server.body(1)).toEqual({})
    expect(server.body(2)).not.toHaveProperty('ReturnConsumedCapacity')
    await metered.close()
  })

  test('opens a closed transport again when used', async () => {
    const reused = localTransport(server.endpoint, {}, create)
    server.play(answer(200, {}))
    await reused.close()
    await reused.send('UpdateItem', update)
    await reused.close()
    await reused.send('UpdateItem', update)
    await reused.close()
    expect(server.requests).toHaveLength(2)
  })
})
