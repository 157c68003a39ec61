import {createServer} from 'node:net'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {describe} from 'vitest'
import {spawnOwned} from '../../src/lib/local/engines/owned-process.js'
import {pythonEnvironment} from '../helpers/python-environment.js'

const programs = pythonEnvironment({name: 'ministack', usedFor: 'Tests against ministack'})

/** Like `describe`, for tests that need ministack; skipped when there is no Python. On CI a missing Python is a failure. */
export const describeWithMinistack = describe.skipIf(programs === undefined)

/**
 * A second emulation of AWS. Unlike moto it executes functions, rolls back, imports existing tables and rejects a change
 * set that another deployment has overtaken. It has no metric math, expiry and recovery in templates, nor Fn::Split in
 * conditions.
 */
export interface Ministack extends AsyncDisposable {
  readonly endpoint: string
}

/** `folder`: for its temporary files, such as the code of functions. */
export async function startMinistack(folder: string): Promise<Ministack> {
  if (programs === undefined) throw new Error('ministack is missing; guard the suite with describeWithMinistack')
  const port = await freePort()
  const settings = [`GATEWAY_PORT=${port}`, 'BIND_HOST=127.0.0.1', `TMPDIR=${folder}`, `STATE_DIR=${folder}/state`]
  const server = await spawnOwned(['env', ...settings, join(programs, 'ministack')])
  let hasExited = false
  void server.exited.then(() => {
    hasExited = true
  })
  const endpoint = `http://127.0.0.1:${port}`
  for (;;) {
    const isReady = await fetch(`${endpoint}/_ministack/health`).then(
      ({ok}) => ok,
      () => false,
    )
    if (isReady) return {endpoint, [Symbol.asyncDispose]: () => server.stop(5000)}
    if (hasExited) throw new Error(`ministack did not start: ${server.stderrTail()}`)
    await sleep(50)
  }
}

/** It cannot choose one itself. */
async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise(resolve => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('there is no free port')
  return address.port
}
