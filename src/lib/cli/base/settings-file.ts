import {readFile} from 'node:fs/promises'
import {dirname, join} from 'node:path'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {didYouMean, nearestNames} from '../../core/nearest.js'

/** Settings file of a project, next to its code. */
export const PROJECT_FILE = 'zael.config.json'

/** A settings file that exists: its entries, each with its line. */
export interface SettingsFile {
  readonly path: string
  readonly entries: ReadonlyMap<string, {readonly value: string; readonly line: number}>
}

/** The project file in the folder or its nearest ancestor that has one; `undefined` when there is none. */
export async function findUpward(folder: string, known: readonly string[]): Promise<SettingsFile | undefined> {
  for (let at = folder; ; at = dirname(at)) {
    const file = await readSettingsFile(join(at, PROJECT_FILE), known)
    if (file || at === dirname(at)) return file
  }
}

/** A settings file; `undefined` when it does not exist. */
export async function readSettingsFile(path: string, known: readonly string[]): Promise<SettingsFile | undefined> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    const {code} = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new ZaelError('failed', 'config.unreadable', `cannot read ${path}: ${(error as Error).message}`, {
      hint: 'Make the file readable, or remove it.',
      details: {file: path},
      cause: error,
    })
  }
  return {path, entries: new Reader(path, text, known).read()}
}

/** The error for a mistake in a settings file. It never repeats a value, which may be a secret. */
export function badSettingsFile(path: string, line: number, why: string, hint: string): InvalidInput {
  return new InvalidInput('config.file', `${path}, line ${line}: ${why}`, {hint, details: {file: path, line}})
}

const TOKEN = /"(?:[^"\\\n]|\\.)*"|[{}:,]|[^\s{}:,"]+|"/g

/** Reads one flat JSON object of strings. JSON.parse reports neither the line of a mistake nor a duplicate key. */
class Reader {
  readonly #tokens: {readonly text: string; readonly line: number}[]
  readonly #lastLine: number
  #at = 0

  constructor(
    readonly path: string,
    text: string,
    readonly known: readonly string[],
  ) {
    const withoutMark = text.replace(/^\uFEFF/, '')
    const lineAt = (index: number) => withoutMark.slice(0, index).split('\n').length
    this.#tokens = Array.from(withoutMark.matchAll(TOKEN), match => ({text: match[0], line: lineAt(match.index)}))
    this.#lastLine = lineAt(withoutMark.trimEnd().length)
  }

  read(): Map<string, {value: string; line: number}> {
    const entries = new Map<string, {value: string; line: number}>()
    this.#expect('{')
    while (this.#peek() !== '}') {
      if (entries.size > 0) this.#expect(',')
      const {line} = this
      const key = this.#text('a key in double quotes')
      if (!this.known.includes(key)) throw this.#unknown(key, line)
      if (entries.has(key)) throw this.#bad(line, `"${key}" is given twice`)
      this.#expect(':')
      entries.set(key, {value: this.#text(`a string in double quotes as the value of "${key}"`), line})
    }
    this.#expect('}')
    if (this.#peek() !== undefined) throw this.#bad(this.line, 'unexpected text after the closing "}"')
    return entries
  }

  get line(): number {
    return this.#tokens[this.#at]?.line ?? this.#lastLine
  }

  #peek(): string | undefined {
    return this.#tokens[this.#at]?.text
  }

  #expect(sign: string): void {
    if (this.#peek() !== sign) throw this.#bad(this.line, `expected "${sign}"`)
    this.#at++
  }

  #text(what: string): string {
    const token = this.#peek()
    const text = token?.startsWith('"') ? parsed(token) : undefined
    if (text === undefined) throw this.#bad(this.line, `expected ${what}`)
    this.#at++
    return text
  }

  #unknown(key: string, line: number): InvalidInput {
    const suggestion = didYouMean(nearestNames(key, this.known))
    const keys = `The keys are ${this.known.join(', ')}.`
    return badSettingsFile(this.path, line, `unknown key "${key}"`, suggestion ? `${suggestion} ${keys}` : keys)
  }

  #bad(line: number, why: string): InvalidInput {
    return badSettingsFile(this.path, line, why, 'Write one JSON object of strings, such as {"stack": "local"}.')
  }
}

function parsed(token: string): string | undefined {
  try {
    return JSON.parse(token)
  } catch {
    return undefined
  }
}
