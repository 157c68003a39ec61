/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Prices of models, for limits in money. Reads the price files of LiteLLM and models.dev.
 *
 * @packageDocumentation
 */
import {createHash} from 'node:crypto'
import {readFile, stat} from 'node:fs/promises'
import {InvalidInput} from '../core/errors.js'
import {parseJson} from '../core/text/text.js'
import {highest, type ModelPrice, type PriceTable, type TokenPrices} from './model-price.js'
import {recordOf} from './model-usage.js'

export type {ModelPrice, PriceTable, TokenPrices} from './model-price.js'

/** A loaded price file. Pass `models` as `price` to an adapter. */
export interface PriceFile {
  readonly source: 'litellm' | 'models-dev'
  /** Identifies the content: the start of its SHA-256. */
  readonly version: string
  /** When the file was last changed: ISO 8601. */
  readonly date: string
  readonly models: PriceTable
}

/**
 * Reads a file of prices: `model_prices_and_context_window.json` of LiteLLM, or `api.json` of models.dev.
 *
 * @example
 * ```ts
 * const prices = await loadPrices('prices.json')
 * const send = limitedFetch(limiter, {entity: 'team-7', price: prices.models})
 * ```
 */
export async function loadPrices(path: string): Promise<PriceFile> {
  const [text, {mtime}] = await Promise.all([readFile(path, 'utf8'), stat(path)])
  const content = recordOf(parseJson(text))
  const isModelsDev = Object.values(content).some(provider => 'models' in recordOf(provider))
  const models = isModelsDev ? fromModelsDev(content) : fromLiteLlm(content)
  if (Object.keys(models).length === 0)
    throw new InvalidInput('prices.format', `"${path}" has no prices in the format of LiteLLM or models.dev.`)
  return {
    source: isModelsDev ? 'models-dev' : 'litellm',
    version: createHash('sha256').update(text).digest('hex').slice(0, 12),
    date: mtime.toISOString(),
    models,
  }
}

type Json = Readonly<Record<string, unknown>>

/** Per token, in dollars. `sample_spec` describes the format. */
function fromLiteLlm(content: Json): PriceTable {
  const {sample_spec: _, ...models} = content
  return Object.fromEntries(
    Object.entries(models).flatMap(([model, value]) => {
      const price = ofLiteLlm(recordOf(value))
      return price && !isFree(price) ? [[model, price]] : []
    }),
  )
}

function ofLiteLlm(fields: Json): ModelPrice | undefined {
  const {tiered_pricing, input_cost_per_request: perRequest, search_context_cost_per_query: searches} = fields
  const perSearch = Math.max(0, ...Object.values(recordOf(searches)).filter(isPrice))
  const [first, ...tiers] = Array.isArray(tiered_pricing) ? tiered_pricing.map(recordOf) : []
  const prices = perMillion({...fields, ...first}, '')
  if (!prices) return undefined
  const bounds = Object.keys(fields).flatMap(
    name => /^(?:in|out)put_cost_per_token_above_(\d+)k_tokens$/.exec(name)?.[1] ?? [],
  )
  const above = Array.from(new Set(bounds), bound => {
    return {tokens: Number(bound) * 1000, ...perMillion(fields, `_above_${bound}k_tokens`, prices)}
  })
  for (const tier of tiers) {
    const [from] = Array.isArray(tier.range) ? tier.range : []
    above.push({tokens: isPrice(from) ? from : 0, ...perMillion({...fields, ...tier}, '', prices)})
  }
  const hasPriority = isPrice(fields.input_cost_per_token_priority)
  const priority = hasPriority ? perMillion(fields, '_priority', prices) : undefined
  return {
    ...prices,
    ...(isPrice(perRequest) && {perRequest}),
    ...(perSearch > 0 && {perSearch}),
    ...(priority && {priority}),
    ...longInput(above as LongInput[]),
  }
}

type LongInput = NonNullable<ModelPrice['above']>

/** From the lowest bound on, the highest prices: never too low. */
function longInput(above: readonly LongInput[]): Pick<ModelPrice, 'above'> {
  const [only] = above
  if (!only) return {}
  const tokens = Math.min(...above.map(prices => prices.tokens))
  const {perRequest: _, ...dearest} = highest(above)
  return {above: above.length > 1 ? {...dearest, tokens} : only}
}

/** Models whose tokens are mostly not text, even if a call does not report which. */
const MEDIA = /^(audio|image|realtime|video)/

/** `base`: prices of short input, which are never higher. */
function perMillion(fields: Json, suffix: string, base?: TokenPrices): TokenPrices | undefined {
  const price = (...names: string[]) => {
    const values = names.map(name => fields[name + suffix]).filter(isPrice)
    // 1.1e-7 * 1e6 is not exactly 0.11.
    return values.length === 0 ? undefined : Number((Math.max(...values) * 1e6).toPrecision(12))
  }
  const ofMedia = (direction: string) =>
    price(...['audio', 'image', 'video'].map(kind => `${direction}_cost_per_${kind}_token`))
  const [mediaInput = base?.mediaInput, mediaOutput = base?.mediaOutput] = [ofMedia('input'), ofMedia('output')]
  const isMedia = typeof fields.mode === 'string' && MEDIA.test(fields.mode)
  const input = price('input_cost_per_token') ?? base?.input
  // Embeddings have no output. Some models bill reasoning at a higher price.
  const output = price('output_cost_per_token', 'output_cost_per_reasoning_token') ?? base?.output ?? 0
  const dearestOutput = Math.max(output, base?.output ?? 0, (isMedia && mediaOutput) || 0)
  if (input === undefined || (dearestOutput === 0 && isGenerating(fields))) return undefined
  return {
    input: Math.max(input, base?.input ?? 0, (isMedia && mediaInput) || 0),
    output: dearestOutput,
    ...optional('cachedInput', price('cache_read_input_token_cost') ?? base?.cachedInput),
    ...optional('cacheWrite', price('cache_creation_input_token_cost') ?? base?.cacheWrite),
    ...optional('hourCacheWrite', price('cache_creation_input_token_cost_above_1hr') ?? base?.hourCacheWrite),
    ...optional('mediaInput', mediaInput),
    ...optional('mediaOutput', mediaOutput),
  }
}

const GENERATING = new Set<unknown>(['chat', 'completion', 'responses', 'image_generation'])

/** Whether the model generates output, but the file lacks its price. False for free models. */
const isGenerating = ({mode, input_cost_per_token: input, output_cost_per_token: output}: Json): boolean =>
  output === undefined && input !== 0 && GENERATING.has(mode)

/** Per million tokens, in dollars, by provider. A model of several providers has the highest price, unless named `provider/model`. */
function fromModelsDev(content: Json): PriceTable {
  const table: Record<string, ModelPrice> = {}
  for (const [provider, {models}] of Object.entries(content).map(([name, value]) => [name, recordOf(value)] as const)) {
    for (const [model, value] of Object.entries(recordOf(models))) {
      const cost = recordOf(recordOf(value).cost)
      const prices = ofModelsDev(cost)
      if (!prices || isFree(prices)) continue
      const price = {...prices, ...longInput(tiersOf(cost))}
      table[`${provider}/${model}`] = price
      table[model] = table[model] ? highest([table[model], price]) : price
    }
  }
  return table
}

function tiersOf(cost: Json): LongInput[] {
  const over200k = 'context_over_200k' in cost ? [cost.context_over_200k] : []
  const tiers = Array.isArray(cost.tiers) && cost.tiers.length > 0 ? cost.tiers : over200k
  return tiers.map(recordOf).flatMap(tier => {
    const {size = 200_000} = recordOf(tier.tier)
    const prices = ofModelsDev({...cost, ...tier})
    return prices && isPrice(size) ? [{...prices, tokens: size}] : []
  })
}

function ofModelsDev(cost: Json): TokenPrices | undefined {
  const {input, output = 0, reasoning = 0, cache_read, cache_write, input_audio, output_audio} = cost
  if (!isPrice(input) || !isPrice(output) || !isPrice(reasoning)) return undefined
  return {
    ...{input, output: Math.max(output, reasoning)},
    ...optional('cachedInput', cache_read),
    ...optional('cacheWrite', cache_write),
    ...optional('mediaInput', input_audio),
    ...optional('mediaOutput', output_audio),
  }
}

/** Both files also write 0 for prices that they do not know, or that are not per token. */
const isFree = ({input, output, perRequest = 0}: ModelPrice): boolean => input + output + perRequest === 0

const optional = (name: string, value: unknown): object => (isPrice(value) ? {[name]: value} : {})

const isPrice = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value >= 0
