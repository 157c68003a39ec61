import {expect, it} from 'vitest'
import {tallyAnswer, tallyEvent} from '../../src/lib/adapters/model-answer.js'
import {type ModelUsage, readUsage, UsageTally} from '../../src/lib/adapters/model-usage.js'

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
    {},
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
])('reads the usage of %s', (_, report, differing) => {
  expect(readUsage(report as Record<string, unknown>)).toEqual({...USAGE, ...differing})
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

it('reads the binary events of Bedrock, wherever the bytes are split', async () => {
  const {AwsEventReader} = await import('../../src/lib/adapters/model-answer.js')
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
  expect(broken.used(ESTIMATE, true, 100)).toMatchObject({input: 5, output: 100})
  const whole = tallied(part)
  tallyEvent(whole, '[DONE]')
  expect(whole.used(ESTIMATE, false, 100)).toMatchObject({input: 5, output: 1})
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
    expect(tally.used(ESTIMATE, false, 100)).toEqual({input: 10, cachedInput: 0, cacheWrite: 0, output: 100})
  },
)
