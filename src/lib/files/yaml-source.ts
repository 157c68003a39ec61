import {
  type Alias,
  Composer,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  Parser,
  Scalar,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml'
import {formatCount} from '../core/text/text.js'
import {describeValue, type Mapping, newMapping, type Problem, WrittenScalar} from './document-problems.js'
import {isPlainText} from './yaml-text.js'

/** Aliases and merges are resolved. */
interface Located {
  readonly node: Node
  /** Aliases share the value of their anchor, to save memory. */
  readonly value: unknown
  readonly fields?: ReadonlyMap<string, Field>
  readonly items?: readonly Located[]
  /** Number of values, with aliases written out. */
  readonly size: number
}

interface Field {
  readonly key: Node
  readonly at: Located
}

type Path = readonly PropertyKey[]

export interface ProblemPlace {
  /** `key`: at the key of the last entry. The problem's path is then the mapping's path. */
  readonly at?: 'key' | 'value'
  /** Characters into a plain scalar. */
  readonly offset?: number
}

// A short text can stand for a huge one, by aliases of aliases or repeated merges.
const MAX_VALUES = 1_000_000
const MAX_MERGE_LIST = 100

/** YAML as values for a schema (see `document-problems.ts`), with their positions and problems. */
export class Source {
  readonly problems: Problem[] = []
  readonly #composed: Composed
  readonly #root: Located | undefined
  readonly #anchors = new Map<string, Node>()
  readonly #located = new Map<Node, Located>()
  #merged = 0

  constructor(text: string, {secondDocument}: {readonly secondDocument: string}) {
    this.#composed = composeYaml(text.replace(/^\uFEFF/, ''))
    const {document, errors} = this.#composed
    for (const {offset, code, message} of errors) {
      this.#reportAt(offset, [], code === 'MULTIPLE_DOCS' ? `${message}; ${secondDocument}` : message)
    }
    if (errors.length > 0) return
    try {
      this.#root = this.#locate((document?.contents as Node | null | undefined) ?? new Scalar(null), [])
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error
      this.#reportNode(error.node, [], error.message)
    }
  }

  get value(): unknown {
    return this.#root?.value
  }

  report(path: Path, message: string, {at = 'value', offset = 0}: ProblemPlace = {}): void {
    const {here, key, depth} = this.#find(path)
    const isKey = at === 'key' && depth === path.length
    const isPlain = isScalar(here.node) && here.node.type === Scalar.PLAIN
    if (isKey) this.#reportNode(key, path.slice(0, -1), message)
    else this.#reportNode(here.node, path.slice(0, depth), message, isPlain ? offset : 0)
  }

  valueAt(path: Path): unknown {
    return this.#find(path).here.value
  }

  #find(path: Path): {here: Located; key: Node; depth: number} {
    let here = this.#root as Located
    let key = here.node
    let depth = 0
    for (; depth < path.length; depth++) {
      const name = path[depth] as string | number
      const field = here.fields?.get(String(name))
      const next: Located | undefined = field?.at ?? here.items?.[Number(name)]
      if (!next) break
      key = field?.key ?? next.node
      here = next
    }
    return {here, key, depth}
  }

  /** Must run in the order of the text: an alias refers to the last anchor of that name before it. */
  #locate(node: Node, path: Path): Located {
    if (isAlias(node)) return {...this.#target(node), node}
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node)
    const located = isMap(node) ? this.#mapping(node, path) : isSeq(node) ? this.#list(node, path) : scalarOf(node)
    if (located.size > MAX_VALUES) {
      throw new Unreadable(node, `this has more than ${formatCount(MAX_VALUES)} values after expanding aliases`)
    }
    this.#located.set(node, located)
    return located
  }

  #target(alias: Alias): Located {
    const anchor = this.#anchors.get(alias.source)
    if (!anchor) throw new Unreadable(alias, `the anchor &${alias.source} is not defined before this alias`)
    const target = this.#located.get(anchor)
    if (!target) throw new Unreadable(alias, `the alias *${alias.source} refers to itself`)
    return target
  }

  #list(node: YAMLSeq, path: Path): Located {
    const items = (node.items as Node[]).map((item, at) => this.#locate(item, [...path, at]))
    return {node, items, value: items.map(({value}) => value), size: sizeOf(items)}
  }

  /** Own entries win over merged ones. */
  #mapping(node: YAMLMap, path: Path): Located {
    const fields = new Map<string, Field>()
    const merged: Located[] = []
    for (const {key, value} of node.items as YAMLMap<Node, Node | null>['items']) {
      const {value: written} = this.#locate(key, path)
      const name = written instanceof WrittenScalar ? written.text : written
      const content = value ?? emptyAfter(key)
      if (typeof name !== 'string') {
        this.#reportNode(key, path, `a key must be a name, not ${describeValue(written)}`)
        continue
      }
      const at = this.#locate(content, [...path, name])
      if (name === '<<') merged.push(...this.#mergeList(at))
      else if (fields.has(name)) this.#reportNode(key, path, `${JSON.stringify(name)} is given twice`)
      else fields.set(name, {key, at})
    }
    for (const other of merged) this.#merge(other, fields, path)
    const value = newMapping([...fields].map(([name, {at}]) => [name, at.value]))
    return {node, fields, value, size: sizeOf([...fields.values()].map(({at}) => at))}
  }

  #mergeList(at: Located): readonly Located[] {
    if (!at.items) return [at]
    if (at.items.length <= MAX_MERGE_LIST) return at.items
    throw new Unreadable(
      at.node,
      `<< merges ${formatCount(at.items.length)} mappings; the maximum is ${MAX_MERGE_LIST}`,
    )
  }

  #merge({node, fields: others, value}: Located, fields: Map<string, Field>, path: Path): void {
    if (!others) {
      this.#reportNode(node, path, `<< needs a mapping or a list of mappings, not ${describeValue(value)}`)
      return
    }
    this.#merged += others.size
    if (this.#merged > MAX_VALUES) {
      throw new Unreadable(node, `the merges of this file add more than ${formatCount(MAX_VALUES)} entries`)
    }
    for (const [name, field] of others) if (!fields.has(name)) fields.set(name, field)
  }

  #reportNode(node: Node, path: Path, message: string, offset = 0): void {
    this.#reportAt((node.range?.[0] ?? 0) + offset, path, message)
  }

  #reportAt(offset: number, path: Path, message: string): void {
    this.problems.push({...this.#composed.position(offset), path: path.join('.'), message})
  }
}

class Unreadable extends Error {
  constructor(
    readonly node: Node,
    message: string,
  ) {
    super(message)
  }
}

function sizeOf(parts: readonly Located[]): number {
  return parts.reduce((sum, {size}) => sum + size, 1)
}

function scalarOf(node: Node): Located {
  const {value = null, source = '', type} = isScalar(node) ? node : {}
  // YAML 1.1, which the Python system reads, allows digit groups: 1_000 is a number there and a text here.
  const isNumber = type === Scalar.PLAIN && /^\d[\d_]*$/.test(source)
  const isText = value === null || (typeof value === 'string' && !isNumber)
  return {node, value: isText ? value : new WrittenScalar(value, source), size: 1}
}

function emptyAfter(key: Node): Node {
  const empty = new Scalar(null)
  if (key.range) empty.range = key.range
  return empty
}

type Token = ReturnType<Parser['parse']> extends Iterable<infer T> ? T : never

export interface Composed {
  readonly document: Document.Parsed | undefined
  readonly errors: ReadonlyArray<{readonly offset: number; readonly code: string; readonly message: string}>
  position(offset: number): {line: number; column: number}
}

// DynamoDB allows 32 levels of metadata. The composer is recursive: thousands of levels would crash the process.
const MAX_DEPTH = 64

/** Like yaml's `parseDocument`, but too deep nesting is an error. JSON is a subset of YAML. */
export function composeYaml(text: string): Composed {
  const lines = new LineCounter()
  const tokens = [...new Parser(lines.addNewLine).parse(text)]
  const position = (offset: number) => {
    const {line, col} = lines.linePos(offset)
    return {line: Math.max(1, line), column: Math.max(1, col)}
  }
  const tooDeep = firstDeeperThan(MAX_DEPTH, tokens)
  if (tooDeep !== undefined) {
    const message = `this is nested more than ${MAX_DEPTH} levels deep`
    return {document: undefined, errors: [{offset: tooDeep, code: 'DEPTH', message}], position}
  }
  // Callers find duplicate keys: yaml compares every key with every other.
  const options = {prettyErrors: false, uniqueKeys: false} as const
  const [document, second] = new Composer(options).compose(tokens, true, text.length)
  const errors = [...(document?.errors ?? []), ...(document?.warnings ?? [])].map(({pos, code, message}) => {
    return {offset: pos[0], code: code as string, message}
  })
  if (second) errors.push({offset: second.range[0], code: 'MULTIPLE_DOCS', message: 'a second document begins here'})
  return {document: document as Document.Parsed | undefined, errors, position}
}

function firstDeeperThan(levels: number, tokens: readonly Token[]): number | undefined {
  let level: readonly Token[] = tokens
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > levels) return (level[0] as {offset: number}).offset
    level = level.flatMap(childrenOf)
  }
  return undefined
}

function childrenOf(token: Token): Token[] {
  const children: unknown[] = 'value' in token ? [token.value] : []
  if ('items' in token) for (const {key, value} of token.items) children.push(key, value)
  return children.filter(child => typeof child === 'object' && child !== null) as Token[]
}

/** Every version of YAML reads these alike, and a number can hold them. */
const WHOLE = /^(?:0|-?[1-9]\d{0,14})$/

const DEEPEST_PLAIN = 10

/** YAML refuses longer keys on the line of their value. */
const LONGEST_KEY = 1024

/**
 * Returns the same values as `Source`, 14 times as fast. `undefined` unless the text has the form of `plainYaml`,
 * without lists.
 */
export function readPlainYaml(text: string): Mapping | undefined {
  const lines = text.split('\n')
  if (lines.pop() !== '') return undefined
  let at = 0
  const readMapping = (column: number): Mapping | undefined => {
    if (column > 2 * DEEPEST_PLAIN) return undefined
    const mapping: Mapping = Object.create(null)
    const first = at
    while (at < lines.length) {
      const line = lines[at] as string
      const begin = line.search(/[^ ]/)
      if (begin < column) break
      const colon = keyEnd(line)
      const key = line.slice(column, colon)
      if (begin > column || colon < 0 || key.length > LONGEST_KEY) return undefined
      if (!isPlainText(key) || key in mapping) return undefined
      at++
      const value = colon === line.length - 1 ? readMapping(column + 2) : plainScalar(line.slice(colon + 2))
      if (value === undefined) return undefined
      mapping[key] = value
    }
    return at === first ? undefined : mapping
  }
  const root = readMapping(0)
  return at === lines.length ? root : undefined
}

function keyEnd(line: string): number {
  const colon = line.indexOf(': ')
  return colon < 0 && line.endsWith(':') ? line.length - 1 : colon
}

function plainScalar(text: string): unknown {
  if (text === 'null') return null
  if (text === 'true' || text === 'false') return new WrittenScalar(text === 'true', text)
  if (WHOLE.test(text)) return new WrittenScalar(Number(text), text)
  return isPlainText(text) ? text : undefined
}
