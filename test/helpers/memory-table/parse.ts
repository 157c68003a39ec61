import type {Assigned, Condition, Operand, Parsed, Path, Update} from './expression.js'
import {invalid} from './service-error.js'

const TOKEN = /\s*(?:([#:]?[A-Za-z_0-9]+)|(<>|<=|>=|[()[\],.=<>+-]))/y
const FUNCTIONS = new Set(['attribute_exists', 'attribute_not_exists', 'attribute_type', 'begins_with', 'contains'])
const COMPARATORS = new Set(['=', '<>', '<', '<=', '>', '>='])
const CLAUSES = new Set(['SET', 'REMOVE', 'ADD', 'DELETE'])

/** Parses each text once: a simulation sends the same few a million times. */
function memoized<T>(kind: string, read: (parser: Parser) => T): (text: string) => Parsed<T> {
  const known = new Map<string, Parsed<T>>()
  return text => {
    let parsed = known.get(text)
    if (!parsed) {
      const parser = new Parser(kind, text)
      const root = read(parser)
      parser.end()
      parsed = {root, placeholders: parser.placeholders}
      known.set(text, parsed)
    }
    return parsed
  }
}

export const parseCondition: (text: string) => Parsed<Condition> = memoized('ConditionExpression', parser =>
  parser.condition(),
)

export const parseUpdate: (text: string) => Parsed<Update> = memoized('UpdateExpression', parser => parser.update())

export const parseProjection: (text: string) => Parsed<Path[]> = memoized('ProjectionExpression', parser =>
  parser.list(() => parser.path()),
)

class Parser {
  readonly placeholders = new Set<string>()
  readonly #kind: string
  readonly #tokens: string[] = []
  #at = 0

  constructor(kind: string, text: string) {
    this.#kind = kind
    TOKEN.lastIndex = 0
    while (text.slice(TOKEN.lastIndex).trim() !== '') {
      const found = TOKEN.exec(text)
      if (!found) throw invalid(`Invalid ${kind}: Syntax error; in "${text}"`)
      this.#tokens.push((found[1] ?? found[2]) as string)
    }
  }

  end(): void {
    if (this.#at < this.#tokens.length) throw this.#unexpected()
  }

  list<T>(read: () => T): T[] {
    const all = [read()]
    while (this.#take(',')) all.push(read())
    return all
  }

  condition(): Condition {
    return this.#chain('or', () => this.#chain('and', () => this.#negation()))
  }

  update(): Update {
    const update = {
      set: [] as Update['set'][number][],
      remove: [] as Path[],
      add: [] as Update['add'][number][],
      delete: [] as Update['delete'][number][],
    }
    const seen = new Set<string>()
    while (this.#at < this.#tokens.length) {
      const clause = this.#next().toUpperCase()
      if (!CLAUSES.has(clause)) throw this.#unexpected(-1)
      if (seen.has(clause)) {
        throw invalid(
          `Invalid UpdateExpression: The "${clause}" section can only be used once in an update expression;`,
        )
      }
      seen.add(clause)
      if (clause === 'SET') update.set.push(...this.list(() => this.#assignment()))
      else if (clause === 'REMOVE') update.remove.push(...this.list(() => this.path()))
      else if (clause === 'ADD') update.add.push(...this.list(() => this.#change()))
      else update.delete.push(...this.list(() => this.#change()))
    }
    if (seen.size === 0) throw invalid('Invalid UpdateExpression: The expression can not be empty;')
    return update
  }

  path(): Path {
    const path: (string | number)[] = [this.#name()]
    for (;;) {
      if (this.#take('.')) path.push(this.#name())
      else if (this.#take('[')) {
        path.push(Number(this.#next()))
        this.#expect(']')
      } else return path
    }
  }

  #chain(kind: 'and' | 'or', read: () => Condition): Condition {
    const terms = [read()]
    while (this.#takeWord(kind)) terms.push(read())
    return terms.length === 1 ? (terms[0] as Condition) : {kind, terms}
  }

  #negation(): Condition {
    if (this.#takeWord('not')) return {kind: 'not', term: this.#negation()}
    if (this.#peek() === '(') {
      this.#expect('(')
      const inner = this.condition()
      this.#expect(')')
      return inner
    }
    return this.#comparison()
  }

  #comparison(): Condition {
    const name = this.#peek()
    if (FUNCTIONS.has(name) && this.#tokens[this.#at + 1] === '(') {
      this.#at++
      return {kind: 'function', name, args: this.#inParentheses(() => this.operand())}
    }
    const left = this.operand()
    if (this.#takeWord('between')) {
      const low = this.operand()
      if (!this.#takeWord('and')) throw this.#unexpected()
      return {kind: 'between', operand: left, low, high: this.operand()}
    }
    if (this.#takeWord('in')) return {kind: 'in', operand: left, list: this.#inParentheses(() => this.operand())}
    const operator = this.#next()
    if (!COMPARATORS.has(operator)) throw this.#unexpected(-1)
    return {kind: 'compare', operator, left, right: this.operand()}
  }

  operand(): Operand {
    const token = this.#peek()
    if (token === 'size' && this.#tokens[this.#at + 1] === '(') {
      this.#at++
      const [of] = this.#inParentheses(() => this.operand()) as [Operand]
      return {kind: 'size', of}
    }
    if (token.startsWith(':')) {
      this.#at++
      this.placeholders.add(token)
      return {kind: 'value', placeholder: token}
    }
    return {kind: 'path', path: this.path()}
  }

  #assignment(): Update['set'][number] {
    const path = this.path()
    this.#expect('=')
    const left = this.#assigned()
    const sign = this.#peek()
    if (sign !== '+' && sign !== '-') return {path, value: left}
    this.#at++
    return {path, value: {kind: sign, left, right: this.#assigned()}}
  }

  #assigned(): Assigned {
    const name = this.#peek()
    if (this.#tokens[this.#at + 1] !== '(') return this.operand()
    if (name === 'if_not_exists') {
      this.#at++
      this.#expect('(')
      const path = this.path()
      this.#expect(',')
      const otherwise = this.#assigned()
      this.#expect(')')
      return {kind: 'if_not_exists', path, otherwise}
    }
    if (name !== 'list_append') throw invalid(`Invalid UpdateExpression: Invalid function name; function: ${name}`)
    this.#at++
    const [left, right] = this.#inParentheses(() => this.#assigned()) as [Assigned, Assigned]
    return {kind: 'list_append', left, right}
  }

  #change(): Update['add'][number] {
    return {path: this.path(), value: this.operand()}
  }

  #inParentheses<T>(read: () => T): T[] {
    this.#expect('(')
    const all = this.list(read)
    this.#expect(')')
    return all
  }

  #name(): string {
    const token = this.#next()
    if (!/^#?\w+$/.test(token)) throw this.#unexpected(-1)
    if (token.startsWith('#')) this.placeholders.add(token)
    return token
  }

  #peek(): string {
    return this.#tokens[this.#at] ?? ''
  }

  #next(): string {
    if (this.#at >= this.#tokens.length) throw this.#unexpected()
    return this.#tokens[this.#at++] as string
  }

  #take(token: string): boolean {
    if (this.#peek() !== token) return false
    this.#at++
    return true
  }

  #takeWord(word: string): boolean {
    if (this.#peek().toLowerCase() !== word) return false
    this.#at++
    return true
  }

  #expect(token: string): void {
    if (!this.#take(token)) throw this.#unexpected()
  }

  #unexpected(offset = 0) {
    const token = this.#tokens[this.#at + offset] ?? '<EOF>'
    return invalid(`Invalid ${this.#kind}: Syntax error; token: "${token}"`)
  }
}
