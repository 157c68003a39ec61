import {ZaelError} from '../../core/errors.js'
import type {UsedPrices} from '../../insight/cost/prices.js'

const MAX_BYTES = 64 * 2 ** 10

export async function readPrices(file: string | undefined): Promise<UsedPrices> {
  if (file === undefined) return {prices: (await import('../../insight/cost/prices.js')).LIST_PRICES, file: null}
  const [{readText}, {parsePrices}] = await Promise.all([
    import('../../files/read-document.js'),
    import('../../insight/cost/price-file.js'),
  ])
  const code = 'cost.prices'
  const hint = 'Write a YAML or JSON file with lines such as "writesPerMillion: 0.7"; docs/cost.md lists the names.'
  const text = await readText({file, code, maxBytes: MAX_BYTES, hint})
  if (text === undefined) throw new ZaelError('notFound', code, `there is no file ${file}`, {hint, details: {file}})
  return {prices: parsePrices(text, file), file}
}
