import {type Document, isMap, isScalar, LineCounter, type ParsedNode, parseDocument} from 'yaml'
import type {z} from 'zod'
import {InvalidInput} from '../../core/errors.js'
import {didYouMean, nearestNames} from '../../core/text/nearest.js'
import {optionFileSchema} from './option-schema.js'
import {STACK_OPTIONS, type StackOptionValues} from './options.js'

/** `at`: characters from the start of the file. */
interface FileProblem {
  readonly at: number
  readonly message: string
}

type Content = Readonly<Record<string, unknown>>

const KEYS = [...STACK_OPTIONS.map(({name}) => name), 'tags']

// A longer value would hide the rest of the message.
const MAX_SHOWN = 60

/** Parses YAML or JSON, and reports all problems at once. `file` is for messages. */
export function parseOptionFile(text: string, file: string) {
  const lines = new LineCounter()
  const document = parseDocument(text, {lineCounter: lines, prettyErrors: false})
  const fail = (problems: readonly FileProblem[]) => invalidFile(file, problems, lines)
  if (document.errors.length > 0) {
    throw fail(document.errors.map(({pos: [at], message}) => ({at, message: message.split('\n', 1)[0] ?? ''})))
  }
  if (document.contents === null) throw fail([{at: 0, message: 'it is empty'}])
  if (!isMap(document.contents)) throw fail([{at: 0, message: 'it must contain names and values'}])
  const content = plainValue(document, fail)
  const {data, error} = optionFileSchema.safeParse(content)
  if (error) throw fail(error.issues.flatMap(issue => problemsOf(document, content, issue)))
  const {tags = {}, ...options} = data
  return {options: options as StackOptionValues, tags}
}

/** Aliases can expand a short text without limit. */
function plainValue(document: Document, fail: (problems: readonly FileProblem[]) => InvalidInput): Content {
  try {
    return document.toJS({maxAliasCount: 100})
  } catch (error) {
    throw fail([{at: 0, message: (error as Error).message}])
  }
}

function problemsOf(document: Document, content: Content, issue: z.core.$ZodIssue): FileProblem[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map(key => ({at: keyPosition(document, [key]), message: unknownOption(key)}))
  }
  const path = issue.path.map(String)
  const [name = ''] = path
  const at = name === 'tags' && path.length > 1 ? keyPosition(document, path) : valuePosition(document, path)
  if (name === 'tags') return [{at, message: issue.message}]
  return [{at, message: `${name} is ${shown(content[name])}; it must be ${issue.message}`}]
}

/** Repeats only keys that look like names: others may be secrets pasted into the wrong place. */
function unknownOption(key: string): string {
  const suggestion = didYouMean(nearestNames(key, KEYS))
  const what = /^[\w-]{1,40}$/.test(key) ? `unknown option "${key}"` : 'unknown option'
  return suggestion === undefined ? what : `${what}. ${suggestion}`
}

function shown(value: unknown): string {
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return `"${text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text}"`
}

function valuePosition(document: Document, path: readonly string[]): number {
  const node = document.getIn(path, true) as ParsedNode | undefined
  return node?.range?.[0] ?? keyPosition(document, path)
}

function keyPosition(document: Document, path: readonly string[]): number {
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true)
  const items = isMap(parent) ? parent.items : []
  const pair = items.find(({key}) => String(isScalar(key) ? key.value : key) === path.at(-1))
  return (pair?.key as ParsedNode | undefined)?.range?.[0] ?? 0
}

function invalidFile(file: string, found: readonly FileProblem[], lines: LineCounter): InvalidInput {
  const problems = found
    .toSorted((a, b) => a.at - b.at)
    .map(({at, message}) => {
      const {line, col} = lines.linePos(at)
      return {
        line: Math.max(1, line),
        column: Math.max(1, col),
        message: /[.?]$/.test(message) ? message : `${message}.`,
      }
    })
  const rows = problems.map(({line, column, message}) => `${file}:${line}:${column}: ${message}`)
  return new InvalidInput('deploy.file', rows.join('\n'), {
    hint: `Write YAML or JSON with names and values, such as "lambdaMemory: 1024". The options are ${KEYS.join(', ')}.`,
    details: {file, problems},
  })
}
