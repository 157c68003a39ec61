import {isMap, isScalar, type Node, Scalar, type YAMLMap} from 'yaml'
import {z} from 'zod'
import {InvalidInput} from '../../core/errors.js'
import {newMapping, notOneOf, type Problem, reportProblems} from '../../files/document-problems.js'
import {composeYaml} from '../../files/yaml-source.js'
import {
  projectSettingProblem,
  SETTING_KEYS,
  type SettingKey,
  type SettingsFileKind,
  settingProblem,
} from './setting-rules.js'

const setting = (key: SettingKey, problemOf: typeof settingProblem) =>
  z
    .string(`the value of "${key}" must be a JSON string, in double quotes`)
    .check(({value, issues}) => {
      // An empty string counts as not given.
      const message = value === '' ? undefined : problemOf(key, value)
      if (message !== undefined) issues.push({code: 'custom', input: value, message})
    })
    .optional()

const settings = (problemOf: typeof settingProblem) =>
  z.strictObject(
    Object.fromEntries(SETTING_KEYS.map(key => [key, setting(key, problemOf)])) as {
      [key in SettingKey]: ReturnType<typeof setting>
    },
  )

const SCHEMAS = {project: settings(projectSettingProblem), user: settings(settingProblem)}

type Entries = ReadonlyMap<string, {readonly key: Node; readonly value: Node | null}>
type Report = (offset: number, message: string) => void

/** Throws one error with all problems, without values: they may be secret. JSON.parse lacks positions, duplicates. */
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
  const entries = first ? new Map() : entriesIn((document?.contents ?? null) as Node | null, text, report)
  const values = newMapping([...entries].map(([name, {value}]) => [name, jsonString(value, text) ?? null]))
  const {data, error} = SCHEMAS[kind].safeParse(values)
  for (const issue of error?.issues ?? []) {
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) report(startOf(entries.get(key)?.key), notOneOf('a key here', key, SETTING_KEYS))
    } else {
      const {key, value} = entries.get(String(issue.path[0])) ?? {}
      report(startOf(value ?? key), issue.message)
    }
  }
  if (problems.length === 0) reportYaml(text, report)
  if (!data || problems.length > 0) throw settingsInvalid(file, problems, text)
  return new Map(
    Object.entries(data).map(([name, value = '']) => {
      return [name, {value, line: position(startOf(entries.get(name)?.key)).line}]
    }),
  )
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
  if (code === 'BAD_DQ_ESCAPE') return 'JSON has no such escape'
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
    if (other >= 0) report(other, 'JSON has only strings and { } : , here, and no comments')
    else report(Math.max(0, lastComma), lastComma >= 0 ? 'JSON allows no "," before the "}"' : 'this is not JSON')
  }
}

function settingsInvalid(file: string, problems: readonly Problem[], text: string): InvalidInput {
  const lines = text.split(/\r?\n/)
  const {sorted, lines: reported} = reportProblems(file, problems, ({line, column}) =>
    caret(lines[line - 1] ?? '', column),
  )
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  return new InvalidInput('config.file', `The settings have ${count}:\n${reported.join('\n')}`, {
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
