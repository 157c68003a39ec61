import {expect, it} from 'vitest'
import {AwsEventReader, EventStreamReader, tallyAnswer, tallyEvent} from '../../src/lib/adapters/model-answer.js'
import {type ModelUsage, readUsage, tokensOfTexts, UsageTally} from '../../src/lib/adapters/model-usage.js'

const USAGE = {input: 100, cachedInput: 1000, cacheWrite: 0, output: 50}

/** Reports of one call: 100 tokens of new input, 1,000 from a cache, 50 of output. */
it.each<[string, object, Partial<ModelUsage>]>([
  [
    'OpenAI chat completions',
    {
      prompt_tokens: 1100,
      completion_tokens: 50,
      total_tokens: 1150,
      prompt_tokens_details: {cached_tokens: 1000, audio_tokens: 0},
      completion_tokens_details: {reasoning_tokens: 20},
    },
    {},
  ],
  [
    'OpenAI responses',
    {
      input_tokens: 1100,
      input_tokens_details: {cached_tokens: 1000},
      output_tokens: 50,
      output_tokens_details: {reasoning_tokens: 0},
      total_tokens: 1150,
    },
    {},
  ],
  ['OpenAI embeddings', {prompt_tokens: 8, total_tokens: 8}, {input: 8, cachedInput: 0, output: 0}],
  [
    'Anthropic messages',
    {input_tokens: 100, cache_creation_input_tokens: 30, cache_read_input_tokens: 1000, output_tokens: 50},
    {cacheWrite: 30},
  ],
  [
    'Gemini, with reasoning',
    {
      promptTokenCount: 1100,
      candidatesTokenCount: 40,
      thoughtsTokenCount: 10,
      cachedContentTokenCount: 1000,
      totalTokenCount: 1150,
    },
    {},
  ],
  [
    'Bedrock converse',
    {inputTokens: 100, outputTokens: 50, totalTokens: 1180, cacheReadInputTokens: 1000, cacheWriteInputTokens: 30},
    {cacheWrite: 30},
  ],
  [
    'OpenRouter',
    {prompt_tokens: 1100, completion_tokens: 50, prompt_tokens_details: {cached_tokens: 1000}, cost: 0.95},
    {cost: 0.95},
  ],
  [
    'a proxy that adds fields of Anthropic to those of OpenAI',
    {
      prompt_tokens: 1100,
      completion_tokens: 50,
      prompt_tokens_details: {cached_tokens: 1000},
      cache_read_input_tokens: 1000,
      cache_creation_input_tokens: 0,
    },
    {},
  ],
  ['the AI SDK 5', {inputTokens: 1100, outputTokens: 50, cachedInputTokens: 1000}, {}],
  [
    'the AI SDK 6',
    {inputTokens: {total: 1130, noCache: 100, cacheRead: 1000, cacheWrite: 30}, outputTokens: {total: 50, text: 50}},
    {cacheWrite: 30},
  ],
  [
    'xAI, with reasoning only in the total',
    {
      prompt_tokens: 1100,
      completion_tokens: 20,
      total_tokens: 1150,
      prompt_tokens_details: {cached_tokens: 1000},
      completion_tokens_details: {reasoning_tokens: 30},
    },
    {},
  ],
  ['Voyage embeddings', {total_tokens: 100}, {cachedInput: 0, output: 0}],
  ['Cohere', {billed_units: {input_tokens: 90}, tokens: {input_tokens: 100, output_tokens: 50}}, {cachedInput: 0}],
  ['Llama on Bedrock', {generation: 'x', prompt_token_count: 100, generation_token_count: 50}, {cachedInput: 0}],
  ['Titan on Bedrock', {inputTextTokenCount: 100, results: [{tokenCount: 50}]}, {cachedInput: 0}],
  ['metrics of Bedrock', {inputTokenCount: 100, outputTokenCount: 50, cacheReadInputTokenCount: 1000}, {}],
  [
    'a server that writes text for numbers',
    {prompt_tokens: '1100', completion_tokens: '50', prompt_tokens_details: {cached_tokens: '1000'}},
    {},
  ],
  ['Ollama', {prompt_eval_count: 100, eval_count: 50, done: true}, {cachedInput: 0}],
  ['a server that pads numbers', {prompt_tokens: '1100.0', completion_tokens: ' 50'}, {input: 1100, cachedInput: 0}],
  [
    'Anthropic, whose own count lacks the compaction',
    {
      ...{input_tokens: 40, output_tokens: 20, cache_read_input_tokens: 1000},
      iterations: [
        {type: 'compaction', input_tokens: 60, output_tokens: 30},
        {type: 'message', input_tokens: 40, output_tokens: 20, cache_read_input_tokens: 1000},
      ],
    },
    {},
  ],
  [
    'OpenAI, whose own count lacks an image that the model draws',
    {
      ...{input_tokens: 90, output_tokens: 20},
      tool_usage: {image_gen: {input_tokens: 10, output_tokens: 30}, web_search: {num_requests: 2}},
      service_tier: 'priority',
    },
    {cachedInput: 0, mediaInput: 10, mediaOutput: 30, searches: 2, tier: 'priority'},
  ],
  [
    'web searches of Anthropic',
    {input_tokens: 100, output_tokens: 50, server_tool_use: {web_search_requests: 2}},
    {cachedInput: 0, searches: 2},
  ],
])('reads the usage of %s', (_, report, differing) => {
  expect(readUsage(report as Record<string, unknown>)).toEqual({...USAGE, ...differing})
})

it.each<[string, object, Partial<ModelUsage>]>([
  [
    'sound of OpenAI',
    {
      ...{prompt_tokens: 100, completion_tokens: 50},
      prompt_tokens_details: {audio_tokens: 80},
      completion_tokens_details: {audio_tokens: 40},
    },
    {mediaInput: 80, mediaOutput: 40},
  ],
  [
    'images of OpenAI',
    {input_tokens: 100, output_tokens: 50, input_tokens_details: {image_tokens: 80, text_tokens: 20}},
    {mediaInput: 80},
  ],
  [
    'images of Gemini',
    {
      ...{promptTokenCount: 100, candidatesTokenCount: 50},
      promptTokensDetails: [{modality: 'TEXT', tokenCount: 100}],
      candidatesTokensDetails: [{modality: 'IMAGE', tokenCount: '50'}],
    },
    {mediaOutput: 50},
  ],
  [
    'caches of Anthropic',
    {
      ...{input_tokens: 100, output_tokens: 50, cache_creation_input_tokens: 30},
      cache_creation: {ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20},
    },
    {cacheWrite: 30, hourCacheWrite: 20},
  ],
])('tells %s apart, which have other prices', (_, report, parts) => {
  const usage = {input: 100, cachedInput: 0, cacheWrite: 0, output: 50}
  expect(readUsage(report as Record<string, unknown>)).toEqual({...usage, ...parts})
})

const frame = (payload: object): Uint8Array => {
  const body = Buffer.from(JSON.stringify(payload))
  const headers = Buffer.from([11, ...Buffer.from(':event-type'), 7, 0, 1, 120])
  const bytes = Buffer.alloc(16 + headers.length + body.length)
  bytes.writeUInt32BE(bytes.length, 0)
  bytes.writeUInt32BE(headers.length, 4)
  headers.copy(bytes, 12)
  body.copy(bytes, 12 + headers.length)
  return bytes
}

it('reads the binary events of Bedrock, wherever the bytes are split', () => {
  const wrapped = Buffer.from(JSON.stringify({type: 'content_block_delta', delta: {text: 'there'}})).toString('base64')
  const bytes = Buffer.concat([
    frame({contentBlockIndex: 0, delta: {text: 'Hello'}}),
    frame({bytes: wrapped}),
    frame({metrics: {latencyMs: 5}, usage: {inputTokens: 7, outputTokens: 3, totalTokens: 10}}),
  ])
  for (let cut = 0; cut <= bytes.length; cut += 7) {
    const tally = new UsageTally()
    const reader = new AwsEventReader(data => tallyEvent(tally, data))
    reader.read(bytes.subarray(0, cut))
    reader.read(bytes.subarray(cut))
    expect(tally.counted).toEqual({input: 7, cachedInput: 0, cacheWrite: 0, output: 3})
    expect(tally.received).toBe(3)
  }
})

const ESTIMATE = {input: 10, output: 100}

const tallied = (...events: object[]): UsageTally => {
  const tally = new UsageTally()
  for (const event of events) tallyEvent(tally, JSON.stringify(event))
  return tally
}

it('counts at least a token for each part, and for each character beyond ASCII', () => {
  const empty = {choices: [{index: 0, delta: {content: ''}}]}
  expect(tallied(...Array.from({length: 200}, () => empty)).received).toBe(200)
  expect(tallied({choices: [{index: 0, delta: {content: '字'.repeat(2000)}}]}).received).toBe(2000)
  const tally = new UsageTally(text => text.length * 3)
  tallyEvent(tally, JSON.stringify({choices: [{delta: {content: 'abc'}}]}))
  expect(tally.received).toBe(9)
})

it('does not take the usage so far for the final one when a stream breaks', () => {
  const part = {
    choices: [{delta: {content: 'a'}, finish_reason: null}],
    usage: {prompt_tokens: 5, completion_tokens: 1},
  }
  const broken = tallied(part)
  expect(broken.counted).toBeUndefined()
  expect(broken.used(ESTIMATE, 100)).toMatchObject({input: 5, output: 100})
  const whole = tallied(part)
  tallyEvent(whole, '[DONE]')
  expect(whole.used(ESTIMATE, 100)).toMatchObject({input: 5, output: 1})
})

it('keeps the input of Anthropic when a later report has none', () => {
  const tally = tallied(
    {type: 'message_start', message: {usage: {input_tokens: 11, cache_read_input_tokens: 500, output_tokens: 1}}},
    {type: 'message_delta', delta: {stop_reason: 'end_turn'}, usage: {input_tokens: null, output_tokens: 7}},
  )
  expect(tally.counted).toEqual({input: 11, cachedInput: 500, cacheWrite: 0, output: 7})
})

it('reads a stream of Gemini, as events and as an array', () => {
  const parts = [
    {candidates: [{content: {parts: [{text: 'a'}]}}], usageMetadata: {promptTokenCount: 4, totalTokenCount: 4}},
    {
      candidates: [{content: {parts: [{text: 'b'}]}, finishReason: 'STOP'}],
      usageMetadata: {promptTokenCount: 4, candidatesTokenCount: 2, totalTokenCount: 6},
    },
  ]
  const usage = {input: 4, cachedInput: 0, cacheWrite: 0, output: 2}
  expect(tallied(...parts).counted).toEqual(usage)
  const tally = new UsageTally()
  tallyAnswer(tally, JSON.stringify(parts))
  expect(tally.counted).toEqual(usage)
})

it.each(['', 'null', '[]', '7', '{', '{"usage": 7}', '{"choices": 7}', '{"usage": {"prompt_tokens": -1}}'])(
  'charges the estimate for a response that is not one of a model: %s',
  text => {
    const tally = new UsageTally()
    tallyAnswer(tally, text)
    tallyEvent(tally, text)
    expect(tally.used(ESTIMATE, 100)).toEqual({input: 10, cachedInput: 0, cacheWrite: 0, output: 100})
  },
)

const REPORT = {prompt_tokens: 5, completion_tokens: 300, total_tokens: 305}
const PART = {choices: [{delta: {content: 'a'}}]}
const LAST = {choices: [{delta: {}, finish_reason: 'stop'}]}

it.each<[string, object[]]>([
  ['Groq', [PART, {...LAST, x_groq: {usage: REPORT}}]],
  ['Moonshot', [PART, {choices: [{...LAST.choices[0], usage: REPORT}]}]],
  [
    'Cohere',
    [
      {type: 'content-delta', delta: {message: {content: {text: 'a'}}}},
      {type: 'message-end', delta: {usage: {tokens: {input_tokens: 5, output_tokens: 300}}}},
    ],
  ],
  [
    'Llama on Bedrock',
    [
      {generation: 'a', prompt_token_count: 5, generation_token_count: 1},
      {
        generation: '',
        stop_reason: 'stop',
        'amazon-bedrock-invocationMetrics': {inputTokenCount: 5, outputTokenCount: 300},
      },
    ],
  ],
])('finds the usage in a stream of %s', (_, events) => {
  expect(tallied(...events).counted).toEqual({input: 5, cachedInput: 0, cacheWrite: 0, output: 300})
})

it('does not count a report that text follows', () => {
  const text = {choices: [{delta: {content: 'x'.repeat(4000)}}]}
  expect(tallied({choices: [], usage: {prompt_tokens: 5, completion_tokens: 3}}, text).received).toBe(1000)
  expect(tallied({choices: [], usage: {prompt_tokens: 5, completion_tokens: 3}}, text).counted).toBeUndefined()
})

it('does not count a report of zeros for a response with text', () => {
  const tally = new UsageTally()
  const usage = {prompt_tokens: 0, completion_tokens: 0, total_tokens: 0}
  tallyAnswer(tally, JSON.stringify({choices: [{message: {content: 'x'.repeat(400)}}], usage}))
  expect(tally.used({input: 10, output: 0}, 100)).toEqual({
    input: 10,
    cachedInput: 0,
    cacheWrite: 0,
    output: 100,
  })
})

it.each<[string, string, number]>([
  ['lines of JSON', '{"message": {"content": "a"}}\n{"done": true, "prompt_eval_count": 5, "eval_count": 300}\n', 305],
  ['events', `data: ${JSON.stringify(PART)}\r\n\r\ndata: ${JSON.stringify({...LAST, usage: REPORT})}\r\n\r\n`, 305],
  ['plain text', 'x'.repeat(1200), 310],
  ['JSON in other fields', JSON.stringify({outputs: [{text: 'x'.repeat(1200)}]}), 310],
])('counts a response that is %s, whatever its type', (_, text, tokens) => {
  const tally = new UsageTally()
  tallyAnswer(tally, text)
  const {input, output} = tally.used({input: 10, output: 0}, 100)
  expect(input + output).toBe(tokens)
})

it.each([
  ['JSON that breaks off', '{"choices": [{"message": {"content": "Hello'],
  ['a JSON array that breaks off', '[{"candidates": [{"content": {"parts": [{"text": "Hello"}]}}]},'],
  ['lines of JSON without the last', '{"message": {"content": "a"}, "done": false}\n'],
  ['events without the last', 'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'],
  ['an error', '{"error": {"message": "overloaded"}}'],
  ['an error of other servers', '{"code": "overloaded", "message": "Try again"}'],
])('assumes the maximum for a response that is %s', (_, text) => {
  const tally = new UsageTally()
  tallyAnswer(tally, text)
  expect(tally.used({input: 10, output: 0}, 4096)).toMatchObject({input: 10, output: 4096})
})

it.each([
  ['embeddings', '{"data": [{"embedding": [0.1]}]}'],
  ['a transcript', '{"text": "Hello"}'],
  ['plain text', 'Hello'],
])('does not assume the maximum for %s', (_, text) => {
  const tally = new UsageTally()
  tallyAnswer(tally, text)
  expect(tally.used({input: 10, output: 0}, 4096).output).toBeLessThan(10)
})

it('counts sound and images in bytes', () => {
  const tally = new UsageTally()
  for (let part = 0; part < 3; part++) tally.addMedia(150)
  expect(tally.received).toBe(5)
})

it('finds the usage in an error', () => {
  const tally = new UsageTally()
  tallyAnswer(tally, JSON.stringify({error: {message: 'failed', usage: REPORT}}))
  expect(tally.counted).toMatchObject({input: 5, output: 300})
})

it('does not take the usage of one of several responses for the final one', () => {
  const ended = {choices: [{index: 0, delta: {}, finish_reason: 'stop'}], usage: REPORT}
  const other = {choices: [{index: 1, delta: {}, finish_reason: 'stop'}], usage: {...REPORT, completion_tokens: 400}}
  const counted = (answers: number, ...events: object[]) => {
    const tally = new UsageTally(undefined, answers)
    for (const event of events) tallyEvent(tally, JSON.stringify(event))
    return tally.counted?.output
  }
  expect([counted(1, ended), counted(2, ended), counted(2, ended, other)]).toEqual([300, undefined, 400])
})

it('charges the whole estimate for a response that OpenAI prepares in the background', () => {
  const tally = new UsageTally()
  tallyAnswer(tally, JSON.stringify({id: 'r', status: 'queued', output: [], usage: null}))
  expect(tally.used({input: 10, output: 0}, 4096)).toMatchObject({input: 10, output: 4096})
})

it('reads values that are nested deeper than the stack', () => {
  const deep = `${'['.repeat(1e5)}"x"${']'.repeat(1e5)}`
  const tally = new UsageTally()
  tallyAnswer(tally, `{"choices": ${deep}, "usage": ${JSON.stringify(REPORT)}}`)
  expect(tally.counted?.output).toBe(300)
  expect(tokensOfTexts(JSON.parse(deep))).toBe(1)
})

it('refuses a value that contains itself', () => {
  const cycle: unknown[] = []
  cycle.push(cycle)
  expect(() => tokensOfTexts(cycle)).toThrow('contains itself')
  const shared = ['abcd']
  expect(tokensOfTexts([shared, {text: shared}])).toBe(2)
})

it.each([
  () => {
    throw new Error('<|endoftext|> is not allowed')
  },
  () => Number.NaN,
  () => -1,
])('estimates by characters if the tokenizer fails', tokenizer => {
  expect(tokensOfTexts('x'.repeat(40), tokenizer)).toBe(10)
  const tally = new UsageTally(tokenizer)
  tally.addDelta('x'.repeat(40))
  expect(tally.received).toBe(10)
})

it('counts images and files by URL or id like those in the call', () => {
  const parts = [
    {type: 'image_url', image_url: {url: 'https://example.com/a.png'}},
    {type: 'input_image', image_url: 'https://example.com/a.png'},
    {type: 'image', source: {type: 'url', url: 'https://example.com/a.png'}},
    {type: 'input_file', file_id: 'file-1'},
    {fileData: {fileUri: 'https://example.com/a.mp4'}},
  ]
  expect(tokensOfTexts(parts)).toBe(5 * 1600)
  expect(tokensOfTexts({url: 'x'.repeat(40)})).toBe(10)
})

it('reads a line and a frame of 8 MiB in many chunks', () => {
  const chunk = Buffer.alloc(2 ** 14, 'x')
  const sizes: number[] = []
  const lines = new EventStreamReader(data => sizes.push(data.length))
  lines.read(Buffer.from('data: '))
  for (let read = 0; read < 512; read++) lines.read(chunk)
  lines.read(Buffer.from('\r'))
  lines.read(Buffer.from('\n\r\n'))
  const frames = new AwsEventReader(data => sizes.push(data.length))
  const prelude = Buffer.alloc(12)
  prelude.writeUInt32BE(16 + 2 ** 23)
  frames.read(prelude)
  for (let read = 0; read < 512; read++) frames.read(chunk)
  frames.read(Buffer.alloc(4))
  expect(sizes).toEqual([2 ** 23, 2 ** 23])
  frames.read(Buffer.alloc(2 ** 14))
  frames.read(frame({delta: {text: 'a'}}))
  expect(sizes).toHaveLength(2)
})
