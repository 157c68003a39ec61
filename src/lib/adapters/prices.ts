/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Prices of models, for limits in money. Reads the price files of LiteLLM and models.dev.
 *
 * @packageDocumentation
 */
import {createHash} from 'node:crypto'
import {readFile, stat} from 'node:fs/promises'
import {InvalidInput} from '../core/errors.js'
import {parseJson} from './model-call.js'
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
      const fields = recordOf(value)
      const prices = perMillion(fields, '')
      if (!prices) return []
      const bound = Object.keys(fields).flatMap(
        name => /^input_cost_per_token_above_(\d+)k_tokens$/.exec(name)?.[1] ?? [],
      )
      const tokens = Math.min(...bound.map(Number))
      const above = bound.length > 0 ? perMillion(fields, `_above_${tokens}k_tokens`, prices) : undefined
      const perRequest = fields.input_cost_per_request
      return [
        [
          model,
          {
            ...prices,
            ...(isPrice(perRequest) && {perRequest}),
            ...(above && {above: {...above, tokens: tokens * 1000}}),
          },
        ],
      ]
    }),
  )
}

function perMillion(fields: Json, suffix: string, base?: TokenPrices): TokenPrices | undefined {
  const price = (name: string) => {
    const value = fields[name + suffix]
    // 1.1e-7 * 1e6 is not exactly 0.11.
    return isPrice(value) ? Number((value * 1e6).toPrecision(12)) : undefined
  }
  const input = price('input_cost_per_token') ?? base?.input
  if (input === undefined) return undefined
  return {
    input,
    // Embeddings have no output.
    output: price('output_cost_per_token') ?? base?.output ?? 0,
    ...optional('cachedInput', price('cache_read_input_token_cost') ?? base?.cachedInput),
    ...optional('cacheWrite', price('cache_creation_input_token_cost') ?? base?.cacheWrite),
  }
}

/** Per million tokens, in dollars, by provider. A model of several providers has the highest price, unless named `provider/model`. */
function fromModelsDev(content: Json): PriceTable {
  const table: Record<string, ModelPrice> = {}
  for (const [provider, {models}] of Object.entries(content).map(([name, value]) => [name, recordOf(value)] as const)) {
    for (const [model, value] of Object.entries(recordOf(models))) {
      const {input, output = 0, cache_read, cache_write} = recordOf(recordOf(value).cost)
      if (!isPrice(input) || !isPrice(output)) continue
      const price = {
        input,
        output,
        ...optional('cachedInput', cache_read),
        ...optional('cacheWrite', cache_write),
      }
      table[`${provider}/${model}`] = price
      table[model] = table[model] ? highest([table[model], price]) : price
    }
  }
  return table
}

const optional = (name: string, value: unknown): object => (isPrice(value) ? {[name]: value} : {})

const isPrice = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value >= 0
