import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {ownIdentity} from '../../src/lib/local/state-dir/process-identity.js'
import {type StackState, stateDirAt, writeState} from '../../src/lib/local/state-dir/state.js'
import {type ControlServer, serveStatus} from '../../src/lib/local/supervisor/control.js'
import {bringUp} from '../../src/lib/local/up.js'

// Real starts: test/e2e/local.slow.test.ts.

const DEFAULTS = {inMemory: false, reset: false, aggregator: true, version: '0.1.0'}
let folder = ''
let control: ControlServer
let state: StackState

/** A running stack whose supervisor is this process. */
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  control = await serveStatus('token', () => {
    return {uptimeMs: 1, enginePid: 1, engineRestarts: 0, aggregator: null}
  })
  state = {
    ...{stack: 'local', ...(await ownIdentity()), startToken: 'token', controlPort: control.port},
    ...{engine: 'dynoxide', engineVersion: '1', endpoint: 'http://127.0.0.1:8123', port: 8123},
    ...{dataDir: join(folder, 'data'), aggregator: true, startedAt: '2026-01-01T00:00:00Z', version: '0.1.0'},
  }
  await writeState(stateDirAt(folder), state)
})

afterEach(async () => {
  await control.close()
  await rm(folder, {recursive: true})
})

describe('bringUp, while a stack runs', () => {
  it('returns that stack when the options match or are absent', async () => {
    expect(await bringUp(stateDirAt(folder), DEFAULTS)).toEqual({state, started: false, recovered: false})
    const same = {...DEFAULTS, engine: 'dynoxide', port: 8123, dataDir: join(folder, 'data')} as const
    expect(await bringUp(stateDirAt(folder), same)).toMatchObject({started: false})
  })

  it.each([
    [{engine: 'docker'}, 'engine dynoxide, not docker'],
    [{port: 8000}, 'on port 8123, not 8000'],
    [{dataDir: '/elsewhere'}, 'not in /elsewhere'],
    [{inMemory: true}, 'not in memory'],
    [{aggregator: false}, 'with the aggregator, not without'],
    [{resourceIndex: 'ALL'}, 'resource index unknown, not all'],
  ] as const)('refuses %j', async (option, difference) => {
    await expect(bringUp(stateDirAt(folder), {...DEFAULTS, ...option})).rejects.toMatchObject({
      code: 'local.running-otherwise',
      kind: 'conflict',
      message: expect.stringContaining(difference),
    })
  })
})
