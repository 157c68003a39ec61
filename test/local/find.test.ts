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

const home = () => stateDirAt(join(folder, 'local'))

/** A state as a supervisor would have written it, this very process being the supervisor. */
async function record(changes: Partial<StackState> = {}): Promise<void> {
  await mkdir(home().folder, {recursive: true})
  const facts = {startToken: 'mine', controlPort: control.port, endpoint: 'http://127.0.0.1:1', dataDir: null}
  await writeState(home(), {...facts, ...(await ownIdentity()), ...changes} as StackState)
}

async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ['--eval', ''])
  await once(child, 'exit')
  return child.pid as number
}

describe('looking for a stack', () => {
  it('finds the one whose supervisor answers by its token', async () => {
    await record()
    expect(await findStack(home())).toMatchObject({kind: 'running', live})
    expect(await stackStatus(home())).toMatchObject({running: true, live})
  })

  it('finds none where there is none, or nothing to be understood', async () => {
    expect(await findStack(home())).toEqual({kind: 'none'})
    await mkdir(home().folder)
    for (const text of ['', '{', '[]', 'null', '{"pid": "x"}']) {
      await writeFile(home().stateFile, text)
      expect(await findStack(home())).toEqual({kind: 'none'})
    }
  })

  it('is not taken in by a stranger on the port: not by another stack, not by something else', async () => {
    await record({startToken: 'another'})
    expect(await findStack(home())).toMatchObject({kind: 'silent'})
    const stranger = createServer(socket => socket.end('220 mail\r\n')).listen(0, '127.0.0.1')
    await once(stranger, 'listening')
    const {port} = stranger.address() as {port: number}
    expect(await fetchStatus(port, 'mine')).toBe(undefined)
    stranger.close()
  })

  it('tells a killed supervisor from a silent one, also when its number is in use again', async () => {
    const gone = {controlPort: 1}
    await record({...gone, pid: await deadPid()})
    expect(await findStack(home())).toMatchObject({kind: 'killed'})
    if (process.platform !== 'win32') {
      await record({...gone, began: 'another time'})
      expect(await findStack(home())).toMatchObject({kind: 'killed'})
    }
    await record(gone)
    expect(await findStack(home())).toMatchObject({kind: 'silent'})
    expect(await stackStatus(home())).toMatchObject({
      running: false,
      problem: expect.stringContaining('does not answer'),
    })
  })

  it('that is needed says what to do when there is none', async () => {
    await expect(requireStack(home())).rejects.toMatchObject({
      code: 'local.not-running',
      exitCode: 3,
      message: 'the local stack is not running',
      hint: 'zael local up',
    })
  })
})
