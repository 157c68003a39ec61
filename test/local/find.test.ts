import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {mkdir, mkdtemp, rm, writeFile} from 'node:fs/promises'
import {createServer} from 'node:net'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {findStack, requireStack} from '../../src/lib/local/find.js'
import {stateDirAt} from '../../src/lib/local/state-dir/paths.js'
import {ownIdentity} from '../../src/lib/local/state-dir/process-identity.js'
import {type StackState, writeState} from '../../src/lib/local/state-dir/state.js'
import {stackStatus} from '../../src/lib/local/status.js'
import {type ControlServer, fetchStatus, type LiveStatus, serveStatus} from '../../src/lib/local/supervisor/control.js'

const live: LiveStatus = {startToken: 'mine', uptimeMs: 5, enginePid: 1, engineRestarts: 0, aggregator: null}
let control: ControlServer
let folder = ''

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  control = await serveStatus(() => live)
})

afterEach(async () => {
  await control.close()
  await rm(folder, {recursive: true})
})

const stateDir = () => stateDirAt(join(folder, 'local'))

/** Writes a state as if this process were the supervisor. */
async function record(changes: Partial<StackState> = {}): Promise<void> {
  await mkdir(stateDir().folder, {recursive: true})
  const facts = {startToken: 'mine', controlPort: control.port, endpoint: 'http://127.0.0.1:1', dataDir: null}
  await writeState(stateDir(), {...facts, ...(await ownIdentity()), ...changes} as StackState)
}

async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ['--eval', ''])
  await once(child, 'exit')
  return child.pid as number
}

describe('looking for a stack', () => {
  it('finds the one whose supervisor answers by its token', async () => {
    await record()
    expect(await findStack(stateDir())).toMatchObject({kind: 'running', live})
    expect(await stackStatus(stateDir())).toMatchObject({running: true, live})
  })

  it('finds none where the state is missing or invalid', async () => {
    expect(await findStack(stateDir())).toEqual({kind: 'none'})
    await mkdir(stateDir().folder)
    for (const text of ['', '{', '[]', 'null', '{"pid": "x"}']) {
      await writeFile(stateDir().stateFile, text)
      expect(await findStack(stateDir())).toEqual({kind: 'none'})
    }
  })

  it('is not misled by another stack or another program on the control port', async () => {
    await record({startToken: 'another'})
    expect(await findStack(stateDir())).toMatchObject({kind: 'unresponsive'})
    const otherProgram = createServer(socket => socket.end('220 mail\r\n')).listen(0, '127.0.0.1')
    await once(otherProgram, 'listening')
    const {port} = otherProgram.address() as {port: number}
    expect(await fetchStatus(port, 'mine')).toBe(undefined)
    otherProgram.close()
  })

  it('distinguishes a killed supervisor from an unresponsive one, even when its pid is in use again', async () => {
    const noControl = {controlPort: 1}
    await record({...noControl, pid: await deadPid()})
    expect(await findStack(stateDir())).toMatchObject({kind: 'killed'})
    if (process.platform !== 'win32') {
      await record({...noControl, began: 'another time'})
      expect(await findStack(stateDir())).toMatchObject({kind: 'killed'})
    }
    await record(noControl)
    expect(await findStack(stateDir())).toMatchObject({kind: 'unresponsive'})
    expect(await stackStatus(stateDir())).toMatchObject({
      running: false,
      problem: expect.stringContaining('does not answer'),
    })
  })

  it('fails with the next command when a stack is required and none runs', async () => {
    await expect(requireStack(stateDir())).rejects.toMatchObject({
      code: 'local.not-running',
      exitCode: 3,
      message: 'the local stack is not running',
      hint: 'zael local up',
    })
  })
})
