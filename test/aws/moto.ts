import {spawnSync} from 'node:child_process'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {describe} from 'vitest'
import {spawnOwned} from '../../src/lib/local/engines/owned-process.js'
import {ROOT} from '../e2e/zael.js'

/** Folder of moto_server and cfn-lint; `undefined` where there is no Python. In CI a missing Python is a failure. */
export const pythonPrograms = findPrograms()

/** Like `describe`, for tests that need the Python tools; skipped where there is no Python. */
export const describeWithPython = describe.skipIf(pythonPrograms === undefined)

/** moto's server: an emulation of AWS that forgets everything when it ends. */
export interface Moto extends AsyncDisposable {
  readonly endpoint: string
  /** Variables for a process that is to see moto as AWS. */
  readonly env: Readonly<Record<string, string>>
}

/** Identity and region that moto takes as well as any other. */
export const MOTO_IDENTITY = {
  AWS_REGION: 'eu-west-1',
  AWS_ACCESS_KEY_ID: 'testing',
  AWS_SECRET_ACCESS_KEY: 'testing',
} as const

const STOP_GRACE_MS = 2_000

/** Starts a server of its own on a free port of this machine; it dies with this process at the latest. */
export async function startMoto(): Promise<Moto> {
  if (pythonPrograms === undefined) throw new Error('startMoto needs Python; guard the suite with describeWithPython')
  const server = await spawnOwned([join(pythonPrograms, 'moto_server'), '-H', '127.0.0.1', '-p', '0'])
  let hasEnded = false
  void server.exited.then(() => {
    hasEnded = true
  })
  for (;;) {
    const [, endpoint] = /Running on (http:\/\/127\.0\.0\.1:\d+)/.exec(server.stderrTail()) ?? []
    if (endpoint !== undefined) {
      return {
        endpoint,
        env: {...MOTO_IDENTITY, AWS_ENDPOINT_URL: endpoint},
        [Symbol.asyncDispose]: () => server.stop(STOP_GRACE_MS),
      }
    }
    if (hasEnded) throw new Error(`moto_server did not start: ${server.stderrTail()}`)
    await sleep(50)
  }
}

function findPrograms(): string | undefined {
  const {status, stdout, stderr} = spawnSync(process.execPath, [join(ROOT, '.ci', 'python.js')], {encoding: 'utf8'})
  if (status === 0) return stdout.trim()
  if (process.env.CI) throw new Error(`The Python tools of test/aws are missing: ${stderr.trim()}`)
  process.stderr.write(`Tests against moto are skipped: ${stderr.trim()}\n`)
  return undefined
}
