import {InvalidInput} from '../core/errors.js'
import {DEFAULT_RESOURCE} from '../core/names.js'
import {reportIssues} from '../files/document-issues.js'
import {asText, isMapping, type Mapping, newMapping, type Problem, reportProblems} from '../files/document-problems.js'
import {readPlainYaml, Source} from '../files/yaml-source.js'
import type {Manifest, ManifestEntity} from './manifest.js'
import {entitiesSchema, manifestSchema, type Parents, parentCycles} from './schema.js'

/** YAML or JSON. Throws one error with all problems and their positions. */
export function parseManifest(text: string, {file}: {readonly file: string}): Manifest {
  const source = new Source(text, {secondDocument: SECOND_DOCUMENT})
  const manifest = source.value === undefined ? undefined : checkManifest(source, source.value)
  if (!manifest || source.problems.length > 0) throw manifestInvalid(file, source.problems)
  return manifest
}

const SECOND_DOCUMENT = 'a file is for one namespace'

function checkManifest(source: Source, value: unknown): Manifest | undefined {
  if (value === null) {
    source.report([], 'the file is empty; it needs at least "namespace"')
    return undefined
  }
  const {data, error} = manifestSchema.safeParse(value)
  reportIssues(source, error?.issues ?? [])
  // Outside the schema, which would check them only if there is no other problem.
  const entities = Object.entries(mappingOf(mappingOf(value).entities))
  for (const [id, entity] of entities) if (setsDefaultTwice(entity)) reportSecondDefault(source, id)
  const parents = new Map(entities.map(([id, entity]) => [id, statedParent(entity)]))
  for (const cycle of parentCycles(parents)) reportCycle(source, cycle)
  return data
}

const mappingOf = (value: unknown): Mapping => (isMapping(value) ? value : {})

const statedParent = (entity: unknown): unknown => asText(mappingOf(entity).parent)

function setsDefaultTwice(entity: unknown): boolean {
  const {limits, resources} = mappingOf(entity)
  return limits !== undefined && Object.hasOwn(mappingOf(resources), DEFAULT_RESOURCE)
}

function reportSecondDefault(source: Source, id: string): void {
  const message = `"limits" of the entity already sets ${DEFAULT_RESOURCE}; give only one of them`
  source.report(['entities', id, 'resources', DEFAULT_RESOURCE], message)
}

function reportCycle(source: Source, cycle: readonly string[]): void {
  source.report(['entities', cycle[0] as string, 'parent'], `the parents form a cycle: ${cycle.join(' → ')}`)
}

function manifestInvalid(file: string, problems: readonly Problem[]): InvalidInput {
  const {sorted, lines} = reportProblems(file, problems)
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  return new InvalidInput('manifest.invalid', `The manifest has ${count}:\n${lines.join('\n')}`, {
    hint: 'Nothing was read or written. Fix the file and check it with `zael limits validate`.',
    details: {file, problems: sorted},
  })
}

interface Block {
  readonly text: string
  readonly line: number
}

/** Blocks may depend on each other from this line on. */
export class NotInBlocks extends Error {
  constructor(readonly line: number) {
    super(`not in blocks from line ${line} on`)
  }
}

/** Sections before the entities. Other unindented lines may affect the lines that follow. */
const HEAD_LINE = /^(?:namespace|system|resources):(?: |\n)/

const ENTITIES_LINE = /^entities:\n(?: *(?:#.*)?\n)*$/

/** A possible anchor, alias or merge: it may refer to another block. */
const REFERENCE = /(?:^|[\s[{,:"'-])(?:[&*]|<<)/

/** Control characters other than newline: some readers treat some as line ends. */
const ODD_SIGN = /[^\P{Cc}\n]|\uFEFF/u

const ONE_SPACE = /^ [^ #\n]/m

const COMMENTS = /^(?: *(?:#.*)?\n)*$/

// A flow mapping, tag or explicit key: valid as the only entity, but not after another block. Or an id near the maximum
// key length of YAML, which counts from the end of the previous block.
const NO_USUAL_KEY = /^ {2}(?:[{!?]|[^:\n]{1000})/

/** Groups: the line of the id, the lines of name and parent, the rest. */
const PARTS = /^( {2}[^\n]+):\n((?: {4}(?:name|parent): [^\n]+\n){0,2})( {4}[^ ].*)$/s

/** A name or parent in the rest: then other entities cannot share it. */
const OWN_LINE = /^ {4}(?:name|parent):/m

/** Bounds the cache of parsed rests: most entities of a manifest have the same limits. */
const MOST_SHARED = 10_000

const SECTION = 'entities:\n'

/**
 * Parses one entity at a time: YAML nodes of 10,000 entities take 200 MB. Results and problems equal `parseManifest`.
 * Throws `NotInBlocks` if entities are not the last section or not indented by two spaces, for anchors and non-YAML.
 * Calls `pieces` again when parents form a cycle.
 */
export function parseManifestBlocks(pieces: () => Iterable<string>, {file}: {readonly file: string}): Manifest {
  const reader = new BlockReader()
  let head = ''
  let section: 'none' | 'head' | 'entities' = 'none'
  for (const block of blocksOf(pieces())) {
    const {text, line} = block
    const isTop = !text.startsWith('  ')
    if (ODD_SIGN.test(text) || ONE_SPACE.test(text)) throw new NotInBlocks(line)
    if (section === 'entities' && !isTop) reader.add(block)
    else if (section === 'head' && ENTITIES_LINE.test(text)) section = 'entities'
    else if (section !== 'entities' && HEAD_LINE.test(text)) section = 'head'
    else if (section === 'head' ? isTop : line > 1 || !COMMENTS.test(text)) throw new NotInBlocks(line)
    if (section !== 'entities') head += text
  }
  return reader.finish(head, pieces, file)
}

class BlockReader {
  /** An invalid entity has only its stated parent, of any type. */
  readonly #entities = new Map<string, ManifestEntity>()
  /** Interned ids: children of one parent share the string. */
  readonly #parents = new Map<string, string>()
  readonly #problems: Problem[] = []
  readonly #shared = new Map<string, ManifestEntity>()

  add(block: Block): void {
    const parts = partsOf(block.text)
    if (parts && this.#addLike(parts)) return
    const plain = readPlainYaml(SECTION + block.text)
    const source = plain ? undefined : sourceOf(block)
    const [id, value] = onlyEntity(plain ?? source?.value, block.line)
    const isSecond = this.#entities.has(id)
    const {data, error} = isSecond ? {} : entitiesSchema.safeParse(newMapping([[id, value]]))
    const isTwice = !isSecond && setsDefaultTwice(value)
    if (!data || isTwice || (source && source.problems.length > 0)) {
      const found = source ?? sourceOf(block)
      if (!isSecond) this.#entities.set(id, {parent: statedParent(value) as string, scopes: new Map()})
      if (isSecond) found.report(['entities', id], `${JSON.stringify(id)} is given twice`, {at: 'key'})
      reportIssues(found, error?.issues ?? [], ['entities'])
      if (isTwice) reportSecondDefault(found, id)
      this.#keepProblems(found.problems, block)
      return
    }
    const entity = data[id] as ManifestEntity
    this.#entities.set(id, entity)
    if (!plain || !parts || this.#shared.size >= MOST_SHARED) return
    const {name: _name, parent: _parent, ...same} = entity
    this.#shared.set(parts[3] as string, same)
  }

  /** Lines count from `SECTION`, which was put before the block. */
  #keepProblems(problems: readonly Problem[], {line: first}: Block): void {
    for (const problem of problems) this.#problems.push({...problem, line: problem.line + first - 2})
  }

  /** Shares an earlier entity's values, apart from name and parent. False: not possible, parse it in the usual way. */
  #addLike([, idLine, own, rest]: RegExpExecArray): boolean {
    const same = this.#shared.get(rest as string)
    const plain = same && readPlainYaml(own === '' ? `${SECTION}${idLine}: null\n` : `${SECTION}${idLine}:\n${own}`)
    if (!plain) return false
    const [id, value] = onlyEntity(plain, 1)
    const {data} = entitiesSchema.safeParse(newMapping([[id, value ?? newMapping([])]]))
    if (!data || this.#entities.has(id)) return false
    this.#entities.set(id, {...this.#withOwnTexts(data[id] as ManifestEntity), ...same})
    return true
  }

  /** Copies strings: a substring keeps its whole block in memory. */
  #withOwnTexts({name, parent, ...rest}: ManifestEntity): ManifestEntity {
    if (typeof parent === 'string' && !this.#parents.has(parent)) this.#parents.set(parent, ownText(parent))
    return {
      ...rest,
      ...(name !== undefined && {name: ownText(name)}),
      ...(parent !== undefined && {parent: parent === null ? null : (this.#parents.get(parent) as string)}),
    }
  }

  finish(head: string, pieces: () => Iterable<string>, file: string): Manifest {
    const source = new Source(head, {secondDocument: SECOND_DOCUMENT})
    // Leave these cases to `parseManifest`.
    if (!isMapping(source.value) || REFERENCE.test(head) || this.#entities.size === 0) throw new NotInBlocks(1)
    const {data, error} = manifestSchema.safeParse(source.value)
    reportIssues(source, error?.issues ?? [])
    this.#problems.push(...source.problems)
    this.#reportCycles(pieces)
    if (!data || this.#problems.length > 0) throw manifestInvalid(file, this.#problems)
    return {...data, entities: inObjectOrder(this.#entities)}
  }

  #reportCycles(pieces: () => Iterable<string>): void {
    const cycles = new Map(parentCycles(parentsOf(inObjectOrder(this.#entities))).map(cycle => [cycle[0], cycle]))
    if (cycles.size === 0) return
    for (const block of blocksOf(pieces())) {
      if (!block.text.startsWith('  ')) continue
      const source = sourceOf(block)
      const cycle = cycles.get(Object.keys((source.value as {entities: Mapping}).entities)[0])
      if (!cycle) continue
      reportCycle(source, cycle)
      this.#keepProblems(source.problems.slice(-1), block)
      cycles.delete(cycle[0])
    }
  }
}

const ownText = (text: string): string => Buffer.from(text).toString()

function parentsOf(entities: ReadonlyMap<string, ManifestEntity>): Parents {
  return {keys: () => entities.keys(), has: id => entities.has(id), get: id => entities.get(id)?.parent}
}

function partsOf(text: string): RegExpExecArray | undefined {
  const parts = PARTS.exec(text)
  return parts && !OWN_LINE.test(parts[3] as string) ? parts : undefined
}

function sourceOf({text, line}: Block): Source {
  if (REFERENCE.test(text) || NO_USUAL_KEY.test(text)) throw new NotInBlocks(line)
  const source = new Source(SECTION + text, {secondDocument: SECOND_DOCUMENT})
  if (source.value === undefined) throw new NotInBlocks(line)
  return source
}

function onlyEntity(value: unknown, line: number): [id: string, value: unknown] {
  const section = isMapping(value) ? value.entities : undefined
  const [first, second] = isMapping(section) ? Object.entries(section) : []
  // With the key `__proto__`, the schema checks nothing else in the section.
  if (!first || second || first[0] === '__proto__') throw new NotInBlocks(line)
  return first
}

/** Object key order, whole numbers first, as in `parseManifest`. */
function inObjectOrder<T>(map: ReadonlyMap<string, T>): ReadonlyMap<string, T> {
  const isNumber = (id: string) => /^(?:0|[1-9]\d{0,9})$/.test(id) && Number(id) < 2 ** 32 - 1
  const numbers = [...map.keys()].filter(isNumber).sort((a, b) => Number(a) - Number(b))
  if (numbers.length === 0) return map
  const first = numbers.map(id => [id, map.get(id) as T] as const)
  return new Map([...first, ...[...map].filter(([id]) => !isNumber(id))])
}

/** Characters. An entity has a few hundred; a longer block is searched again with every piece. */
const LONGEST_BLOCK = 2 ** 20

/** A line with no indent or two spaces, comments excluded. Only ` ` indents: a key may begin with U+00A0. */
const BOUNDARY = /\n(?=(?: {2})?[^ #\n])/g

/** Splits where a key of the first or second level may begin. Throws `NotInBlocks` for a very long block. */
function* blocksOf(pieces: Iterable<string>): Generator<Block, void> {
  let rest = ''
  let line = 1
  for (const piece of pieces) {
    rest += piece
    let from = 0
    for (const {index} of rest.matchAll(BOUNDARY)) {
      const text = rest.slice(from, index + 1)
      yield {text, line}
      line += lineCount(text)
      from = index + 1
    }
    rest = rest.slice(from)
    if (rest.length > LONGEST_BLOCK) throw new NotInBlocks(line)
  }
  if (rest !== '') yield {text: rest, line}
}

function lineCount(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++
  return count
}
