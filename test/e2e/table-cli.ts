import {inject} from 'vitest'
import type {TestTable} from '../helpers/table.js'
import {schemaProblems} from './schemas.js'
import {type Outcome, zael} from './zael.js'

/** The command line, pointed at a test table. */
export interface TableCli {
  /** The flags that name the table. */
  readonly flags: readonly string[]
  /** Runs a command; words with spaces are quoted with '…'. */
  run(command: string, env?: Readonly<Record<string, string>>): Promise<Outcome>
  /** Runs a command with `--json` that is to succeed and say nothing else; checks the result against its schema. */
  tell(command: string): Promise<JsonOutput>
  /** Runs a command with `--json` that is to fail; its exit code and error. */
  fail(command: string): Promise<{code: number | null; error: JsonOutput}>
  /** The text of a command on stdout, in lines of that many columns; all times are replaced by one. */
  show(command: string, columns: number): Promise<string>
}

/** A JSON document; tests look into it as they like. */
// biome-ignore lint/suspicious/noExplicitAny: the schemas say what is in it
export type JsonOutput = any

/** Commands for the table of a test, without colours. */
export function tableCli({name}: Pick<TestTable, 'name'>): TableCli {
  const flags = ['--stack', name, '--endpoint-url', inject('engineEndpoint')]
  const run: TableCli['run'] = (command, env = {}) =>
    zael([...wordsOf(command), ...flags], {env: {NO_COLOR: '1', ...env}})
  return {
    flags,
    run,
    tell: async command => {
      const outcome = await run(`${command} --json`)
      if (outcome.code !== 0 || outcome.stderr !== '') throw new Error(JSON.stringify(outcome))
      const result = JSON.parse(outcome.stdout)
      const problems = schemaProblems(commandIn(command), result)
      if (problems.length > 0) throw new Error(`${problems.join('\n')}\n${outcome.stdout}`)
      return result
    },
    fail: async command => {
      const {code, stdout, stderr} = await run(`${command} --json`)
      if (stderr !== '') throw new Error(stderr)
      return {code, error: JSON.parse(stdout).error}
    },
    show: async (command, columns) => {
      const {code, stdout, stderr} = await run(command, {COLUMNS: String(columns)})
      if (code !== 0) throw new Error(stderr)
      return stdout.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, '2026-01-01T00:00:00Z')
    },
  }
}

/** The command without its arguments: at most two words before the first flag. */
function commandIn(command: string): string {
  const words = wordsOf(command).slice(0, 2)
  return words.filter(word => !word.startsWith('-')).join(' ')
}

function wordsOf(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? '')
}
