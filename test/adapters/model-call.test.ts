import {expect, it} from 'vitest'
import {EventStreamReader} from '../../src/lib/adapters/model-answer.js'
import {estimateCall, readModelCall, withModel} from '../../src/lib/adapters/model-call.js'
import {observedStream} from '../../src/lib/limiter/observed-stream.js'

const estimateOf = async (body: object) =>
  estimateCall((await readModelCall('http://127.0.0.1/', {method: 'POST', body: JSON.stringify(body)})).call)

it.each([
  ['messages', {messages: [{role: 'user', content: 'x'.repeat(8)}]}, {input: 2, output: 0}],
  [
    'parts',
    {system: 'xxxx', messages: [{role: 'user', content: [{type: 'text', text: 'xxxxx'}]}]},
    {input: 3, output: 0},
  ],
  ['input and instructions', {input: 'xxxx', instructions: 'xxxx', max_output_tokens: 9}, {input: 2, output: 9}],
  ['several answers', {prompt: ['xxxx', 'xxxx'], max_tokens: 9, n: 3}, {input: 2, output: 27, answers: 3}],
  ['the larger of two maxima', {max_tokens: 9, max_completion_tokens: 8}, {input: 0, output: 9}],
  ['several answers without a maximum', {prompt: 'xxxx', n: 3}, {input: 1, output: 0, answers: 3}],
  [
    'the candidates of which one is sent',
    {prompt: 'xxxx', max_tokens: 9, best_of: 3},
    {input: 1, output: 27, answers: 3},
  ],
  ['a maximum as text', {max_tokens: '9'}, {input: 1, output: 9}],
  ['invalid numbers as nothing', {max_tokens: -9, n: -1}, {input: 0, output: 0}],
  ['tokens', {input: [[1, 2], [3]], dimensions: 256}, {input: 3, output: 0}],
  ['functions and schemas', {functions: [{description: 'xxxx'}], response_format: {x: 'xxxx'}}, {input: 2, output: 0}],
  ['contents to embed', {content: {parts: [{text: 'xxxx'}]}}, {input: 1, output: 0}],
  ['Titan', {inputText: 'xxxx', textGenerationConfig: {maxTokenCount: 9}}, {input: 1, output: 9}],
  ['Gemini', {generationConfig: {maxOutputTokens: 9, candidateCount: 2}}, {input: 0, output: 18, answers: 2}],
  [
    'an image as an image, whatever its bytes',
    {messages: [{role: 'user', content: [{type: 'image', source: {type: 'base64', data: 'A'.repeat(1e6)}}]}]},
    {input: 1600, output: 0},
  ],
])('estimates %s', async (_, body, expected) => {
  expect(await estimateOf(body)).toEqual(expected)
})

it.each([
  ['/v1/chat/completions', {num_predict: 1, max_output_tokens: 1, options: {max_tokens: 1}}, 0],
  ['/v1/chat/completions', {max_completion_tokens: 9}, 9],
  ['/v1/responses', {max_tokens: 1, max_output_tokens: 9}, 9],
  ['/v1/responses/', {max_tokens: 1}, 0],
  ['/v1/messages', {max_tokens: 9, maxTokens: 10}, 9],
  ['/api/chat', {options: {num_predict: 9}}, 9],
])('reads only maxima that %s knows, in %j', async (path, body, output) => {
  const {call} = await readModelCall(`http://127.0.0.1${path}`, {method: 'POST', body: JSON.stringify(body)})
  expect(estimateCall(call).output).toBe(output)
})

const CALL = JSON.stringify({model: 'gpt-4', n: 1})
const BYTES = new TextEncoder().encode(CALL)

const form = (): FormData => {
  const fields = new FormData()
  fields.set('model', 'gpt-4')
  fields.set('file', new Blob(['x']), 'speech.mp3')
  return fields
}

const bytesIn = (...chunks: Uint8Array[]): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start: controller => {
      for (const chunk of chunks) controller.enqueue(chunk)
      controller.close()
    },
  })

it.each([
  ['text', () => CALL],
  ['bytes', () => BYTES],
  ['a buffer', () => BYTES.buffer],
  ['a Blob', () => new Blob([CALL])],
  ['a form', form],
  ['parameters', () => new URLSearchParams({model: 'gpt-4'})],
  ['a stream', () => bytesIn(BYTES.subarray(0, 5), BYTES.subarray(5))],
])('reads the model in %s, which is then sent unchanged', async (_, body) => {
  const init = {method: 'POST', body: body(), duplex: 'half'} as RequestInit
  const read = await readModelCall(new URL('http://127.0.0.1/'), init)
  expect(read.call).toMatchObject({model: 'gpt-4', method: 'POST'})
  const wanted = new Response(body() as never)
  const sent = new Response(read.init?.body as never)
  if (body === form) expect([...(await sent.formData()).keys()]).toEqual(['model', 'file'])
  else expect(await sent.text()).toBe(await wanted.text())
})

it.each(['application/json', 'application/octet-stream', 'text/x-unknown'])(
  'reads a Request without consuming it, whatever type its sender states: %s',
  async type => {
    const request = new Request('http://127.0.0.1/', {method: 'POST', body: CALL, headers: {'content-type': type}})
    const {call, input} = await readModelCall(request, undefined)
    expect(call).toMatchObject({model: 'gpt-4', url: 'http://127.0.0.1/'})
    expect(await (input as Request).text()).toBe(CALL)
  },
)

it('reads a form of a Request without consuming it', async () => {
  const request = new Request('http://127.0.0.1/', {method: 'POST', body: form()})
  expect((await readModelCall(request, undefined)).call.model).toBe('gpt-4')
  expect((await request.formData()).get('model')).toBe('gpt-4')
})

it.each([
  ['bytes', (bytes: Uint8Array<ArrayBuffer>) => bytes],
  ['a Blob', (bytes: Uint8Array<ArrayBuffer>) => new Blob([bytes])],
  ['a stream', (bytes: Uint8Array<ArrayBuffer>) => bytesIn(bytes)],
])('reads the model in a form that is %s', async (_, bodyOf) => {
  const whole = new Response(form())
  const headers = {'content-type': whole.headers.get('content-type') as string}
  const bytes = new Uint8Array(await whole.arrayBuffer())
  const init = {method: 'POST', headers, body: bodyOf(bytes), duplex: 'half'} as RequestInit
  const read = await readModelCall('http://127.0.0.1/', init)
  expect(read.call.model).toBe('gpt-4')
  expect(new Uint8Array(await new Response(read.init?.body as never).arrayBuffer())).toEqual(bytes)
})

it('reads at most 16 MiB of a stream, and sends all of it', async () => {
  const chunk = new Uint8Array(2 ** 20).fill(32)
  const body = bytesIn(...Array.from({length: 20}, () => chunk))
  const read = await readModelCall('http://127.0.0.1/', {method: 'POST', body, duplex: 'half'} as RequestInit)
  expect(read.call.model).toBeUndefined()
  expect((await new Response(read.init?.body as never).arrayBuffer()).byteLength).toBe(20 * 2 ** 20)
})

it.each([
  ['https://g.example/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse', 'gemini-2.0-flash'],
  [
    'https://v.example/v1/publishers/anthropic/models/claude-3-5-sonnet@20240620:rawPredict',
    'claude-3-5-sonnet@20240620',
  ],
  ['https://b.example/model/anthropic.claude-3-haiku%3A0/converse-stream', 'anthropic.claude-3-haiku:0'],
  ['https://a.example/openai/deployments/my-gpt/chat/completions?api-version=1', 'my-gpt'],
  ['https://a.example/OpenAI/Deployments/My-GPT/chat/completions', 'My-GPT'],
  ['https://a.example/v1/batches', undefined],
  ['https://g.example/v1beta/models/gemini-2.0-flash:batchGenerateContent', undefined],
  ['https://g.example/v1beta/models/../models/gemini-2.0-flash:generateContent', 'gemini-2.0-flash'],
  ['https://a.example/model/%E0%A4%A/invoke', '%E0%A4%A'],
])('finds the model in the path: %s', async (url, model) => {
  expect((await readModelCall(url, {method: 'POST', body: '{}'})).call.model).toBe(model)
})

it.each([
  'https://g.example/v1beta/models/dear:generateContent',
  'https://b.example/model/dear/invoke',
  'https://a.example/openai/deployments/dear/chat/completions',
])('prefers the model in the path to that of the body, as the provider does: %s', async url => {
  const read = await readModelCall(url, {method: 'POST', body: '{"model": "cheap"}'})
  expect(read.call.model).toBe('dear')
  const {call, input, init} = withModel(read, 'next one')
  expect(call).toMatchObject({model: 'next one', url: url.replace('dear', 'next%20one')})
  expect([String(input), init?.body]).toEqual([call.url, '{"model":"next one"}'])
})

it('replaces the model in the path of a Request', async () => {
  const request = new Request('http://127.0.0.1/model/dear/invoke?a=1', {method: 'POST', body: '{"messages": []}'})
  const {input, init} = withModel(await readModelCall(request, undefined), 'cheap')
  const sent = new Request(input, init)
  expect([sent.url, await sent.text()]).toEqual(['http://127.0.0.1/model/cheap/invoke?a=1', '{"messages":[]}'])
})

it('counts the files of a form', async () => {
  const {call} = await readModelCall('http://127.0.0.1/', {method: 'POST', body: form()})
  expect(estimateCall(call)).toEqual({input: 1600, output: 0})
})

it('finds events wherever the bytes are split', () => {
  const bytes = new TextEncoder().encode(': hi\nevent: a\r\ndata: {"text": "zähl"}\r\n\ndata:[DONE]')
  for (let cut = 0; cut <= bytes.length; cut++) {
    const seen: string[] = []
    const reader = new EventStreamReader(data => data && seen.push(data))
    reader.read(bytes.subarray(0, cut))
    reader.read(bytes.subarray(cut))
    reader.end()
    expect(seen).toEqual(['{"text": "zähl"}', '[DONE]'])
  }
})

it.each(['\n', '\r\n', '\r'])(
  'joins the data lines of an event that end with %j, wherever the bytes are split',
  end => {
    const lines = [
      'data: {"usage":',
      'event: a',
      'data: {"total": 7}}',
      '',
      'data: 1',
      '',
      '',
      'data: {"a":',
      'data: 2}',
    ]
    const bytes = new TextEncoder().encode(lines.join(end))
    for (let cut = 0; cut <= bytes.length; cut++) {
      const seen: string[] = []
      const reader = new EventStreamReader(data => data && seen.push(data))
      reader.read(bytes.subarray(0, cut))
      reader.read(bytes.subarray(cut))
      reader.end()
      expect(seen.map(data => JSON.parse(data))).toEqual([{usage: {total: 7}}, 1, {a: 2}])
    }
  },
)

it('reads no more of a stream than requested', async () => {
  let pulled = 0
  const source = new ReadableStream<number>(
    {
      pull: controller => controller.enqueue(++pulled),
    },
    {highWaterMark: 0},
  )
  const ends: boolean[] = []
  const observed = observedStream(source, {chunk: () => {}, end: async isBroken => void ends.push(isBroken)})
  const reader = observed.getReader()
  expect(pulled).toBe(0)
  for (let at = 1; at <= 3; at++) expect(await reader.read()).toEqual({done: false, value: at})
  expect(pulled).toBe(3)
  await reader.cancel()
  expect(ends).toEqual([true])
})

it.each(['fails', 'ends'] as const)('ends a stream that %s only after its observer is done', async how => {
  const order: string[] = []
  const source = new ReadableStream({
    pull: controller => (how === 'fails' ? controller.error(new Error('broken')) : controller.close()),
  })
  const observed = observedStream(source, {
    chunk: () => {},
    end: async isBroken => {
      await new Promise(resolve => setImmediate(resolve))
      order.push(isBroken ? 'observed a failure' : 'observed the end')
    },
  })
  await observed
    .getReader()
    .read()
    .catch(() => {})
  order.push('read')
  expect(order).toEqual([how === 'fails' ? 'observed a failure' : 'observed the end', 'read'])
})
