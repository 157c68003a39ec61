import {getEventListeners} from 'node:events'
import type {Socket} from 'node:net'
import {crc32} from 'node:zlib'
import {afterAll, afterEach, beforeAll, describe, expect, test, vi} from 'vitest'
import {Aborted, Denied, Unavailable} from '../../../src/lib/dynamo/errors.js'
import type {Access} from '../../../src/lib/dynamo/transports/access.js'
import {LeanTransport, type LeanTransportOptions} from '../../../src/lib/dynamo/transports/lean.js'
import {httpText, RawServer} from './raw-server.js'

const server = new RawServer()
const opened: LeanTransport[] = []

beforeAll(() => server.start())
afterAll(() => server.stop())
afterEach(async () => {
  await Promise.all(opened.splice(0).map(transport => transport.close()))
  await server.untilOpen(0)
})

const update = {TableName: 't', Key: {PK: {S: 'a'}, SK: {S: 'b'}}}
const KEYS = {accessKeyId: 'KEY', secretAccessKey: 'secret'}

function access(credentials: Access['credentials'] = KEYS): Access {
  return {endpoint: new URL(server.endpoint), region: 'eu-west-1', credentials}
}

function lean(options: Partial<LeanTransportOptions> = {}): LeanTransport {
  const transport = new LeanTransport({access: () => access(), clock: Date.now, ...options})
  opened.push(transport)
  return transport
}

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => expect.unreachable('the request should have failed'),
    (error: unknown) => error,
  )

const succeed = (socket: Socket) => socket.write(httpText('{}'))
const headerOf = (request: string | undefined, name: string) =>
  new RegExp(`^${name}: (.*)\r$`, 'im').exec(request ?? '')?.[1]

describe('connections', () => {
  test('serve request after request', async () => {
    server.play(succeed)
    const transport = lean()
    for (let n = 0; n < 5; n++) await transport.send('UpdateItem', update)
    expect(server).toMatchObject({connections: 1, requests: {length: 5}})
  })

  test('are used by one request each up to a maximum, beyond which requests wait', async () => {
    const arrived: Socket[] = []
    server.play(socket => void arrived.push(socket))
    const transport = lean()
    const sent = Array.from({length: 200}, () => transport.send('GetItem', update))
    await expect.poll(() => arrived.length).toBe(128)
    server.onRequest = succeed
    for (const socket of arrived) succeed(socket)
    expect(await Promise.all(sent)).toHaveLength(200)
    expect(server).toMatchObject({connections: 128, requests: {length: 200}})
  })

  test('are replaced for waiting requests when one closes', async () => {
    const closing = (socket: Socket) => socket.write(httpText('{}', {headers: ['connection: close']}))
    const arrived: Socket[] = []
    server.play(socket => void arrived.push(socket))
    const transport = lean()
    const sent = Array.from({length: 130}, () => transport.send('GetItem', update))
    await expect.poll(() => arrived.length).toBe(128)
    server.onRequest = closing
    for (const socket of arrived) closing(socket)
    expect(await Promise.all(sent)).toHaveLength(130)
    expect(server).toMatchObject({connections: 130, requests: {length: 130}})
  })

  test('fail a request that waits too long, and send nothing of it', async () => {
    const arrived: Socket[] = []
    server.play(socket => void arrived.push(socket))
    // Long enough for requests that do get one.
    const transport = lean({connectTimeoutMs: 3_000})
    const sent = Array.from({length: 128}, () => transport.send('UpdateItem', update))
    await expect.poll(() => arrived.length).toBe(128)
    expect(await failureOf(transport.send('UpdateItem', update))).toMatchObject({maybeApplied: false})
    for (const socket of arrived) succeed(socket)
    await Promise.all(sent)
    expect(server.requests).toHaveLength(128)
  })

  test('are not reused if the server closes them while idle', async () => {
    server.play(succeed)
    const transport = lean()
    await transport.send('UpdateItem', update)
    for (const socket of server.sockets) socket.end()
    await server.untilOpen(0)
    await transport.send('UpdateItem', update)
    expect(server).toMatchObject({connections: 2, requests: {length: 2}})
  })

  test('are not reused after a long idle time', async () => {
    server.play(succeed)
    const transport = lean()
    await transport.send('UpdateItem', update)
    const laterMs = performance.now() + 61_000
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => laterMs)
    await transport.send('UpdateItem', update)
    clock.mockRestore()
    expect(server).toMatchObject({connections: 2, requests: {length: 2}})
    await server.untilOpen(1)
  })

  test('do not resend a request if the server closes them during it', async () => {
    server.play(succeed)
    const transport = lean()
    await transport.send('UpdateItem', update)
    server.play(socket => socket.destroy())
    const error = await failureOf(transport.send('UpdateItem', update))
    expect(error).toBeInstanceOf(Unavailable)
    expect(error).toMatchObject({maybeApplied: true})
    expect(server).toMatchObject({connections: 0, requests: {length: 1}})
    server.onRequest = succeed
    await transport.send('UpdateItem', update)
  })

  test('are closed by a response without a request', async () => {
    server.play(succeed)
    const transport = lean()
    await transport.send('UpdateItem', update)
    for (const socket of server.sockets) socket.write(httpText('{"late":1}'))
    await server.untilOpen(0)
    expect(await transport.send('UpdateItem', update)).toEqual({})
  })

  test.each([
    ['that announces its end', httpText('{}', {headers: ['connection: close']})],
    ['with more bytes than announced', `${httpText('{}')}{}`],
    ['without a length', null],
  ])('end after a response %s', async (_, text) => {
    server.play(socket => (text === null ? socket.end('HTTP/1.1 200 OK\r\n\r\n{}') : socket.write(text)))
    const transport = lean()
    for (let n = 0; n < 3; n++) expect(await transport.send('UpdateItem', update)).toEqual({})
    expect(server).toMatchObject({connections: 3, requests: {length: 3}})
  })

  test('end at close, even in use; waiting requests fail, and later requests open new ones', async () => {
    server.play(socket => (server.requests.length === 1 ? succeed(socket) : undefined))
    const transport = lean()
    await transport.send('UpdateItem', update)
    const underway = [failureOf(transport.send('UpdateItem', update)), failureOf(transport.send('UpdateItem', update))]
    await expect.poll(() => server.requests.length).toBe(3)
    await transport.close()
    expect(await Promise.all(underway)).toEqual([
      expect.objectContaining({maybeApplied: true}),
      expect.objectContaining({maybeApplied: true}),
    ])
    await server.untilOpen(0)
    server.play(succeed)
    await transport.send('UpdateItem', update)
    expect(server).toMatchObject({connections: 1})
  })
})

describe('a write that may have been applied', () => {
  test('is none if the connection is refused or reset before it is established', async () => {
    const unused = new RawServer()
    await unused.start()
    const endpoint = new URL(unused.endpoint)
    await unused.stop()
    const transport = lean({access: () => ({...access(), endpoint})})
    expect(await failureOf(transport.send('UpdateItem', update))).toMatchObject({maybeApplied: false})
  })

  test('is none if the secure connection fails, for any reason', async () => {
    server.play(succeed)
    server.onConnection = socket => socket.destroy()
    const endpoint = new URL(server.endpoint.replace('http:', 'https:'))
    const reset = await failureOf(lean({access: () => ({...access(), endpoint})}).send('UpdateItem', update))
    expect(reset).toBeInstanceOf(Unavailable)
    expect(reset).toMatchObject({maybeApplied: false})
    server.onConnection = socket => socket.end('what?')
    const confused = await failureOf(lean({access: () => ({...access(), endpoint})}).send('UpdateItem', update))
    expect(confused).toMatchObject({code: 'dynamo.failed'})
    expect(server.requests).toHaveLength(0)
  })

  test('is none if connecting times out; the attempt ends, and the next request starts its own', async () => {
    server.play(succeed)
    const endpoint = new URL(server.endpoint.replace('http:', 'https:'))
    const transport = lean({access: () => ({...access(), endpoint}), connectTimeoutMs: 200})
    for (const connections of [1, 2]) {
      const error = await failureOf(transport.send('UpdateItem', update))
      expect(error).toBeInstanceOf(Unavailable)
      expect(error).toMatchObject({maybeApplied: false})
      // The client may give up before the server has seen the connection.
      await expect.poll(() => server.connections).toBe(connections)
      await server.untilOpen(0)
    }
  })

  test.each<[string, (socket: Socket) => void]>([
    ['a reset', socket => socket.resetAndDestroy()],
    ['an end', socket => socket.end()],
    ['half a head', socket => socket.end('HTTP/1.1 200 OK\r\ncontent-le')],
    ['half a body', socket => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{"a"')],
    ['half of the chunks', socket => socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n')],
    ['another protocol', socket => socket.write('SSH-2.0\r\n')],
    ['a success that is no JSON', socket => socket.write(httpText('<html>'))],
    ['a success that is no object', socket => socket.write(httpText('"fine"'))],
    ['a success without a body', socket => socket.write(httpText(''))],
    ['a wrong checksum', socket => socket.write(httpText('{}', {headers: ['x-amz-crc32: 1']}))],
    ['500 without a body', socket => socket.write(httpText('', {status: '500 No'}))],
  ])('is the write after %s', async (_, act) => {
    server.play(act)
    const error = await failureOf(lean().send('UpdateItem', update))
    expect(error).toBeInstanceOf(Unavailable)
    expect(error).toMatchObject({maybeApplied: true})
    expect(server.requests).toHaveLength(1)
  })

  test('accepts a correct checksum', async () => {
    const body = '{"Attributes":{"a":{"S":"ü"}}}'
    server.play(socket => socket.write(httpText(body, {headers: [`x-amz-crc32: ${crc32(body)}`]})))
    expect(await lean().send('UpdateItem', update)).toEqual({Attributes: {a: {S: 'ü'}}})
  })
})

describe('time', () => {
  const trickle = (socket: Socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n')
    const body = [...'{          }']
    const drip = setInterval(() => socket.write(body.shift() ?? ''), 200)
    socket.on('close', () => clearInterval(drip))
  }

  test('allow a response that keeps arriving more time than one that stalls', async () => {
    server.play(trickle)
    expect(await lean({requestTimeoutMs: 2_000}).send('UpdateItem', update)).toEqual({})
  })

  test('end it at its deadline', async () => {
    server.play(trickle)
    const error = await failureOf(lean().send('UpdateItem', update, {timeoutMs: 1_000}))
    expect(error).toBeInstanceOf(Unavailable)
    expect(error).toMatchObject({maybeApplied: true})
  })

  test.each([NaN, Infinity, 2 ** 31])('reject a timeout of %d ms', async timeoutMs => {
    server.play(succeed)
    const transport = lean()
    await expect(transport.send('GetItem', update, {timeoutMs})).rejects.toMatchObject({code: 'timeout.invalid'})
    expect(() => lean({requestTimeoutMs: timeoutMs})).toThrow(expect.objectContaining({code: 'timeout.invalid'}))
    expect(() => lean({connectTimeoutMs: timeoutMs})).toThrow(expect.objectContaining({code: 'timeout.invalid'}))
  })

  test('send nothing after the deadline', async () => {
    server.play(succeed)
    const transport = lean()
    await transport.send('UpdateItem', update)
    const error = await failureOf(transport.send('UpdateItem', update, {timeoutMs: 0}))
    expect(error).toBeInstanceOf(Unavailable)
    expect(error).toMatchObject({maybeApplied: false})
    await transport.send('UpdateItem', update)
    expect(server).toMatchObject({connections: 1, requests: {length: 2}})
  })

  test('do not take a late response for that of the next request', async () => {
    const late: Socket[] = []
    server.play(socket => void late.push(socket))
    const transport = lean()
    const given = new AbortController()
    const first = failureOf(transport.send('UpdateItem', update, {signal: given.signal}))
    await expect.poll(() => late.length).toBe(1)
    given.abort()
    expect(await first).toBeInstanceOf(Aborted)
    server.onRequest = socket => socket.write(httpText('{"Attributes":{}}'))
    for (const socket of late) socket.write(httpText('{"wrong":1}'))
    await server.untilOpen(0)
    expect(await transport.send('UpdateItem', update)).toEqual({Attributes: {}})
  })

  test('keep no request on a signal that outlives many requests', async () => {
    server.play(succeed)
    const {signal} = new AbortController()
    const transport = lean()
    for (let n = 0; n < 3; n++) await transport.send('UpdateItem', update, {signal})
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('add one listener for a thousand concurrent requests of one signal', async () => {
    const warnings: Error[] = []
    const note = (warning: Error) => warnings.push(warning)
    process.on('warning', note)
    server.play(() => {})
    const source = new AbortController()
    const transport = lean({connectTimeoutMs: 60_000})
    const sent = Array.from({length: 1000}, () =>
      failureOf(transport.send('GetItem', update, {signal: source.signal, timeoutMs: 60_000})),
    )
    await expect.poll(() => server.requests.length).toBe(128)
    expect(getEventListeners(source.signal, 'abort')).toHaveLength(1)
    source.abort()
    for (const error of await Promise.all(sent)) expect(error).toBeInstanceOf(Aborted)
    expect(warnings).toEqual([])
    process.off('warning', note)
  })

  test("signs requests with the server's time once it is known", async () => {
    const serverMs = Date.UTC(2031, 4, 6, 7, 8, 9)
    const date = `date: ${new Date(serverMs).toUTCString()}`
    const skewed = JSON.stringify({__type: 'x#InvalidSignatureException', message: 'Signature expired: 2 is earlier'})
    server.play(socket => socket.write(httpText(skewed, {status: '400 Bad', headers: [date]})))
    const transport = lean({clock: () => Date.UTC(2026, 0, 1, 12)})
    const error = await failureOf(transport.send('UpdateItem', update))
    expect(error).toBeInstanceOf(Denied)
    server.onRequest = succeed
    await transport.send('UpdateItem', update)
    expect(server.requests.map(request => headerOf(request, 'x-amz-date'))).toEqual([
      '20260101T120000Z',
      '20310506T070809Z',
    ])
  })
})

describe('a credentials provider that never responds', () => {
  const hanging = () => new Promise<Access>(() => {})

  test('delays a request no longer than its deadline or its signal', async () => {
    const transport = lean({access: hanging})
    const late = await failureOf(transport.send('UpdateItem', update, {timeoutMs: 20}))
    expect(late).toBeInstanceOf(Unavailable)
    expect(late).toMatchObject({maybeApplied: false})
    const given = new AbortController()
    const stopped = failureOf(transport.send('UpdateItem', update, {signal: given.signal}))
    given.abort()
    expect(await stopped).toBeInstanceOf(Aborted)
  })

  test('does not delay close(), which fails the requests that wait for it', async () => {
    const transport = lean({access: hanging})
    const waiting = failureOf(transport.send('UpdateItem', update))
    await transport.close()
    const error = await waiting
    expect(error).toBeInstanceOf(Unavailable)
    expect(error).toMatchObject({maybeApplied: false})
  })

  test('is asked again after close(), and its late first response is ignored', async () => {
    server.play(succeed)
    const answers: ((found: Access) => void)[] = []
    const transport = lean({access: () => new Promise<Access>(resolve => void answers.push(resolve))})
    const first = failureOf(transport.send('UpdateItem', update))
    await transport.close()
    await first
    const second = transport.send('UpdateItem', update)
    answers[1]?.(access({...KEYS, accessKeyId: 'SECOND'}))
    await second
    answers[0]?.(access({...KEYS, accessKeyId: 'FIRST'}))
    await transport.send('UpdateItem', update)
    expect(server.requests.map(request => /Credential=([^/]+)/.exec(request)?.[1])).toEqual(['SECOND', 'SECOND'])
  })
})

describe('credentials', () => {
  const signedBy = (request: string | undefined) => /Credential=([^/]+)/.exec(request ?? '')?.[1]

  test('are renewed before they expire, once for all waiting requests, and the connections stay', async () => {
    let nowMs = Date.UTC(2026, 0, 1)
    let round = 0
    const renew = vi.fn(async () => {
      round++
      const expiration = new Date(nowMs + 3_600_000)
      return access({accessKeyId: `KEY${round}`, secretAccessKey: 's', sessionToken: `token${round}`, expiration})
    })
    server.play(succeed)
    const transport = lean({access: renew, clock: () => nowMs})
    await Promise.all([transport.send('UpdateItem', update), transport.send('UpdateItem', update)])
    nowMs += 3_200_000
    await transport.send('UpdateItem', update)
    expect(renew).toHaveBeenCalledTimes(1)
    nowMs += 150_000
    const open = server.connections
    await Promise.all([transport.send('UpdateItem', update), transport.send('UpdateItem', update)])
    expect(renew).toHaveBeenCalledTimes(2)
    expect(server.requests.map(signedBy)).toEqual(['KEY1', 'KEY1', 'KEY1', 'KEY2', 'KEY2'])
    expect(headerOf(server.requests.at(-1), 'x-amz-security-token')).toBe('token2')
    expect(server.connections).toBe(open)
  })

  test('are used until they expire if they cannot be renewed', async () => {
    let nowMs = Date.UTC(2026, 0, 1)
    const expiration = new Date(nowMs + 600_000)
    const failing = Object.assign(new Error('no answer from the metadata service'), {name: 'CredentialsProviderError'})
    const renew = vi
      .fn()
      .mockRejectedValue(failing)
      .mockResolvedValueOnce(access({...KEYS, expiration}))
    server.play(succeed)
    const transport = lean({access: renew, clock: () => nowMs})
    await transport.send('UpdateItem', update)
    nowMs += 400_000
    await transport.send('UpdateItem', update)
    await transport.send('UpdateItem', update)
    expect(renew).toHaveBeenCalledTimes(2)
    nowMs += 200_000
    const error = await failureOf(transport.send('UpdateItem', update))
    expect(error).toBeInstanceOf(Denied)
    expect(server.requests).toHaveLength(3)
  })

  test('are requested again if missing', async () => {
    const missing = Object.assign(new Error('none'), {name: 'CredentialsProviderError'})
    const found = vi.fn().mockResolvedValue(access()).mockRejectedValueOnce(missing)
    server.play(succeed)
    const transport = lean({access: found})
    expect(await failureOf(transport.send('UpdateItem', update))).toBeInstanceOf(Denied)
    expect(await transport.send('UpdateItem', update)).toEqual({})
  })

  test('apply the endpoint they come with', async () => {
    let nowMs = Date.UTC(2026, 0, 1)
    const other = new RawServer()
    await other.start()
    other.play(succeed)
    server.play(succeed)
    const expiration = new Date(nowMs + 1)
    const places = [access({...KEYS, expiration}), {...access(), endpoint: new URL(other.endpoint)}]
    const transport = lean({access: () => places.shift() as Access, clock: () => nowMs})
    await transport.send('UpdateItem', update)
    nowMs += 2_000
    await transport.send('UpdateItem', update)
    expect(other.requests).toHaveLength(1)
    await server.untilOpen(0)
    await transport.close()
    await other.stop()
  })
})

test('sends bytes as base64 under every name, and reads them back', async () => {
  const {bytes, buffer, set} = {
    bytes: {B: new Uint8Array([0, 255, 7])},
    buffer: {B: Buffer.from('hello world').subarray(6)},
    set: {BS: [new Uint8Array([1]), new Uint8Array([])]},
  }
  const Item = {B: bytes, BS: set, buffer, text: {S: '"B":{"B":"'}, map: {M: {B: {L: [bytes]}, BS: {S: 'B'}}}}
  let sent = ''
  server.play((socket, request) => {
    sent = request.slice(request.indexOf('\r\n\r\n') + 4)
    socket.write(httpText(JSON.stringify({Attributes: JSON.parse(sent).Item})))
  })
  const answer = await lean().send('PutItem', {TableName: 't', Item})
  expect(JSON.parse(sent).Item).toEqual({
    B: {B: 'AP8H'},
    BS: {BS: ['AQ==', '']},
    buffer: {B: 'd29ybGQ='},
    text: {S: '"B":{"B":"'},
    map: {M: {B: {L: [{B: 'AP8H'}]}, BS: {S: 'B'}}},
  })
  expect(answer.Attributes).toEqual({...Item, buffer: {B: new Uint8Array(Buffer.from('world'))}})
})
