import {z} from 'zod'
import {InvalidInput} from '../../core/errors.js'
import {fieldsOf, reportIssues} from '../../files/document-issues.js'
import {asRead, describeValue, reportProblems} from '../../files/document-problems.js'
import {Source} from '../../files/yaml-source.js'
import {LIST_PRICES, type Prices} from './prices.js'

const NAMES = Object.keys(LIST_PRICES) as (keyof Prices)[]

/** Catches prices mistyped by powers of ten: nothing here costs as much. */
const HIGHEST = 1000

const price = z
  .preprocess(asRead, z.number({error: ({input}) => `a price is a number of US dollars, not ${describeValue(input)}`}))
  .refine(dollars => dollars >= 0 && dollars <= HIGHEST, `a price is between 0 and ${HIGHEST} US dollars`)
  .optional()

const shape = Object.fromEntries(NAMES.map(name => [name, price])) as {[name in keyof Prices]: typeof price}
const pricesSchema = fieldsOf('the file', shape)

/** Prices that the file omits default to list prices. Throws one error that lists all problems. */
export function parsePrices(text: string, file: string): Prices {
  const source = new Source(text, {secondDocument: 'a file has the prices of one region'})
  const {value} = source
  if (value === null) source.report([], 'the file is empty')
  const {data, error} = value === undefined || value === null ? {} : pricesSchema.safeParse(value)
  reportIssues(source, error?.issues ?? [])
  if (!data || source.problems.length > 0) throw pricesInvalid(file, source)
  const given = Object.entries(data).filter(([, dollars]) => dollars !== undefined)
  return {...LIST_PRICES, ...Object.fromEntries(given)}
}

function pricesInvalid(file: string, {problems}: Source): InvalidInput {
  const {sorted, lines} = reportProblems(file, problems)
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  return new InvalidInput('cost.prices', `The prices have ${count}:\n${lines.join('\n')}`, {
    hint: `Write lines such as "writesPerMillion: 0.7"; the names are ${NAMES.join(', ')}.`,
    details: {file, problems: sorted},
  })
}
