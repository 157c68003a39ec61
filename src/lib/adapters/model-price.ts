import {type ModelUsage, recordOf, type TokenEstimate, usageOf} from './model-usage.js'
import {warningOnce} from './problem.js'

/** Prices in units of a currency, such as dollars, per million tokens. */
export interface TokenPrices {
  readonly input: number
  readonly output: number
  /** Input read from a prompt cache. @default the price of input */
  readonly cachedInput?: number
  /** Input written to a prompt cache. @default the price of input */
  readonly cacheWrite?: number
  /** Input written to a prompt cache for an hour. @default the price of `cacheWrite` */
  readonly hourCacheWrite?: number
  /** Input that is sound or images. @default the price of input */
  readonly mediaInput?: number
  /** Output that is sound or images. @default the price of output */
  readonly mediaOutput?: number
}

/** Prices of one model. */
export interface ModelPrice extends TokenPrices {
  /** Price of each call, in units of the currency. @default 0 */
  readonly perRequest?: number
  /** Price of each web search that the provider runs, in units of the currency. @default 0 */
  readonly perSearch?: number
  /** Prices of calls with more input than `tokens`. */
  readonly above?: TokenPrices & {readonly tokens: number}
  /** Prices of calls that ask OpenAI for `service_tier: 'priority'`. @default the other prices */
  readonly priority?: TokenPrices
}

/** Prices by model. */
export type PriceTable = Readonly<Record<string, ModelPrice>>

/** The highest of each price. */
export function highest(prices: readonly ModelPrice[]): ModelPrice {
  const flat = prices.flatMap(({above, priority, ...price}) => [price, above ?? price, priority ?? price])
  const most = (of: (price: ModelPrice) => number) => flat.reduce((max, price) => Math.max(max, of(price)), 0)
  return {
    input: most(({input}) => input),
    output: most(({output}) => output),
    cachedInput: most(({input, cachedInput = input}) => cachedInput),
    cacheWrite: most(({input, cacheWrite = input}) => cacheWrite),
    perRequest: most(({perRequest = 0}) => perRequest),
    ...(prices.some(({perSearch}) => perSearch) && {perSearch: most(({perSearch = 0}) => perSearch)}),
    ...(flat.some(({hourCacheWrite}) => hourCacheWrite) && {
      hourCacheWrite: most(({input, cacheWrite = input, hourCacheWrite = cacheWrite}) => hourCacheWrite),
    }),
    ...(flat.some(({mediaInput}) => mediaInput) && {mediaInput: most(({input, mediaInput = input}) => mediaInput)}),
    ...(flat.some(({mediaOutput}) => mediaOutput) && {
      mediaOutput: most(({output, mediaOutput = output}) => mediaOutput),
    }),
  }
}

/** In millionths of the currency, as limits in money count; rounded up. */
export function costOf(price: ModelPrice, usage: ModelUsage): number {
  const {input, cachedInput, cacheWrite, output, hourCacheWrite = 0, mediaInput = 0, mediaOutput = 0} = usage
  const isAbove = price.above !== undefined && input + cachedInput + cacheWrite > price.above.tokens
  const {
    input: plain,
    output: out,
    cachedInput: cached = plain,
    cacheWrite: written = plain,
    hourCacheWrite: kept = written,
    mediaInput: media = plain,
    mediaOutput: mediaOut = out,
  } = isAbove ? price.above : price
  return wholeMillionths(
    input * plain +
      cachedInput * cached +
      cacheWrite * written +
      output * out +
      // Parts of the above; a cached part was cheaper.
      hourCacheWrite * (kept - written) +
      Math.min(mediaInput, input) * (media - plain) +
      Math.min(mediaOutput, output) * (mediaOut - out) +
      ((price.perRequest ?? 0) + (usage.searches ?? 0) * (price.perSearch ?? 0)) * MILLION,
  )
}

const MILLION = 1_000_000

/** Rounds up, except for errors of binary fractions. */
const wholeMillionths = (cost: number): number => Math.ceil(Number(cost.toPrecision(15)))

/** Prices of all models, or a function that computes the cost of a call in units of the currency. */
export type CallPrice<Call> = PriceTable | ((usage: ModelUsage, call: Call) => number | undefined)

interface Pricing<Call> {
  /** In millionths, for the dearest kind of input; `undefined` without a price. */
  reserve(call: Call, model: string | undefined, estimate: TokenEstimate): number | undefined
  /**
   * In millionths. Usage that is not counted has the dearest kind of input. `undefined` if the price is unknown after the
   * call: then the reserved cost is charged.
   */
  of(call: Call, model: string | undefined, usage: ModelUsage, isCounted?: boolean): number | undefined
}

export function pricing<Call>(
  price: CallPrice<Call> | undefined,
  onUnknown: 'refuse' | 'highest' = 'refuse',
): Pricing<Call> {
  if (price === undefined) return {reserve: () => 0, of: () => 0}
  const dearest = typeof price === 'object' && onUnknown === 'highest' ? highest(Object.values(price)) : undefined
  const cost = (call: Call, model: string | undefined, usage: ModelUsage): number | undefined => {
    if (typeof price === 'function') {
      const units = price(usage, call)
      return units !== undefined && units >= 0 && Number.isFinite(units) ? wholeMillionths(units * MILLION) : undefined
    }
    const known = model !== undefined && Object.hasOwn(price, model) ? price[model] : dearest
    if (!known) return undefined
    const dearer = known.priority && isPriority(call, usage) ? costOf({...known, ...known.priority}, usage) : 0
    // The provider may have chosen another model, or added fees.
    return Math.max(costOf(known, usage), dearer, wholeMillionths((usage.cost ?? 0) * MILLION))
  }
  const reserve: Pricing<Call>['reserve'] = (call, model, {input, output}) => {
    const written = {input: 0, cachedInput: 0, cacheWrite: input, output, hourCacheWrite: input, mediaOutput: output}
    const plain = {...usageOf({input, output}), mediaInput: input, mediaOutput: output}
    const costs = [usageOf({input, output}), plain, written].map(usage => cost(call, model, usage))
    return costs.includes(undefined) ? undefined : Math.max(...(costs as number[]))
  }
  return {
    reserve,
    of: (call, model, usage, isCounted = true) => {
      try {
        const exact = cost(call, model, usage)
        return isCounted || exact === undefined ? exact : Math.max(exact, reserve(call, model, usage) ?? 0)
      } catch (error) {
        warnPrice(error)
        return undefined
      }
    },
  }
}

/** Clients and projects choose their tier. OpenAI may ignore it, and then bills less. */
function isPriority(call: unknown, {tier}: ModelUsage): boolean {
  if (tier === 'priority') return true
  const {body, params} = recordOf(call)
  const {openai} = recordOf(recordOf(params).providerOptions)
  return recordOf(body).service_tier === 'priority' || recordOf(openai).serviceTier === 'priority'
}

const warnPrice = warningOnce('ZAEL_PRICE', 'The `price` function failed, so the reserved cost is charged')
