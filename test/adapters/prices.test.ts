import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {costOf, highest, pricing} from '../../src/lib/adapters/model-price.js'
import {loadPrices} from '../../src/lib/adapters/prices.js'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
})
afterAll(() => rm(folder, {recursive: true}))

async function load(content: unknown) {
  const path = join(folder, 'prices.json')
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return loadPrices(path)
}

const USAGE = {input: 1000, cachedInput: 0, cacheWrite: 0, output: 100}

it('loads the file of LiteLLM', async () => {
  const {source, version, date, models} = await load({
    sample_spec: {input_cost_per_token: 0},
    'gpt-4o': {
      input_cost_per_token: 2.5e-6,
      output_cost_per_token: 1e-5,
      cache_read_input_token_cost: 1.25e-6,
      litellm_provider: 'openai',
    },
    long: {
      input_cost_per_token: 1.25e-6,
      output_cost_per_token: 1e-5,
      input_cost_per_token_above_200k_tokens: 2.5e-6,
      output_cost_per_token_above_200k_tokens: 1.5e-5,
    },
    search: {input_cost_per_token: 1.1e-7, output_cost_per_token: 0, input_cost_per_request: 0.005},
    'dall-e-3': {output_cost_per_image: 0.04},
  })
  expect({source, version, date}).toEqual({
    source: 'litellm',
    version: expect.stringMatching(/^[0-9a-f]{12}$/),
    date: expect.stringMatching(/Z$/),
  })
  expect(models).toEqual({
    'gpt-4o': {input: 2.5, output: 10, cachedInput: 1.25},
    long: {input: 1.25, output: 10, above: {tokens: 200_000, input: 2.5, output: 15}},
    search: {input: 0.11, output: 0, perRequest: 0.005},
  })
})

it('takes the highest price where LiteLLM has more than zael can tell apart', async () => {
  const {models} = await load({
    tiers: {
      tiered_pricing: [
        {input_cost_per_token: 1e-6, output_cost_per_token: 2e-6, range: [0, 32_000]},
        {input_cost_per_token: 2e-6, output_cost_per_token: 4e-6, range: [32_000, 128_000]},
        {input_cost_per_token: 4e-6, output_cost_per_token: 3e-6, range: [128_000, 1_000_000]},
      ],
    },
    bounds: {
      input_cost_per_token: 1e-6,
      output_cost_per_token: 2e-6,
      input_cost_per_token_above_32k_tokens: 2e-6,
      input_cost_per_token_above_256k_tokens: 3e-6,
      output_cost_per_token_above_256k_tokens: 5e-6,
    },
    reasoning: {input_cost_per_token: 1e-6, output_cost_per_token: 2e-6, output_cost_per_reasoning_token: 4e-6},
    image: {
      mode: 'image_generation',
      input_cost_per_token: 5e-6,
      input_cost_per_image_token: 1e-5,
      output_cost_per_image_token: 4e-5,
    },
    chat: {mode: 'chat', input_cost_per_token: 1e-6, output_cost_per_token: 2e-6, input_cost_per_audio_token: 9e-6},
    odd: {
      mode: {toString: false},
      tiered_pricing: [{input_cost_per_token: 1e-6}, {input_cost_per_token: 2e-6, range: [{toString: false}]}],
    },
  })
  expect(models).toMatchObject({
    tiers: {input: 1, output: 2, above: {tokens: 32_000, input: 4, output: 4}},
    bounds: {input: 1, output: 2, above: {tokens: 32_000, input: 3, output: 5}},
    reasoning: {input: 1, output: 4},
    image: {input: 10, output: 40},
    chat: {input: 1, output: 2},
    odd: {input: 1, output: 0, above: {tokens: 0, input: 2}},
  })
})

it('takes a price of zero for an unknown one', async () => {
  const zero = {input_cost_per_token: 0, output_cost_per_token: 0}
  const lite = await load({
    'gpt-4o': {input_cost_per_token: 1e-6},
    rerank: {...zero, input_cost_per_query: 0.002},
    zero,
  })
  expect(Object.keys(lite.models)).toEqual(['gpt-4o'])
  const free = {cost: {input: 0, output: 0}}
  const dev = await load({a: {models: {'gpt-4o': {cost: {input: 3, output: 9}}}}, b: {models: {'gpt-4o': free, free}}})
  expect(dev.models).toEqual({'a/gpt-4o': {input: 3, output: 9}, 'gpt-4o': {input: 3, output: 9}})
})

it('loads prices of long input and of reasoning from models.dev', async () => {
  const cost = {input: 1, output: 2, reasoning: 3, context_over_200k: {input: 2, output: 4, cache_read: 0.5}}
  const {models} = await load({google: {models: {gemini: {cost}}}})
  const above = {tokens: 200_000, input: 2, output: 4, cachedInput: 0.5}
  expect(models.gemini).toEqual({input: 1, output: 3, above})
})

it('loads the file of models.dev, with the highest price of a model of several providers', async () => {
  const {source, models} = await load({
    openai: {id: 'openai', models: {'gpt-4o': {cost: {input: 2.5, output: 10, cache_read: 1.25}}, free: {}}},
    other: {id: 'other', models: {'gpt-4o': {cost: {input: 3, output: 9}}}},
  })
  expect(source).toBe('models-dev')
  expect(models).toMatchObject({
    'openai/gpt-4o': {input: 2.5, output: 10, cachedInput: 1.25},
    'other/gpt-4o': {input: 3, output: 9},
    'gpt-4o': {input: 3, output: 10, cachedInput: 3},
  })
  expect(models).not.toHaveProperty('free')
})

it('loads every price of LiteLLM that a call can cost', async () => {
  const {models} = await load({
    claude: {
      input_cost_per_token: 3e-6,
      output_cost_per_token: 1.5e-5,
      cache_creation_input_token_cost: 3.75e-6,
      cache_creation_input_token_cost_above_1hr: 6e-6,
      search_context_cost_per_query: {search_context_size_low: 0.01, search_context_size_high: 0.02},
    },
    audio: {
      input_cost_per_token: 2.5e-6,
      output_cost_per_token: 1e-5,
      input_cost_per_audio_token: 4e-5,
      output_cost_per_audio_token: 8e-5,
    },
    image: {mode: 'image_generation', input_cost_per_token: 5e-6, output_cost_per_image_token: 4e-5},
    tiers: {
      input_cost_per_token: 1e-6,
      output_cost_per_token: 2e-6,
      input_cost_per_token_above_128k_tokens: 2e-6,
      input_cost_per_token_above_256k_tokens: 4e-6,
    },
    half: {mode: 'chat', input_cost_per_token: 1e-6},
    embedding: {mode: 'embedding', input_cost_per_token: 1e-6},
  })
  expect(models).toEqual({
    claude: {input: 3, output: 15, cacheWrite: 3.75, hourCacheWrite: 6, perSearch: 0.02},
    audio: {input: 2.5, output: 10, mediaInput: 40, mediaOutput: 80},
    image: {input: 5, output: 40, mediaOutput: 40},
    tiers: {input: 1, output: 2, above: {tokens: 128_000, input: 4, output: 2, cachedInput: 4, cacheWrite: 4}},
    embedding: {input: 1, output: 0},
  })
})

it('loads the prices of long inputs and of sound from models.dev', async () => {
  const {models} = await load({
    a: {models: {long: {cost: {input: 1, output: 10, cache_read: 0.1, context_over_200k: {input: 2, output: 15}}}}},
    b: {
      models: {
        tiered: {
          cost: {
            ...{input: 5, output: 30, input_audio: 9, context_over_200k: {input: 99, output: 99}},
            tiers: [{input: 10, output: 45, tier: {type: 'context', size: 272_000}}],
          },
        },
      },
    },
  })
  expect(models.long?.above).toEqual({tokens: 200_000, input: 2, output: 15, cachedInput: 0.1})
  expect(models.tiered).toEqual({
    ...{input: 5, output: 30, mediaInput: 9},
    above: {tokens: 272_000, input: 10, output: 45, mediaInput: 9},
  })
})

it.each(['', '[]', '{}', '{"a": {"b": 1}}'])('refuses a file without prices: %j', async content => {
  await expect(load(content)).rejects.toMatchObject({code: 'prices.format'})
})

it.each([
  ['input and output', {input: 2.5, output: 10}, USAGE, 3500],
  [
    'caches',
    {input: 3, output: 15, cachedInput: 0.3, cacheWrite: 3.75},
    {...USAGE, cachedInput: 1000, cacheWrite: 100},
    5175,
  ],
  ['caches at the price of input', {input: 3, output: 15}, {...USAGE, cachedInput: 1000}, 7500],
  ['a call', {input: 0, output: 0, perRequest: 0.005}, USAGE, 5000],
  ['web searches', {input: 0, output: 0, perSearch: 0.01}, {...USAGE, searches: 3}, 30_000],
  ['long input', {input: 1, output: 1, above: {tokens: 1000, input: 2, output: 3}}, {...USAGE, cachedInput: 1}, 2302],
  [
    'caches for an hour',
    {input: 3, output: 15, cacheWrite: 3.75, hourCacheWrite: 6},
    {...USAGE, cacheWrite: 100, hourCacheWrite: 40},
    4500 + 225 + 240,
  ],
  [
    'sound and images',
    {input: 2, output: 10, mediaInput: 40, mediaOutput: 80},
    {...USAGE, mediaInput: 100, mediaOutput: 50},
    900 * 2 + 100 * 40 + 50 * 10 + 50 * 80,
  ],
  ['fractions, rounded up', {input: 0.0001, output: 0}, USAGE, 1],
  ['binary fractions, exactly', {input: 0.1, output: 0}, {...USAGE, input: 30, output: 0}, 3],
])('computes the cost of %s in millionths', (_, price, usage, millionths) => {
  expect(costOf(price, usage)).toBe(millionths)
})

it('charges an unknown model at the highest price, or not at all', () => {
  const table = {
    small: {input: 1, output: 2},
    large: {input: 5, output: 1, perRequest: 0.01, above: {tokens: 9, input: 7, output: 1}},
  }
  expect(highest(Object.values(table))).toEqual({input: 7, output: 2, cachedInput: 7, cacheWrite: 7, perRequest: 0.01})
  expect(pricing(table, 'highest').of({}, 'other', USAGE)).toBe(7000 + 200 + 10_000)
  for (const model of ['other', undefined, 'constructor', '__proto__'])
    expect(pricing(table).reserve({}, model, USAGE)).toBeUndefined()
})

it('reserves the dearest kind of tokens', () => {
  const price = {input: 3, output: 15, cacheWrite: 3.75, hourCacheWrite: 6, mediaOutput: 40}
  expect(pricing({claude: price}).reserve({}, 'claude', {input: 100, output: 10})).toBe(600 + 400)
  expect(pricing({claude: {...price, mediaInput: 9}}).reserve({}, 'claude', {input: 100, output: 10})).toBe(900 + 400)
})

it('charges uncounted tokens as the dearest kind', () => {
  const prices = pricing({claude: {input: 3, output: 15, cacheWrite: 3.75, hourCacheWrite: 6}})
  expect(prices.of({}, 'claude', USAGE, false)).toBe(6000 + 1500)
  expect(prices.of({}, 'claude', {...USAGE, cachedInput: 9000}, false)).toBe(3000 + 27_000 + 1500)
})

it('charges at least what the provider says it bills', () => {
  const prices = pricing({auto: {input: 3, output: 15}})
  expect(prices.of({}, 'auto', {...USAGE, cost: 0.02})).toBe(20_000)
  expect(prices.of({}, 'auto', {...USAGE, cost: 0.001})).toBe(4500)
})

it.each([
  ['the body', {body: {service_tier: 'priority'}}],
  ['options of the AI SDK', {params: {providerOptions: {openai: {serviceTier: 'priority'}}}}],
])('charges the prices of the tier that %s asks for', async (_, call) => {
  const {models} = await load({
    'gpt-5': {
      input_cost_per_token: 1.25e-6,
      output_cost_per_token: 1e-5,
      cache_read_input_token_cost: 1.25e-7,
      input_cost_per_token_priority: 2.5e-6,
      output_cost_per_token_priority: 2e-5,
    },
  })
  expect(models['gpt-5']?.priority).toEqual({input: 2.5, output: 20, cachedInput: 0.125})
  expect(pricing(models).of(call, 'gpt-5', USAGE)).toBe(2500 + 2000)
  expect(pricing(models).reserve(call, 'gpt-5', {input: 1000, output: 100})).toBe(2500 + 2000)
  expect(pricing(models).of({body: {service_tier: 'default'}}, 'gpt-5', USAGE)).toBe(1250 + 1000)
  expect(pricing(models).of({}, 'gpt-5', {...USAGE, tier: 'priority'})).toBe(2500 + 2000)
  expect(highest(Object.values(models))).toMatchObject({input: 2.5, output: 20})
})

it('takes a function that returns units of the currency; invalid amounts are unknown', () => {
  expect(pricing(({output}) => output / 1000).of({}, 'any', USAGE)).toBe(100_000)
  for (const cost of [undefined, Number.NaN, -1, Number.POSITIVE_INFINITY])
    expect(pricing(() => cost).reserve({}, 'any', USAGE)).toBeUndefined()
})
