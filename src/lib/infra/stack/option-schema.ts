import * as z from 'zod'
import {InvalidInput} from '../../core/errors.js'
import {expectedOf, type OptionValue, STACK_OPTIONS, type StackOption, type StackOptionValues} from './options.js'
import {MAX_USER_TAGS, tagProblem} from './tags.js'

/** Clears an option without a default. */
const NOT_SET = ['none', '']

function valueSchema(option: StackOption): z.ZodType<OptionValue> {
  const {kind, min = 0, max = 0, choices = [], pattern = '.*'} = option
  const error = expectedOf(option)
  switch (kind) {
    case 'boolean':
      return z.enum(['true', 'false'], {error}).transform(text => text === 'true')
    case 'integer':
      return z
        .string({error})
        .regex(/^\d{1,9}$/, {error})
        .transform(Number)
        .pipe(z.int({error}).min(min, {error}).max(max, {error}))
    case 'choice':
      return z.enum(choices, {error})
    case 'list':
      return (
        z
          .string({error})
          .transform(text => text.split(',').map(word => word.trim()))
          .refine(words => words.every(word => choices.includes(word)), {error})
          // In the order of the choices, so that equal sets give equal parameters.
          .transform(words => choices.filter(choice => words.includes(choice)))
      )
    case 'text':
      return z.string({error}).regex(new RegExp(`^(?:${pattern})$`), {error})
  }
}

/** Converts values to text: a file may have `1024` or `"1024"`. */
function textOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.join(',')
  return typeof value === 'object' ? value : String(value).trim()
}

function optionSchema(option: StackOption): z.ZodType<OptionValue | undefined> {
  const value = z.preprocess(textOf, valueSchema(option))
  if (option.default !== null) return value.optional()
  const isUnset = (text: unknown) => text === null || (typeof text === 'string' && NOT_SET.includes(text.trim()))
  return z.preprocess(given => (isUnset(given) ? null : given), value.nullable()).optional()
}

const shape = Object.fromEntries(STACK_OPTIONS.map(option => [option.name, optionSchema(option)]))

const optionsSchema = z.strictObject(shape)

/** Every problem has the key as its path. Values that YAML reads as numbers or booleans become text. */
const tagsSchema = z
  .custom<Readonly<Record<string, unknown>>>(
    value => typeof value === 'object' && value !== null && !Array.isArray(value),
    'tags are names and values, such as "team: platform"',
  )
  .transform((tags, context) => {
    const pairs = Object.entries(tags).map(([key, value]) => [key, String(value ?? '')] as const)
    for (const [key, text] of pairs) {
      const isNested = typeof tags[key] === 'object' && tags[key] !== null
      const problem = isNested ? 'has a value that is not a text, a number, true or false' : tagProblem(key, text)
      if (problem !== undefined) context.addIssue({code: 'custom', path: [key], message: `the tag "${key}" ${problem}`})
    }
    if (pairs.length > MAX_USER_TAGS) {
      context.addIssue(`a stack can have at most ${MAX_USER_TAGS} user tags, not ${pairs.length}`)
    }
    return Object.fromEntries(pairs)
  })

export const optionFileSchema = z.strictObject({...shape, tags: tagsSchema.optional()})

export function parseTypedOptions(texts: Readonly<Record<string, string>>): StackOptionValues {
  const {data, error} = optionsSchema.safeParse(texts)
  if (data) return data as StackOptionValues
  const wrong = error.issues.map(({path, message}) => {
    const option = STACK_OPTIONS.find(({name}) => name === path[0]) as StackOption
    const cleared = option.default === null ? ', or "none"' : ''
    return {option: option.name, text: `--${option.flag} is "${texts[option.name]}"; it must be ${message}${cleared}.`}
  })
  const [first] = wrong
  throw new InvalidInput('deploy.option', wrong.map(({text}) => text).join('\n'), {
    details: {option: first?.option, value: texts[first?.option ?? ''], options: wrong.map(({option}) => option)},
  })
}
