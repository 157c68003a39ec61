import {InvalidInput} from '../../core/errors.js'

/** Reads `KEY=VALUE` pieces; a value may contain "=" and may be empty. */
export function parseMetadata(pieces: readonly string[]): Record<string, string> {
  const metadata = new Map<string, string>()
  for (const piece of pieces) {
    const at = piece.indexOf('=')
    if (at < 1) {
      const why = at < 0 ? 'there is no "=" between key and value' : 'the key is missing'
      throw new InvalidInput('metadata.syntax', `--metadata: cannot read "${piece}": ${why}`, {
        hint: 'Write KEY=VALUE, for example --metadata tier=gold',
        details: {piece},
      })
    }
    const key = piece.slice(0, at)
    if (metadata.has(key)) throw new InvalidInput('metadata.duplicate', `--metadata: the key "${key}" is given twice`)
    metadata.set(key, piece.slice(at + 1))
  }
  return Object.fromEntries(metadata)
}

/** Metadata for people, by key: the table keeps no order. What is no text is shown as JSON. */
export function formatMetadata(metadata: Readonly<Record<string, unknown>>): string | undefined {
  const pieces = Object.entries(metadata)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  return pieces.length === 0 ? undefined : pieces.join(', ')
}
