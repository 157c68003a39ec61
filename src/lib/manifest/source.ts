import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  Scalar,
  visit,
  type YAMLMap,
} from 'yaml'
import {notOneOf, type Problem} from './problems.js'

/** A key of a mapping and its value. */
interface SourceEntry {
  readonly name: string
  readonly key: Node
  readonly value: Node
}

// Levels of nested merges; also ends a mapping that merges itself.
const MAX_MERGE_DEPTH = 8

/** The text of a manifest as nodes with positions, and the problems found in them. */
export class ManifestSource {
  readonly problems: Problem[] = []
  /** The whole document; `undefined` when the text cannot be read as YAML. */
  readonly root: Node | undefined
  readonly #lines = new LineCounter()
  readonly #targets = new Map<Alias, Node>()

  constructor(text: string) {
    const document = parseDocument(text, {lineCounter: this.#lines, prettyErrors: false, uniqueKeys: false})
    for (const {pos, code, message} of [...document.errors, ...document.warnings]) {
      this.#reportAt(
        pos[0],
        '',
        code === 'MULTIPLE_DOCS' ? 'a second document begins here; a file is for one namespace' : message,
      )
    }
    const anchors = new Map<string, Node>()
    visit(document, {
      Node: (_, node) => {
        if (!isAlias(node)) {
          if (node.anchor !== undefined) anchors.set(node.anchor, node)
          return
        }
        const target = anchors.get(node.source)
        if (target) this.#targets.set(node, target)
        else this.report(node, '', `there is no anchor &${node.source} before this`)
      },
    })
    const contents = document.contents as Node | null
    this.root = this.problems.length === 0 ? (contents ?? new Scalar(null)) : undefined
  }

  /** `offset`: characters into the text of a scalar. */
  report(node: Node, path: string, message: string, offset = 0): void {
    this.#reportAt((node.range?.[0] ?? 0) + offset, path, message)
  }

  /** The node itself, or the target of an alias. */
  resolve(node: Node): Node {
    return isAlias(node) ? (this.#targets.get(node) as Node) : node
  }

  /** The entries of a mapping, each name once; merged entries come last. */
  entries(node: Node, path: string, what: string): SourceEntry[] {
    const found = new Map<string, SourceEntry>()
    this.#collect(node, path, what, found, 0)
    return [...found.values()]
  }

  /** The entries of a mapping with known names; others are reported with the most similar one. */
  fields<Name extends string>(node: Node, path: string, what: string, names: readonly Name[]): Map<Name, Node> {
    const fields = new Map<Name, Node>()
    for (const {name, key, value} of this.entries(node, path, what)) {
      if ((names as readonly string[]).includes(name)) fields.set(name as Name, value)
      else this.report(key, path, notOneOf('a key here', name, names))
    }
    return fields
  }

  /** A text; a number is taken as it is written. `rule` describes what is expected. */
  text(node: Node, path: string, rule: string): string | undefined {
    const name = nameOf(this.resolve(node))
    if (name === undefined) this.report(node, path, `${rule}, not ${this.kindOf(node)}`)
    return name
  }

  /** Describes a node for messages. */
  kindOf(node: Node): string {
    const target = this.resolve(node)
    if (isMap(target)) return 'a mapping'
    if (isSeq(target)) return 'a list'
    const value = isScalar(target) ? target.value : undefined
    if (value === null || value === undefined) return 'empty'
    return typeof value === 'string' ? `the text ${JSON.stringify(value)}` : String(value)
  }

  #collect(node: Node, path: string, what: string, found: Map<string, SourceEntry>, depth: number): void {
    const target = this.resolve(node)
    if (!isMap(target) || depth > MAX_MERGE_DEPTH) {
      const message =
        depth > MAX_MERGE_DEPTH
          ? `${what}: merges are nested too deeply`
          : `${what} must be a mapping, not ${this.kindOf(node)}`
      this.report(node, path, message)
      return
    }
    const own = new Set<string>()
    const merged: Node[] = []
    for (const {key, value} of target.items as YAMLMap<Node, Node | null>['items']) {
      const name = nameOf(this.resolve(key))
      const content = value ?? emptyAfter(key)
      if (name === undefined) this.report(key, path, `a key must be a name, not ${this.kindOf(key)}`)
      else if (name === '<<') merged.push(...(isSeq(content) ? (content.items as Node[]) : [content]))
      else if (own.has(name)) this.report(key, path, `"${name}" is given twice`)
      else {
        own.add(name)
        if (!found.has(name)) found.set(name, {name, key, value: content})
      }
    }
    for (const other of merged) this.#collect(other, path, what, found, depth + 1)
  }

  #reportAt(offset: number, path: string, message: string): void {
    const {line, col} = this.#lines.linePos(offset)
    this.problems.push({line: Math.max(1, line), column: Math.max(1, col), path, message})
  }
}

/** A scalar as a name; numbers and `true` are taken as written, so that 007 stays 007. */
function nameOf(node: Node): string | undefined {
  if (!isScalar(node) || node.value === null || node.value === undefined) return undefined
  return typeof node.value === 'string' ? node.value : node.source
}

function emptyAfter(key: Node): Node {
  const empty = new Scalar(null)
  if (key.range) empty.range = key.range
  return empty
}
