import {schemaProblems} from '../e2e/schemas.js'
import type {JsonOutput} from '../e2e/table-cli.js'
import {type Outcome, zael} from '../e2e/zael.js'
import {MOTO_IDENTITY} from './moto.js'

/** Runs the built command line against an endpoint. */
export interface StackUser {
  readonly env: Readonly<Record<string, string>>
  /** Runs `zael …` without colours, in 80 columns. */
  run(command: string): Promise<Outcome>
  /** Runs `zael … --json`, which must succeed; the result is checked against its schema. */
  json(command: string): Promise<JsonOutput>
  /** Runs `zael … --json`, which must fail; returns its exit code and error. */
  fail(command: string): Promise<{code: number | null; error: JsonOutput}>
}

/** A user for whom the endpoint is AWS. */
export function stackUser(endpoint: string, env: Readonly<Record<string, string>> = {}): StackUser {
  const own = {...MOTO_IDENTITY, AWS_ENDPOINT_URL: endpoint, NO_COLOR: '1', COLUMNS: '80', ...env}
  const run = (command: string) => zael(command.split(' '), {env: own})
  return {
    env: own,
    run,
    json: async command => {
      const {code, stdout, stderr} = await run(`${command} --json`)
      if (code !== 0) throw new Error(`exit ${code}: ${stdout}${stderr}`)
      const result = JSON.parse(stdout)
      const [name = ''] = command.split(' ')
      const problems = schemaProblems(name, result)
      if (problems.length > 0) throw new Error(`${problems.join('\n')}\n${stdout}`)
      return result
    },
    fail: async command => {
      const {code, stdout} = await run(`${command} --json`)
      return {code, error: JSON.parse(stdout).error}
    },
  }
}
