import {InvalidInput} from '../../core/errors.js'

/** `null`: not set, for options that may be left out. */
export type OptionValue = boolean | number | string | readonly string[] | null

/** One thing that can be chosen about a stack: a flag of `deploy`, and a parameter of the template. */
export interface StackOption {
  /** As programs and option files spell it. */
  readonly name: string
  /** As the command line spells it, without `--`. */
  readonly flag: string
  /** As the template spells it. */
  readonly parameter: string
  readonly group: 'table' | 'aggregator' | 'archive' | 'alarms' | 'iam'
  readonly kind: 'boolean' | 'integer' | 'choice' | 'text' | 'list'
  /** `null`: may be left out, and is. */
  readonly default: OptionValue
  readonly min?: number
  readonly max?: number
  /** The words of a choice, or those that a list may hold. */
  readonly choices?: readonly string[]
  /** The template's words for the choices, where they differ. */
  readonly spelled?: Readonly<Record<string, string>>
  /** What a text must match, as a whole. */
  readonly pattern?: string
  /** That pattern in words: "… must be …". */
  readonly expected?: string
  readonly unit?: string
  readonly description: string
}

/** The word that clears an option that may be left out. */
export const NOT_SET = 'none'

/** Reads what a person typed for an option. */
export function parseOption(option: StackOption, text: string): OptionValue {
  const typed = text.trim()
  if (option.default === null && (typed === NOT_SET || typed === '')) return null
  const value = read(option, typed)
  if (value !== undefined) return value
  const cleared = option.default === null ? `, or "${NOT_SET}"` : ''
  throw new InvalidInput(
    'deploy.option',
    `--${option.flag} is "${text}"; it must be ${expectedOf(option)}${cleared}.`,
    {
      details: {option: option.name, value: text},
    },
  )
}

/** The value as the template takes it. */
export function parameterText({spelled}: StackOption, value: OptionValue): string {
  if (value === null) return ''
  const text = Array.isArray(value) ? value.join(',') : String(value)
  return spelled?.[text] ?? text
}

/** What an option may be, in words: "a whole number from 1 to 35". */
export function expectedOf({kind, min, max, choices = [], expected, unit}: StackOption): string {
  switch (kind) {
    case 'boolean':
      return 'true or false'
    case 'integer':
      return `a whole number from ${min} to ${max}${unit === undefined ? '' : ` (${unit})`}`
    case 'choice':
      return choices.length > 8 ? `one of ${choices.join(', ')}` : choices.join(' or ')
    case 'list':
      return `some of ${choices.join(', ')}, separated by commas`
    case 'text':
      return expected ?? 'a text'
  }
}

function read(
  {kind, min = 0, max = 0, choices = [], pattern = '.*'}: StackOption,
  text: string,
): OptionValue | undefined {
  switch (kind) {
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : undefined
    case 'integer':
      return /^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max ? Number(text) : undefined
    case 'choice':
      return choices.includes(text) ? text : undefined
    case 'list': {
      const words = text.split(',').map(word => word.trim())
      // In the order of the choices, so that the same set is the same parameter.
      return words.every(word => choices.includes(word)) ? choices.filter(word => words.includes(word)) : undefined
    }
    case 'text':
      return new RegExp(`^(?:${pattern})$`).test(text) ? text : undefined
  }
}
