import {InvalidInput} from '../../core/errors.js'
import {readPairs} from '../../core/text/pairs.js'

/** Reads `--metadata KEY=VALUE` flags; a value may contain "=" and may be empty. */
export function parseMetadata(texts: readonly string[]): Record<string, string> {
  const pairs = readPairs(texts, '=', (problem, {text, name}) => {
    if (problem === 'duplicate')
      return new InvalidInput('metadata.duplicate', `--metadata: the key "${name}" is given twice`)
    const why = problem === 'no-name' ? 'the key is missing' : 'there is no "=" between key and value'
    return new InvalidInput('metadata.syntax', `--metadata: cannot read "${text}": ${why}`, {
      hint: 'Write KEY=VALUE, for example --metadata tier=gold',
      details: {piece: text},
    })
  })
  return Object.fromEntries(pairs.map(({name, value}) => [name, value]))
}

/** Metadata sorted by key, since the table keeps no order; values that are not strings are shown as JSON. */
export function formatMetadata(metadata: Readonly<Record<string, unknown>>): string | undefined {
  const pieces = Object.entries(metadata)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  return pieces.length === 0 ? undefined : pieces.join(', ')
}
