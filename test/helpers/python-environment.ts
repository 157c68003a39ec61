import {spawnSync} from 'node:child_process'
import {fileURLToPath} from 'node:url'

const SCRIPT = fileURLToPath(new URL('../../.ci/python.js', import.meta.url))

/**
 * Folder of the programs of a Python environment, made ready if it is not; without a name that of the tools of test/aws.
 * `undefined` when there is no Python; on CI that is a failure.
 */
export function pythonEnvironment({name, usedFor}: {name?: string; usedFor: string}): string | undefined {
  const args = name === undefined ? [SCRIPT] : [SCRIPT, name]
  const {status, stdout, stderr} = spawnSync(process.execPath, args, {encoding: 'utf8'})
  if (status === 0) return stdout.trim()
  if (process.env.CI) throw new Error(`${usedFor} need Python: ${stderr.trim()}`)
  process.stderr.write(`${usedFor} are skipped: ${stderr.trim()}\n`)
  return undefined
}
