import {type Mapping, WrittenScalar} from './document-problems.js'
import {isPlainText} from './plain-yaml.js'

/** Every version of YAML reads these alike, and a number can hold them. */
const WHOLE = /^(?:0|-?[1-9]\d{0,14})$/

const DEEPEST = 10

/** YAML refuses longer keys on the line of their value. */
const LONGEST_KEY = 1024

/** Fast path with the same values as `Source`; `undefined` for text not in the form of `plainYaml` without lists. */
export function readPlainYaml(text: string): Mapping | undefined {
  const lines = text.split('\n')
  if (lines.pop() !== '') return undefined
  const reader = new PlainReader(lines)
  const mapping = reader.mapping(0)
  return reader.isAtEnd ? mapping : undefined
}

class PlainReader {
  readonly #lines: readonly string[]
  #at = 0

  constructor(lines: readonly string[]) {
    this.#lines = lines
  }

  get isAtEnd(): boolean {
    return this.#at === this.#lines.length
  }

  mapping(column: number): Mapping | undefined {
    if (column > 2 * DEEPEST) return undefined
    const mapping: Mapping = Object.create(null)
    const first = this.#at
    for (; !this.isAtEnd; ) {
      const line = this.#lines[this.#at] as string
      const begin = line.search(/[^ ]/)
      if (begin < column) break
      const colon = keyEnd(line)
      const key = line.slice(column, colon)
      if (begin > column || colon < 0 || key.length > LONGEST_KEY) return undefined
      if (!isPlainText(key) || key in mapping) return undefined
      this.#at++
      const value = colon === line.length - 1 ? this.mapping(column + 2) : scalar(line.slice(colon + 2))
      if (value === undefined) return undefined
      mapping[key] = value
    }
    return this.#at === first ? undefined : mapping
  }
}

function keyEnd(line: string): number {
  const colon = line.indexOf(': ')
  return colon < 0 && line.endsWith(':') ? line.length - 1 : colon
}

function scalar(text: string): unknown {
  if (text === 'null') return null
  if (text === 'true' || text === 'false') return new WrittenScalar(text === 'true', text)
  if (WHOLE.test(text)) return new WrittenScalar(Number(text), text)
  return isPlainText(text) ? text : undefined
}
