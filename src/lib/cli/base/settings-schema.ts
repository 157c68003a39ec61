import {isMap, isScalar, type Node, Scalar, type YAMLMap} from 'yaml'
import {InvalidInput} from '../../core/errors.js'
import {notOneOf, type Problem, reportProblems} from '../../files/document-problems.js'
import {composeYaml} from '../../files/yaml-source.js'
import {
  projectSettingProblem,
  SETTING_KEYS,
  type SettingKey,
  type SettingsFileKind,
  settingProblem,
} from './setting-rules.js'

type Entries = ReadonlyMap<string, {readonly key: Node; readonly value: Node | null}>
type Report = (offset: number, message: string) => void

/** Throws one error with all problems, without values: they may be secret. JSON.parse reports no positions or duplicates. */
export function parseSettings(
  text: string,
  file: string,
  kind: SettingsFileKind,
): Map<string, {value: string; line: number}> {
  const {document, errors, position} = composeYaml(text)
  const problems: Problem[] = []
  const report: Report = (offset, message) => problems.push({...position(offset), path: '', message})
  const [first] = errors
  // The other errors follow from the first.
  if (first) report(first.offset, syntaxMessage(first, text))
  const entries: Entries = first ? new Map() : entriesIn((document?.contents ?? null) as Node | null, text, report)
  const settings = new Map<string, {value: string; line: number}>()
  for (const [name, {key, value: node}] of entries) {
    const value = jsonString(node, text)
    const problem = problemOf(name, value, kind)
    if (problem !== undefined) report(startOf(isSetting(name) ? (node ?? key) : key), problem)
    else settings.set(name, {value: value ?? '', line: position(startOf(key)).line})
  }
  if (problems.length === 0) reportYaml(text, report)
  if (problems.length > 0) throw settingsInvalid(file, problems, text)
  return settings
}

const isSetting = (name: string): name is SettingKey => SETTING_KEYS.some(key => key === name)

/** An empty string counts as not given. */
function problemOf(name: string, value: string | undefined, kind: SettingsFileKind): string | undefined {
  if (!isSetting(name)) return notOneOf('a key here', name, SETTING_KEYS)
  if (value === undefined) return `the value of "${name}" must be a JSON string, in double quotes`
  if (value === '') return undefined
  return kind === 'project' ? projectSettingProblem(name, value) : settingProblem(name, value)
}

function entriesIn(root: Node | null, text: string, report: Report): Entries {
  const entries = new Map<string, {key: Node; value: Node | null}>()
  if (!isMap(root) || !root.flow) {
    report(startOf(root), 'the file must be one JSON object, such as {"stack": "local"}')
    return entries
  }
  for (const {key, value} of root.items as YAMLMap<Node, Node | null>['items']) {
    const name = jsonString(key, text)
    if (name === undefined) report(startOf(key), 'a key must be a string in double quotes')
    else if (entries.has(name)) report(startOf(key), `${JSON.stringify(name)} is given twice`)
    else entries.set(name, {key, value})
  }
  return entries
}

/** `undefined` unless valid JSON: YAML also has other quotes, more escapes and multi-line strings. */
function jsonString(node: Node | null, text: string): string | undefined {
  if (!isScalar(node) || node.type !== Scalar.QUOTE_DOUBLE || !node.range) return undefined
  try {
    return JSON.parse(text.slice(node.range[0], node.range[1]))
  } catch {
    return undefined
  }
}

const startOf = (node: Node | null | undefined): number => node?.range?.[0] ?? 0

/** yaml's own messages may repeat part of a value. */
function syntaxMessage({offset, code, message}: {offset: number; code: string; message: string}, text: string): string {
  if (code === 'DEPTH') return message
  if (code === 'BAD_DQ_ESCAPE') return 'JSON does not allow this escape'
  if (code === 'BLOCK_IN_FLOW' || code === 'MULTILINE_IMPLICIT_KEY') return 'a "," is missing after this'
  if (code === 'MISSING_CHAR') {
    const bracket = /with a ([}\]])/.exec(message)?.[1]
    if (bracket !== undefined) return `a "${bracket}" is missing here`
    return message.includes('closing') ? 'the closing quote is missing here' : 'a "," or ":" is missing here'
  }
  const sign = /[{}[\],:]/.exec(text[offset] ?? '')?.[0]
  return sign === undefined ? 'unexpected text; is a "," missing before it?' : `unexpected "${sign}"`
}

/** Reports YAML syntax that JSON lacks: trailing commas, comments, anchors, tags. */
function reportYaml(text: string, report: Report): void {
  try {
    JSON.parse(text)
  } catch {
    const punctuation = text.replace(/"(?:[^"\\]|\\.)*"/g, string => ' '.repeat(string.length))
    const other = punctuation.search(/[^\s{}:,]/)
    const lastComma = punctuation.search(/,\s*}/)
    if (other >= 0) report(other, 'only strings and { } : , are allowed here, and no comments')
    else report(Math.max(0, lastComma), lastComma >= 0 ? 'JSON does not allow "," before "}"' : 'this is not JSON')
  }
}

function settingsInvalid(file: string, problems: readonly Problem[], text: string): InvalidInput {
  const lines = text.split(/\r?\n/)
  const {sorted, lines: reported} = reportProblems(file, problems, ({line, column}) =>
    caret(lines[line - 1] ?? '', column),
  )
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  return new InvalidInput('config.file', `The settings file has ${count}:\n${reported.join('\n')}`, {
    hint: `The keys are ${SETTING_KEYS.join(', ')}; see \`zael config show\`.`,
    details: {file, line: sorted[0]?.line, problems: sorted},
  })
}

const MAX_EXCERPT = 100

/** Shows only known keys and punctuation, since values may be secret. */
function caret(line: string, column: number): string[] {
  const before = withoutValues(line.slice(0, column - 1))
  if (line === '' || before.length > MAX_EXCERPT) return []
  const shown = withoutValues(line).slice(0, MAX_EXCERPT)
  return [`    ${shown}`, `    ${before.replaceAll(/[^\t]/g, ' ')}^`]
}

function withoutValues(line: string): string {
  return line.replaceAll(/"(?:[^"\\]|\\.)*"?|[^\s{}[\]:,"]+/g, token => {
    if (SETTING_KEYS.some(key => token === `"${key}"`)) return token
    return token.startsWith('"') ? '"…"' : '…'
  })
}
