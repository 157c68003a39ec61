import {groupBy} from '../core/group-by.js'
import {nearestNames} from '../core/text/nearest.js'
import {formatCount} from '../core/text/text.js'

export interface Problem {
  readonly line: number
  /** From 1, in characters. */
  readonly column: number
  /** Such as `resources.gpt-4.limits.rpm`; empty for the whole file. */
  readonly path: string
  readonly message: string
}

const MAX_PROBLEMS = 100

export function reportProblems(
  file: string,
  problems: readonly Problem[],
  excerpt: (problem: Problem) => readonly string[] = () => [],
): {sorted: Problem[]; lines: string[]} {
  const sorted = [...problems].sort((a, b) => a.line - b.line || a.column - b.column)
  const groups = [...groupBy(sorted, ({path, message}) => `${path}\n${message}`).values()]
  const lines = groups.slice(0, MAX_PROBLEMS).flatMap(same => {
    const [problem] = same as [Problem]
    const {line, column, path, message} = problem
    const places = same.length === 1 ? `${line}:${column}` : lineRanges(same)
    const count = same.length === 1 ? '' : ` (${formatCount(same.length)} times)`
    return [`  ${file}:${places} ${path === '' ? '' : `${path}: `}${message}${count}`, ...excerpt(problem)]
  })
  const rest = groups.slice(MAX_PROBLEMS).flat().length
  if (rest > 0) lines.push(`  and ${formatCount(rest)} more`)
  return {sorted: sorted.slice(0, MAX_PROBLEMS), lines: lines.map(printable)}
}

const MOST_RANGES = 10

/** `2-31,35,40-42`, sorted. */
function lineRanges(problems: readonly Problem[]): string {
  const ranges: {from: number; to: number}[] = []
  for (const {line} of problems) {
    const last = ranges.at(-1)
    if (last && line <= last.to + 1) last.to = line
    else ranges.push({from: line, to: line})
  }
  const texts = ranges.map(({from, to}) => (from === to ? `${from}` : `${from}-${to}`))
  return texts.length > MOST_RANGES ? `${texts.slice(0, MOST_RANGES).join(',')},…` : texts.join(',')
}

export function notOneOf(what: string, name: string, allowed: readonly string[]): string {
  const [nearest] = nearestNames(name.toLowerCase(), allowed)
  const problem = `${JSON.stringify(name)} is not ${what}`
  return nearest ? `${problem}; did you mean "${nearest}"?` : `${problem}; allowed: ${allowed.join(', ')}`
}

/** The file may contain control characters, which must not control the terminal. */
function printable(line: string): string {
  return line.replaceAll(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu, sign => {
    return sign === '\t' ? sign : `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** A YAML number or boolean with its spelling: where a name is expected, 007 stays 007. */
export class WrittenScalar {
  constructor(
    readonly value: unknown,
    readonly text: string,
  ) {}
}

/** Without a prototype, so that every name can be a key. */
export interface Mapping {
  [key: string]: unknown
}

export function newMapping(entries: Iterable<readonly [string, unknown]>): Mapping {
  const mapping: Mapping = Object.create(null)
  for (const [name, value] of entries) mapping[name] = value
  return mapping
}

export function isMapping(value: unknown): value is Mapping {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof WrittenScalar)
}

export function asText(value: unknown): unknown {
  return value instanceof WrittenScalar ? value.text : value
}

export function asRead(value: unknown): unknown {
  return value instanceof WrittenScalar ? value.value : value
}

export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return 'empty'
  if (Array.isArray(value)) return 'a list'
  if (isMapping(value)) return 'a mapping'
  return typeof value === 'string' ? `the text ${JSON.stringify(value)}` : String(asText(value))
}
