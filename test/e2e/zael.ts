import {type ChildProcessByStdio, spawn} from 'node:child_process'
import {existsSync} from 'node:fs'
import type {Readable, Writable} from 'node:stream'
import {BIN, cleanEnvironment, type Outcome, ROOT, runCommand, type Surroundings} from '../helpers/run-command.js'

export {BIN, type Outcome, ROOT}

/** Runs the CLI from its sources in this process, with the output and exit code of `spawnZael`. */
export const zael: (args: readonly string[], surroundings?: Surroundings) => Promise<Outcome> = runCommand

export interface SpawnOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/** Runs the built CLI in its own process, for tests that need one. */
export function spawnZael(args: readonly string[], options: SpawnOptions = {}): Promise<Outcome> {
  if (!existsSync(`${ROOT}/dist/commands`)) throw new Error('dist is missing: run "npm run build" first')
  return run(process.execPath, [BIN, ...args], options)
}

/** Runs a program with nothing but PATH and a home without settings. */
export function run(program: string, args: readonly string[], {env = {}, cwd = ROOT}: SpawnOptions): Promise<Outcome> {
  return outcomeOf(spawn(program, args, {cwd, env: cleanEnvironment(env), stdio: ['ignore', 'pipe', 'pipe']}))
}

/** The output of a program until it ends. */
export function outcomeOf(child: ChildProcessByStdio<Writable | null, Readable, Readable>): Promise<Outcome> {
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', chunk => {
    stdout += chunk
  })
  child.stderr.setEncoding('utf8').on('data', chunk => {
    stderr += chunk
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => resolve({code, stdout, stderr}))
  })
}
