import {option} from '@oclif/core/flags'

export const OUTPUT_FORMATS = ['table', 'json', 'jsonl', 'csv', 'yaml'] as const

/** Only lists can be printed in these formats. */
const ROW_FORMATS: ReadonlySet<string> = new Set(['jsonl', 'csv'])

export const isRowFormat = (format: OutputFormat | undefined): boolean =>
  format !== undefined && ROW_FORMATS.has(format)

export type OutputFormat = (typeof OUTPUT_FORMATS)[number]

export const outputFlags = {
  output: option({
    char: 'o',
    options: OUTPUT_FORMATS,
    description: 'Output format. --json is short for --output json. For lists, jsonl prints one JSON document per row.',
    helpGroup: 'GLOBAL',
  })(),
}

/** Reads raw arguments, because parse errors are printed in this format too. */
export function formatIn(argv: readonly string[], otherwise: OutputFormat = 'table'): OutputFormat {
  const end = argv.indexOf('--')
  const own = end < 0 ? argv : argv.slice(0, end)
  if (own.includes('--json')) return 'json'
  for (const [index, word] of own.entries()) {
    const value =
      /^(?:--output=|-o=?)(.+)$/.exec(word)?.[1] ?? (/^(?:--output|-o)$/.test(word) ? own[index + 1] : undefined)
    const format = OUTPUT_FORMATS.find(each => each === value)
    if (format) return format
  }
  return otherwise
}
