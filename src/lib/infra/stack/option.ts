/** `null`: not set; only for options that have no default. */
export type OptionValue = boolean | number | string | readonly string[] | null

export interface StackOption {
  readonly name: string
  readonly flag: string
  readonly parameter: string
  readonly group: 'table' | 'aggregator' | 'archive' | 'alarms' | 'iam'
  readonly kind: 'boolean' | 'integer' | 'choice' | 'text' | 'list'
  readonly default: OptionValue
  readonly min?: number
  readonly max?: number
  /** Values of a choice, or allowed elements of a list. */
  readonly choices?: readonly string[]
  /** The template's values for the choices, where they differ. */
  readonly spelled?: Readonly<Record<string, string>>
  /** Regular expression that the whole text must match. */
  readonly pattern?: string
  /** Completes "it must be …". */
  readonly expected?: string
  readonly unit?: string
  readonly description: string
}

export function parameterText({spelled}: StackOption, value: OptionValue): string {
  if (value === null) return ''
  const text = Array.isArray(value) ? value.join(',') : String(value)
  return spelled?.[text] ?? text
}

/** Such as "a whole number from 1 to 35". */
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
