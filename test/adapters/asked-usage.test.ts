import fc from 'fast-check'
import OpenAI from 'openai'
import {expect, it, vi} from 'vitest'
import {sendAsking, withoutUsage} from '../../src/lib/adapters/asked-usage.js'
import {readModelCall} from '../../src/lib/adapters/model-call.js'
import {runs} from '../helpers/runs.js'

const CHAT = {model: 'gpt-4', stream: true, messages: [{role: 'user', content: 'hi'}]}
const USAGE = '{"prompt_tokens": 3, "completion_tokens": 3005, "total_tokens": 3008}'
const STREAM = {headers: {'content-type': 'text/event-stream; charset=utf-8'}}

/** What arrives at the provider; `undefined` if the call is sent as it is. */
async function asked(input: string | Request, init?: RequestInit): Promise<Request | undefined> {
  const read = await readModelCall(input, init)
  let request: Request | undefined
  const {isAsked} = await sendAsking(read, async call => {
    request = new Request(call.input, call.init)
    return new Response('')
  })
  return isAsked ? request : undefined
}

const URL_OF_CHAT = 'http://127.0.0.1/v1/chat/completions'
const post = (body: string | Uint8Array<ArrayBuffer> | Blob, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  body,
  headers,
})

it.each([
  ['chat', URL_OF_CHAT],
  ['legacy completions', 'http://127.0.0.1/v1/completions'],
  ['a server that ignores case and slashes', 'http://127.0.0.1/V1/Chat/Completions/'],
  ['Azure', 'http://127.0.0.1/openai/deployments/gpt-4/chat/completions?api-version=2024-10-21'],
])('asks for the usage of a stream of %s, and keeps the other fields as written', async (_, url) => {
  const body = '{"model": "gpt-4", "stream": true, "seed": 12345678901234567890, "temperature": 1.0}\n'
  const request = await asked(url, post(body, {'content-length': String(body.length), 'x-a': 'b'}))
  expect(await request?.text()).toBe(
    '{"model": "gpt-4", "stream": true, "seed": 12345678901234567890, "temperature": 1.0,"stream_options":{"include_usage":true}}',
  )
  expect(Object.fromEntries(request?.headers ?? [])).toEqual({'content-type': 'application/json', 'x-a': 'b'})
})

it.each([
  ['bytes', () => new TextEncoder().encode(JSON.stringify(CHAT))],
  ['a Blob', () => new Blob([JSON.stringify(CHAT)])],
])('asks in a body that is %s', async (_, body) => {
  expect(await (await asked(URL_OF_CHAT, post(body())))?.json()).toEqual({
    ...CHAT,
    stream_options: {include_usage: true},
  })
})

it('asks in a Request, which the caller can still read', async () => {
  const request = new Request(URL_OF_CHAT, post(JSON.stringify(CHAT), {'content-type': 'application/json; a=b'}))
  const sent = await asked(request)
  expect(sent?.headers.get('content-type')).toBe('application/json; a=b')
  expect(await sent?.json()).toMatchObject({stream_options: {include_usage: true}})
  expect(await request.json()).toEqual(CHAT)
})

it.each([{include_usage: false}, {include_usage: null}, {include_usage: 'true'}, {}, null])(
  'asks despite the stream_options %j, and keeps others',
  async given => {
    const stream_options = given && {...given, include_obfuscation: false}
    const request = await asked(URL_OF_CHAT, post(JSON.stringify({...CHAT, stream_options})))
    expect(await request?.json()).toEqual({...CHAT, stream_options: {...stream_options, include_usage: true}})
  },
)

it.each<[string, string, object, Record<string, string>?]>([
  ['a client that asks itself', '/v1/chat/completions', {...CHAT, stream_options: {include_usage: true}}],
  ['JSON', '/v1/chat/completions', {...CHAT, stream: false}],
  ['responses', '/v1/responses', CHAT],
  ['messages', '/v1/messages', CHAT],
  ['a body that AWS has signed', '/openai/v1/chat/completions', CHAT, {authorization: 'AWS4-HMAC-SHA256 Credential=x'}],
])('does not ask for %s', async (_, path, body, headers) => {
  expect(await asked(`http://127.0.0.1${path}`, post(JSON.stringify(body), headers))).toBeUndefined()
})

it.each<[string, number, string, number]>([
  ['400 of Azure', 400, '{"error": {"message": "Unknown parameter: \'stream_options\'."}}', 2],
  ['422 of Mistral', 422, '{"message": {"detail": [{"loc": ["body", "stream_options", "include_usage"]}]}}', 2],
  ['another 400', 400, '{"error": {"message": "Invalid value: messages"}}', 1],
  ['a 500', 500, '{"error": {"message": "stream_options"}}', 1],
])('sends a call as it is only after a rejection of stream_options: %s', async (title, status, error, times) => {
  const sent: string[] = []
  const read = await readModelCall(`${URL_OF_CHAT}?${title}`, post(JSON.stringify({...CHAT, model: title})))
  const {response, isAsked} = await sendAsking(read, async ({init}) => {
    sent.push(String(init?.body))
    return sent.length > 1 ? new Response('', STREAM) : new Response(error, {status})
  })
  expect(sent.map(body => body.includes('stream_options'))).toEqual([true, false].slice(0, times))
  expect({status: response.status, isAsked}).toEqual({status: times > 1 ? 200 : status, isAsked: times === 1})
  expect(await response.text()).toBe(times > 1 ? '' : error)
})

it('passes an error on whose body never ends', async () => {
  const endless = new ReadableStream({start: controller => controller.enqueue(new TextEncoder().encode('{"a'))})
  const read = await readModelCall(URL_OF_CHAT, post(JSON.stringify(CHAT)))
  vi.useFakeTimers({toFake: ['setTimeout']})
  const answered = sendAsking(read, async () => new Response(endless, {status: 500}))
  await vi.advanceTimersByTimeAsync(1000)
  vi.useRealTimers()
  const {response} = await answered
  expect(response.status).toBe(500)
  const {value} = (await response.body?.getReader().read()) ?? {}
  expect(new TextDecoder().decode(value)).toBe('{"a')
})

/** Lines of an event, a character for each byte. */
const line = fc.oneof(
  fc.constant([': keep-alive']),
  fc.constant(['data: [DONE]']),
  fc.constant(['event: x', 'id: 7']),
  fc.constant(['data: {"choices": [], "prompt_filter_results": [], "usage": null}']),
  fc.constant(['data: {"choices": [], "usage": {}}']),
  fc.constant(['data: {"response": "hi", "usage": {"prompt_tokens": 1}}']),
  fc.constant(['data: {"choices": [{"index": 0, "delta": {}}], "usage": {"prompt_tokens": 1}}']),
  fc
    .string({unit: 'grapheme'})
    .map(content => ({choices: [{delta: {content: `${content} "choices": [], "usage": {"a": 1}`}}]}))
    .map(chunk => [`data:${Buffer.from(JSON.stringify(chunk)).toString('latin1')}`]),
  fc.uint8Array({maxLength: 20}).map(bytes => [
    `x${Buffer.from(bytes)
      .toString('latin1')
      .replace(/[\r\n]/g, '')}`,
  ]),
)
const kept = line.map(lines => ({lines, isUsage: false}))
const usage = fc
  .constantFrom(
    [`data: {"id": "\xc3\xa4", "choices": [], "usage": ${USAGE}}`],
    [`data:{"choices":[],"usage":${USAGE}}`],
    [`data:{"choices":null,"usage":${USAGE}}`],
    ['event: message', 'data: {"choices":', ': comment', 'data: [],', `data: "usage": ${USAGE}}`],
  )
  .map(lines => ({lines, isUsage: true}))
const event = fc.record({of: fc.oneof({weight: 3, arbitrary: kept}, usage), end: fc.constantFrom('\n', '\r\n', '\r')})

async function read(chunks: readonly Uint8Array[]): Promise<Buffer> {
  const body = new ReadableStream<Uint8Array>({
    start: controller => {
      for (const chunk of chunks) controller.enqueue(chunk)
      controller.close()
    },
  })
  return Buffer.from(await withoutUsage(new Response(body, STREAM)).arrayBuffer())
}

it('removes only events that report usage, wherever the bytes are split', async () => {
  const cuts = fc.array(fc.nat(), {maxLength: 30})
  await fc.assert(
    fc.asyncProperty(fc.array(event, {maxLength: 12}), cuts, fc.boolean(), async (events, at, isCutOff) => {
      const parts = events.map(({of, end}, index) => {
        const isWhole = !isCutOff || index < events.length - 1
        const text = of.lines.join(end) + (isWhole ? end + end : '')
        return {bytes: Buffer.from(text, 'latin1'), isUsage: of.isUsage}
      })
      const bytes = Buffer.concat(parts.map(part => part.bytes))
      const ends = [...new Set([0, bytes.length, ...at.map(cut => cut % (bytes.length + 1))])].sort((a, b) => a - b)
      const chunks = ends.slice(1).map((end, index) => bytes.subarray(ends[index], end))
      const expected = Buffer.concat(parts.filter(part => !part.isUsage).map(part => part.bytes))
      expect((await read(chunks)).toString('latin1')).toBe(expected.toString('latin1'))
    }),
    {numRuns: runs(500)},
  )
})

it('passes each event when it is complete, reads no more than requested, and cancels its source', async () => {
  const events = ['data: 1\n\n', `data: {"choices":[],"usage":${USAGE}}\n\n`, 'data: 2\r\n\r\n', 'data: 3\n\n']
  let pulled = 0
  let reason: unknown
  const source = new ReadableStream<Uint8Array>(
    {
      pull: controller => controller.enqueue(new TextEncoder().encode(events[pulled++])),
      cancel: why => {
        reason = why
      },
    },
    {highWaterMark: 0},
  )
  const response = withoutUsage(new Response(source, {headers: {...STREAM.headers, 'content-length': '99'}}))
  expect(response.headers.has('content-length')).toBe(false)
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  const next = async () => new TextDecoder().decode((await reader.read()).value)
  expect(pulled).toBe(0)
  expect([await next(), pulled]).toEqual(['data: 1\n\n', 1])
  expect([await next(), pulled]).toEqual(['data: 2\r\n\r\n', 3])
  await reader.cancel('left')
  expect([pulled, reason]).toEqual([3, 'left'])
})

it('fails like its source', async () => {
  const source = new ReadableStream<Uint8Array>({pull: controller => controller.error(new Error('broken'))})
  await expect(withoutUsage(new Response(source, STREAM)).text()).rejects.toThrow('broken')
})

it('shows the OpenAI SDK the chunks that its caller has asked for', async () => {
  const chunks = [
    {choices: [{index: 0, delta: {content: 'hi'}}], usage: null},
    {choices: [{index: 0, delta: {}, finish_reason: 'stop'}], usage: null},
    {choices: [], usage: JSON.parse(USAGE)},
  ]
  const events = [...chunks.map(chunk => JSON.stringify(chunk)), '[DONE]'].map(data => `data: ${data}\n\n`).join('')
  const send: typeof fetch = async (input, init) => {
    const {response, isAsked} = await sendAsking(await readModelCall(input as string, init), async () => {
      return new Response(events, STREAM)
    })
    return isAsked ? withoutUsage(response) : response
  }
  const client = new OpenAI({apiKey: 'none', baseURL: 'http://127.0.0.1/v1', fetch: send})
  const seen = async (options: object) => {
    const stream = await client.chat.completions.create({...CHAT, ...options, stream: true} as never)
    const all: object[] = []
    for await (const chunk of stream as unknown as AsyncIterable<object>) all.push(chunk)
    return all
  }
  expect(await seen({})).toEqual(chunks.slice(0, 2))
  expect(await seen({stream_options: {include_usage: true}})).toEqual(chunks)
})
