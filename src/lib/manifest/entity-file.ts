import {InvalidInput} from '../core/errors.js'
import {CsvProblem, type CsvRecord, csvRecords} from '../files/csv.js'
import {reportIssues} from '../files/document-issues.js'
import {
  isMapping,
  type Mapping,
  newMapping,
  notOneOf,
  type Problem,
  reportProblems,
} from '../files/document-problems.js'
import type {ManifestEntity} from './manifest.js'
import {entity, entityId, parentCycles} from './schema.js'

export type EntityFileFormat = 'csv' | 'jsonl'

/** By id, in the order of the file. */
export type ListedEntities = ReadonlyMap<string, ManifestEntity>

const COLUMNS = ['id', 'name', 'parent', 'cascade', 'metadata.KEY', 'limits', 'limits.RESOURCE'] as const

/** CSV with a header, or JSON Lines with the fields of a manifest entity. Throws one error with all problems. */
export function parseEntityFile(
  text: string,
  format: EntityFileFormat,
  {file}: {readonly file: string},
): ListedEntities {
  const reader = new EntityReader()
  if (format === 'csv') readCsv(reader, text)
  else readLines(reader, text)
  const {problems} = reader
  if (problems.length === 0) reader.checkParents()
  if (problems.length > 0) throw fileInvalid(file, problems)
  if (reader.entities.size === 0) throw new InvalidInput('import.empty', `${file} has no entities.`, {details: {file}})
  return reader.entities
}

class EntityReader {
  readonly entities = new Map<string, ManifestEntity>()
  readonly problems: Problem[] = []
  readonly #lines = new Map<string, number>()

  report(line: number, path: readonly PropertyKey[], message: string): void {
    this.problems.push({line, column: 1, path: path.map(String).join('.'), message})
  }

  add(line: number, stated: Mapping): void {
    const {id, ...fields} = stated
    const checked = entityId.safeParse(typeof id === 'number' ? String(id) : id)
    for (const {message} of checked.error?.issues ?? []) {
      this.report(line, ['id'], id === undefined || id === '' ? 'the id is missing' : message)
    }
    const value = newMapping(Object.entries(fields))
    const {data, error} = entity.safeParse(value)
    const place = {
      report: (path: readonly PropertyKey[], message: string) => this.report(line, path, message),
      valueAt: (path: readonly PropertyKey[]) => valueAt(value, path),
    }
    reportIssues(place, error?.issues ?? [])
    if (checked.data === undefined || !data) return
    const before = this.#lines.get(checked.data)
    if (before !== undefined) this.report(line, ['id'], `"${checked.data}" is already in line ${before}`)
    this.#lines.set(checked.data, line)
    this.entities.set(checked.data, data)
  }

  checkParents(): void {
    const parents = new Map([...this.entities].map(([id, {parent}]) => [id, parent]))
    for (const cycle of parentCycles(parents)) {
      const message = `the parents form a cycle: ${cycle.join(' → ')}`
      this.report(this.#lines.get(cycle[0] ?? '') ?? 1, ['parent'], message)
    }
  }
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((at: unknown, key) => (isMapping(at) ? at[String(key)] : undefined), value)
}

function readLines(reader: EntityReader, text: string): void {
  for (const [at, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    try {
      const value: unknown = JSON.parse(line)
      const twice = keysGivenTwice(line)
      for (const path of twice) reader.report(at + 1, path, `${JSON.stringify(path.at(-1))} is given twice`)
      if (twice.length > 0) continue
      if (isMapping(value)) reader.add(at + 1, value)
      else reader.report(at + 1, [], 'a line must be an object such as {"id": "user-1"}')
    } catch (error) {
      reader.report(at + 1, [], `is not JSON: ${(error as Error).message}`)
    }
  }
}

/** Paths of repeated keys, which JSON.parse ignores. Expects valid JSON. */
function keysGivenTwice(json: string): string[][] {
  const twice: string[][] = []
  const open: {readonly keys: Set<string>; key?: string}[] = []
  // Only a key is followed by a colon.
  const colon = /\s*:/y
  for (let at = 0; at < json.length; at++) {
    const sign = json[at] as string
    if ('{['.includes(sign)) open.push({keys: new Set()})
    else if ('}]'.includes(sign)) open.pop()
    if (sign !== '"') continue
    const start = at
    for (at++; json[at] !== '"'; at++) if (json[at] === '\\') at++
    colon.lastIndex = at + 1
    const innermost = open.at(-1)
    if (!innermost || !colon.test(json)) continue
    const key = JSON.parse(json.slice(start, at + 1)) as string
    innermost.key = key
    if (innermost.keys.has(key)) twice.push(open.flatMap(each => each.key ?? []))
    innermost.keys.add(key)
  }
  return twice
}

function readCsv(reader: EntityReader, text: string): void {
  try {
    const [header, ...records] = csvRecords(text)
    if (!header) return
    const columns = header.fields.map(name => name.trim())
    checkHeader(reader, columns)
    if (reader.problems.length > 0) return
    for (const record of records) readRecord(reader, columns, record)
  } catch (error) {
    if (!(error instanceof CsvProblem)) throw error
    reader.report(error.line, [], error.message)
  }
}

function checkHeader(reader: EntityReader, columns: readonly string[]): void {
  const known: readonly string[] = COLUMNS.filter(name => !/[A-Z]/.test(name))
  if (!columns.includes('id')) reader.report(1, [], 'the column "id" is missing; the first line names the columns')
  const seen = new Set<string>()
  for (const name of columns) {
    const isKnown = known.includes(name) || /^(metadata|limits)\../.test(name)
    if (!isKnown) reader.report(1, [], notOneOf('a column', name, COLUMNS))
    else if (seen.has(name)) reader.report(1, [], `the column "${name}" is given twice`)
    seen.add(name)
  }
}

/** An empty cell keeps the stored value. */
function readRecord(reader: EntityReader, columns: readonly string[], {line, fields}: CsvRecord): void {
  if (fields.length > columns.length) {
    reader.report(line, [], `has ${fields.length} fields for ${columns.length} columns`)
    return
  }
  const [stated, metadata, resources] = [newMapping([]), newMapping([]), newMapping([])]
  for (const [at, name] of columns.entries()) {
    const cell = (fields[at] ?? '').trim()
    if (cell === '') continue
    const [part = '', ...rest] = name.split('.')
    const below = rest.join('.')
    if (name === 'cascade') stated.cascade = BOOLEANS.get(cell.toLowerCase()) ?? cell
    else if (name === 'limits') stated.limits = limitsIn(reader, line, name, cell)
    else if (part === 'limits') resources[below] = {limits: limitsIn(reader, line, name, cell)}
    else if (part === 'metadata') metadata[below] = cell
    else stated[name] = cell
  }
  if (Object.keys(metadata).length > 0) stated.metadata = metadata
  if (Object.keys(resources).length > 0) stated.resources = resources
  reader.add(line, stated)
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ...['true', 'yes', '1'].map(word => [word, true] as const),
  ...['false', 'no', '0'].map(word => [word, false] as const),
])

/** `rpm=60 tpm=10k/min`, as on the command line; quoted blanks belong to a limit. */
function limitsIn(reader: EntityReader, line: number, column: string, cell: string): Mapping {
  const limits = newMapping([])
  for (const text of wordsOf(cell)) {
    const equals = text.indexOf('=')
    const name = text.slice(0, Math.max(0, equals))
    if (name === '') reader.report(line, [column], `"${text}" is not a limit such as rpm=60`)
    else if (name in limits) reader.report(line, [column], `the limit "${name}" is given twice`)
    else limits[name] = text.slice(equals + 1)
  }
  return limits
}

/** Of a trimmed cell. Repeating a group would overflow the stack of a regular expression in a cell of 10 MB. */
function wordsOf(cell: string): string[] {
  const words: string[] = []
  let word = ''
  for (const [piece] of cell.matchAll(/\s+|[^\s"]+|"[^"]*"?/g)) {
    if (!/^\s/.test(piece)) word += piece
    else {
      words.push(word)
      word = ''
    }
  }
  return [...words, word]
}

function fileInvalid(file: string, problems: readonly Problem[]): InvalidInput {
  const {sorted, lines} = reportProblems(file, problems)
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  return new InvalidInput('import.invalid', `The file has ${count}:\n${lines.join('\n')}`, {
    hint: `Nothing was written. Columns: ${COLUMNS.join(', ')}; only id is required.`,
    details: {file, problems: sorted},
  })
}
