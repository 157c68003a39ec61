import {expect, it} from 'vitest'
import {estimateCall, readModelCall} from '../../src/lib/adapters/model-call.js'
import {EventStreamReader, observedStream} from '../../src/lib/adapters/observed-stream.js'

const estimateOf = async (body: object) =>
  estimateCall(await readModelCall('http://127.0.0.1/', {method: 'POST', body: JSON.stringify(body)}))

it.each([
  ['messages', {messages: [{role: 'user', content: 'x'.repeat(8)}]}, {input: 2, output: 0}],
  [
    'parts',
    {system: 'xxxx', messages: [{role: 'user', content: [{type: 'text', text: 'xxxxx'}]}]},
    {input: 3, output: 0},
  ],
  ['input and instructions', {input: 'xxxx', instructions: 'xxxx', max_output_tokens: 9}, {input: 2, output: 9}],
  ['several answers', {prompt: ['xxxx', 'xxxx'], max_tokens: 9, n: 3}, {input: 2, output: 27}],
  ['the newer of two maxima', {max_tokens: 9, max_completion_tokens: 8}, {input: 0, output: 8}],
  ['invalid numbers as nothing', {max_tokens: '9', n: -1}, {input: 0, output: 0}],
  [
    'an image as an image, whatever its bytes',
    {messages: [{role: 'user', content: [{type: 'image', source: {type: 'base64', data: 'A'.repeat(1e6)}}]}]},
    {input: 1600, output: 0},
  ],
])('estimates %s', async (_, body, expected) => {
  expect(await estimateOf(body)).toEqual(expected)
})

it('reads a body of bytes, but not a form', async () => {
  const bytes = new TextEncoder().encode('{"model": "gpt-4"}')
  expect(await readModelCall(new URL('http://127.0.0.1/'), {method: 'POST', body: bytes})).toMatchObject({
    model: 'gpt-4',
  })
  const form = await readModelCall('http://127.0.0.1/', {method: 'POST', body: new FormData()})
  expect(form).toMatchObject({model: undefined, body: {}})
})

it('does not consume an upload', async () => {
  const upload = new Request('http://127.0.0.1/', {
    method: 'POST',
    body: '{"model": "gpt-4"}',
    headers: {'content-type': 'application/octet-stream'},
  })
  expect(await readModelCall(upload, undefined)).toMatchObject({model: undefined, url: 'http://127.0.0.1/'})
})

it('finds events wherever the bytes are split', () => {
  const bytes = new TextEncoder().encode(': hi\nevent: a\r\ndata: {"text": "zähl"}\r\n\ndata:[DONE]')
  for (let cut = 0; cut <= bytes.length; cut++) {
    const seen: string[] = []
    const reader = new EventStreamReader(data => seen.push(data))
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
      const reader = new EventStreamReader(data => seen.push(data))
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
