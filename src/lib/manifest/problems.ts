import {InvalidInput} from '../core/errors.js'
import {nearestNames} from '../core/nearest.js'

/** One mistake in a manifest. */
export interface Problem {
  /** From 1. */
  readonly line: number
  /** From 1, in characters. */
  readonly column: number
  /** Path in the manifest, such as `resources.gpt-4.limits.rpm`; empty for the whole file. */
  readonly path: string
  readonly message: string
}

/** One error with all problems of a file, in line order. */
export function manifestInvalid(file: string, problems: readonly Problem[]): InvalidInput {
  const sorted = [...problems].sort((a, b) => a.line - b.line || a.column - b.column)
  const lines = sorted.map(({line, column, path, message}) => {
    return `  ${file}:${line}:${column} ${path === '' ? '' : `${path}: `}${message}`
  })
  const count = sorted.length === 1 ? 'a problem' : `${sorted.length} problems`
  return new InvalidInput('manifest.invalid', `The manifest has ${count}:\n${lines.join('\n')}`, {
    hint: 'Nothing was read or written. Fix the file and check it with `zael limits validate`.',
    details: {file, problems: sorted},
  })
}

/** The message for an unknown name, with the most similar known one. */
export function notOneOf(what: string, name: string, allowed: readonly string[]): string {
  const [nearest] = nearestNames(name.toLowerCase(), allowed)
  const problem = `${JSON.stringify(name)} is not ${what}`
  return nearest ? `${problem}; did you mean "${nearest}"?` : `${problem}; allowed: ${allowed.join(', ')}`
}
