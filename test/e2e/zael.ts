import {spawn} from 'node:child_process'
import {existsSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {fileURLToPath} from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))
export const BIN = fileURLToPath(new URL('../../bin/run.js', import.meta.url))

export interface Outcome {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface SpawnOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/** Runs the built command line as a user would. */
export function zael(args: readonly string[], options: SpawnOptions = {}): Promise<Outcome> {
  if (!existsSync(`${ROOT}/dist/commands`)) throw new Error('dist is missing: run "npm run build" first')
  return run(process.execPath, [BIN, ...args], options)
}

/** Runs a program with nothing but PATH and a home without settings: what the test runner exports must not leak in. */
export function run(program: string, args: readonly string[], {env = {}, cwd = ROOT}: SpawnOptions): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const clean = {PATH: process.env.PATH, HOME: tmpdir(), XDG_CONFIG_HOME: `${tmpdir()}/no-such-folder`}
    const child = spawn(program, args, {cwd, env: {...clean, ...env}, stdio: ['ignore', 'pipe', 'pipe']})
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', chunk => {
      stdout += chunk
    })
    child.stderr.setEncoding('utf8').on('data', chunk => {
      stderr += chunk
    })
    child.on('error', reject)
    child.on('close', code => resolve({code, stdout, stderr}))
  })
}
