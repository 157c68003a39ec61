import {type Mapping, WrittenScalar} from './document-problems.js'
import {isPlainText} from './plain-yaml.js'

/** A whole number that every version of YAML reads alike, and that a number can hold. */
const WHOLE = /^(?:0|-?[1-9]\d{0,14})$/

/** Mappings in mappings. */
const DEEPEST = 10

/** Characters of a key; YAML refuses a longer one in a line with its value. */
const LONGEST_KEY = 1024

/**
 * What a text stands for that has the form of `plainYaml` (lists aside): mappings of plain keys, two spaces deeper at each
 * level, and plain values. `undefined` where it has another form, and the `yaml` package has to read it. The values are
 * those that `Source` makes of the same text, in a fraction of its time and memory.
 */
export function readPlainYaml(text: string): Mapping | undefined {
  const lines = text.split('\n')
  // Every line has an end.
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

  /** The mapping whose keys begin at a column; lines that begin further left belong to the one around it. */
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

/** The colon behind the key: followed by a space, or at the end of the line. */
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
