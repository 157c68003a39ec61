import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {describe} from 'vitest'
import {spawnOwned} from '../../src/lib/local/engines/owned-process.js'
import {pythonEnvironment} from '../helpers/python-environment.js'

/** Folder of moto_server and cfn-lint; `undefined` when there is no Python. On CI a missing Python is a failure. */
export const pythonPrograms = pythonEnvironment({usedFor: 'Tests against moto'})

/** Like `describe`, for tests that need the Python tools; skipped when there is no Python. */
export const describeWithPython = describe.skipIf(pythonPrograms === undefined)

/** moto's server: an emulation of AWS. */
export interface Moto {
  readonly endpoint: string
  /** Variables for a process that uses moto as AWS. */
  readonly env: Readonly<Record<string, string>>
}

/** Credentials and region; moto accepts any. */
export const MOTO_IDENTITY = {
  AWS_REGION: 'eu-west-1',
  AWS_ACCESS_KEY_ID: 'testing',
  AWS_SECRET_ACCESS_KEY: 'testing',
} as const

let running: Promise<Moto> | undefined

/**
 * An empty account on moto. Its server is started once per test process and reset for every file: a start with the first
 * requests takes seconds. It dies with the process.
 */
export async function emptyMoto(): Promise<Moto> {
  running ??= startMoto()
  const moto = await running
  const {status} = await fetch(`${moto.endpoint}/moto-api/reset`, {method: 'POST'})
  if (status !== 200) throw new Error(`moto could not be reset: HTTP status ${status}`)
  return moto
}

async function startMoto(): Promise<Moto> {
  if (pythonPrograms === undefined) throw new Error('moto needs Python; guard the suite with describeWithPython')
  const server = await spawnOwned([join(pythonPrograms, 'moto_server'), '-H', '127.0.0.1', '-p', '0'])
  let hasExited = false
  void server.exited.then(() => {
    hasExited = true
    running = undefined
  })
  for (;;) {
    const [, endpoint] = /Running on (http:\/\/127\.0\.0\.1:\d+)/.exec(server.stderrTail()) ?? []
    if (endpoint !== undefined) return {endpoint, env: {...MOTO_IDENTITY, AWS_ENDPOINT_URL: endpoint}}
    if (hasExited) throw new Error(`moto_server did not start: ${server.stderrTail()}`)
    await sleep(50)
  }
}
