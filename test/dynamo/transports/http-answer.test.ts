import fc from 'fast-check'
import {describe, expect, test} from 'vitest'
import {AnswerReader, type HttpAnswer, NotHttp} from '../../../src/lib/dynamo/transports/http.js'

/** Feeds the pieces in order; the response must be complete with the last one, not before. */
function read(pieces: readonly Buffer[]): HttpAnswer | undefined {
  const reader = new AnswerReader()
  const answers = pieces.filter(piece => piece.length > 0).map(piece => reader.push(piece))
  expect(answers.slice(0, -1).filter(answer => answer !== undefined)).toEqual([])
  return answers.at(-1)
}

const TOO_LONG = 64 * 1024 * 1024 + 1
const whole = (text: string) => read([Buffer.from(text)])
const bytes = (text: string) => [...Buffer.from(text)].map(byte => Buffer.from([byte]))

/** Byte by byte; long texts in a thousand pieces, since every piece is parsed with all before it. */
function pieces(text: string): Buffer[] {
  const all = Buffer.from(text)
  const size = Math.ceil(all.length / 1000)
  return Array.from({length: Math.ceil(all.length / size)}, (_, at) => all.subarray(at * size, (at + 1) * size))
}

function chunked(body: Buffer, sizes: readonly number[], extension = ''): Buffer {
  const parts: Buffer[] = []
  let at = 0
  for (const size of [...sizes, body.length]) {
    const part = body.subarray(at, at + size)
    at += part.length
    if (part.length > 0) {
      parts.push(Buffer.from(`${part.length.toString(16)}${extension}\r\n`), part, Buffer.from('\r\n'))
    }
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')])
}

function cut(message: Buffer, at: readonly number[]): Buffer[] {
  const cuts = [...at.map(point => point % (message.length + 1)), 0, message.length].sort((a, b) => a - b)
  return cuts.slice(1).map((end, index) => message.subarray(cuts[index], end))
}

describe('an HTTP response', () => {
  test('is read by its length', () => {
    const answer = whole('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDATE:  now \r\n\r\n{}')
    expect(answer).toMatchObject({status: 200, isReusable: true})
    expect(answer?.body.toString()).toBe('{}')
    expect(answer?.headers.get('date')).toBe('now')
  })

  test('is the same however its bytes are split', () => {
    const arbitrary = fc.record({
      body: fc.uint8Array({maxLength: 300}),
      isChunked: fc.boolean(),
      sizes: fc.array(fc.integer({min: 1, max: 80}), {maxLength: 6}),
      cuts: fc.array(fc.nat(), {maxLength: 12}),
      status: fc.constantFrom(200, 400, 500),
    })
    fc.assert(
      fc.property(arbitrary, ({body, isChunked, sizes, cuts, status}) => {
        const length = isChunked ? 'Transfer-Encoding: chunked' : `content-length: ${body.length}`
        const head = Buffer.from(`HTTP/1.1 ${status} Some Reason\r\nx-a: 1\r\n${length}\r\n\r\n`)
        const content = isChunked ? chunked(Buffer.from(body), sizes, ';x=y') : Buffer.from(body)
        const answer = read(cut(Buffer.concat([head, content]), cuts))
        expect(answer).toMatchObject({status, isReusable: true})
        expect(answer?.body).toEqual(Buffer.from(body))
      }),
    )
  })

  test('is not complete a byte earlier', () => {
    for (const text of [
      'HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
    ]) {
      const pieces = bytes(text)
      expect(read(pieces.slice(0, -1))).toBeUndefined()
      expect(read(pieces)?.body.toString()).toBe('abc')
    }
  })

  test('follows 1xx responses', () => {
    const answer = whole('HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n')
    expect(answer).toMatchObject({status: 204, isReusable: true})
  })

  test('ends with the connection without a length, and the connection is not reused', () => {
    const reader = new AnswerReader()
    expect(reader.push(Buffer.from('HTTP/1.1 200 OK\r\n\r\n{"a":'))).toBeUndefined()
    expect(reader.push(Buffer.from('1}'))).toBeUndefined()
    const answer = reader.end()
    expect(answer?.body.toString()).toBe('{"a":1}')
    expect(answer?.isReusable).toBe(false)
  })

  test('is incomplete if the connection ends before its length', () => {
    const reader = new AnswerReader()
    reader.push(Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab'))
    expect(reader.end()).toBeUndefined()
    expect(new AnswerReader().end()).toBeUndefined()
  })

  test('may have a trailer', () => {
    const answer = whole('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: y\r\n\r\n')
    expect(answer?.body.toString()).toBe('a')
  })

  test.each([
    ['more bytes than announced', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab'],
    ['bytes behind the last chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nb'],
    ['a server that closes', 'HTTP/1.1 200 OK\r\nConnection: Close\r\ncontent-length: 1\r\n\r\na'],
    ['an old server', 'HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na'],
  ])('does not reuse the connection after %s', (_, text) => {
    expect(whole(text)).toMatchObject({isReusable: false, body: Buffer.from('a')})
  })

  test.each([
    ['another protocol', 'SSH-2.0-OpenSSH\r\n'],
    ['another version', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['no status', 'HTTP/1.1 OK\r\n\r\n'],
    ['a change of protocol', 'HTTP/1.1 101 Switching\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab'],
    ['length and chunks', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n'],
    ['a length that is no number', 'HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n'],
    ['an unknown coding', 'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n'],
    ['a folded header', 'HTTP/1.1 200 OK\r\na: b\r\n c: d\r\n\r\n'],
    ['a space before the colon', 'HTTP/1.1 200 OK\r\ncontent-length : 1\r\n\r\na'],
    ['a header without a colon', 'HTTP/1.1 200 OK\r\nnothing\r\n\r\n'],
    ['a chunk without a size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n'],
    ['a chunk longer than announced', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n'],
    ['a head without an end', `HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(20_000)}`],
    ['a line without an end', `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'1'.repeat(5000)}`],
  ])('is rejected: %s', (_, text) => {
    expect(() => whole(text)).toThrow(NotHttp)
    expect(() => read(pieces(text))).toThrow(NotHttp)
  })
})

describe('a response that is too long for DynamoDB', () => {
  const head = (line: string) => Buffer.from(`HTTP/1.1 200 OK\r\n${line}\r\n\r\n`)
  const block = Buffer.alloc(16 * 1024 * 1024, ' ')

  test('is rejected before its body arrives, if it announces its length', () => {
    expect(() => new AnswerReader().push(head(`content-length: ${TOO_LONG}`))).toThrow(NotHttp)
    expect(new AnswerReader().push(head(`content-length: ${TOO_LONG - 1}`))).toBeUndefined()
  })

  test.each([
    [
      'in chunks',
      'transfer-encoding: chunked',
      Buffer.concat([Buffer.from('1000000\r\n'), block, Buffer.from('\r\n')]),
    ],
    ['until the connection ends', 'connection: close', block],
  ])('is rejected as soon as possible, if it comes %s', (_, line, part) => {
    const reader = new AnswerReader()
    reader.push(head(line))
    for (let n = 0; n < 4; n++) expect(reader.push(part)).toBeUndefined()
    expect(() => reader.push(part)).toThrow(NotHttp)
  })
})
