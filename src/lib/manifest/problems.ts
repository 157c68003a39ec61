import {InvalidInput} from '../core/errors.js'
import {nearestNames} from '../core/nearest.js'

/** Something in a manifest that cannot be meant. */
export interface Problem {
  /** From 1. */
  readonly line: number
  /** From 1, in characters. */
  readonly column: number
  /** Where in the manifest, such as `resources.gpt-4.limits.rpm`; empty for the whole file. */
  readonly path: string
  readonly message: string
}

/** One error for all problems of a file, in the order of their lines. */
export function manifestInvalid(file: string, problems: readonly Problem[]): InvalidInput {
  const sorted = [...problems].sort((a, b) => a.line - b.line || a.column - b.column)
  const lines = sorted.map(({line, column, path, message}) => {
    return `  ${file}:${line}:${column} ${path === '' ? '' : `${path}: `}${message}`
  })
  const count = sorted.length === 1 ? 'a problem' : `${sorted.length} problems`
  return new InvalidInput('manifest.invalid', `The manifest has ${count}:\n${lines.join('\n')}`, {
    hint: 'Nothing was read or written. Correct the file and run `zael limits validate` on it.',
    details: {file, problems: sorted},
  })
}

/** What to say about a name that is not one of those possible. */
export function notOneOf(what: string, name: string, allowed: readonly string[]): string {
  const [nearest] = nearestNames(name.toLowerCase(), allowed)
  const said = `${JSON.stringify(name)} is not ${what}`
  return nearest ? `${said}; did you mean "${nearest}"?` : `${said}; possible: ${allowed.join(', ')}`
}
