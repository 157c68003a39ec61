import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {mkdir, mkdtemp, readdir, rm, writeFile} from 'node:fs/promises'
import {createServer} from 'node:net'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {bringDown} from '../../src/lib/local/down.js'
import {findStack, requireStack, stackStatus} from '../../src/lib/local/find.js'
import {ownIdentity} from '../../src/lib/local/state-dir/process-identity.js'
import {endState, type StackState, stateDirAt, writeState} from '../../src/lib/local/state-dir/state.js'
import {type ControlServer, fetchStatus, type LiveStatus, serveStatus} from '../../src/lib/local/supervisor/control.js'

const live: LiveStatus = {uptimeMs: 5, enginePid: 1, engineRestarts: 0, aggregator: null}
let control: ControlServer
let folder = ''

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  control = await serveStatus('mine', () => live)
})

afterEach(async () => {
  await control.close()
  await rm(folder, {recursive: true})
})

const stateDir = () => stateDirAt(join(folder, 'local'))

/** Writes a state as if this process were the supervisor. */
async function record(changes: Partial<StackState> = {}): Promise<void> {
  await mkdir(stateDir().folder, {recursive: true, mode: 0o700})
  await writeState(stateDir(), {...(await sampleState()), ...changes})
}

async function sampleState(): Promise<StackState> {
  return {
    ...{stack: 'local', ...(await ownIdentity()), startToken: 'mine', controlPort: control.port},
    ...{engine: 'dynoxide', engineVersion: '1', endpoint: 'http://127.0.0.1:1', port: 1, dataDir: null},
    ...{aggregator: false, startedAt: '2026-01-01T00:00:00Z', version: '0.1.0'},
  }
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

  it('finds none without a state file', async () => {
    expect(await findStack(stateDir())).toEqual({kind: 'none'})
  })

  it.each([
    ['', 'it is empty'],
    [' \n', 'it is empty'],
    ['{', 'it is not JSON'],
    ['{"pid": 17, "control', 'it is not JSON'],
    ['[]', 'Invalid input: expected object, received array'],
    ['null', 'Invalid input: expected object, received null'],
    ['{}', 'pid: .*; began: .*; stack: .*; startToken: .*; version: '],
  ])('names the problem of the state %j, which a crash can leave', async (text, problem) => {
    await mkdir(stateDir().folder, {mode: 0o700})
    await writeFile(stateDir().stateFile, text, {mode: 0o600})
    const message = expect.stringMatching(`state\\.json is damaged: .*${problem}`)
    expect(await findStack(stateDir())).toMatchObject({kind: 'damaged', file: {message}})
    expect(await stackStatus(stateDir())).toMatchObject({running: false, problem: message})
    await expect(requireStack(stateDir())).rejects.toMatchObject({code: 'local.not-running', kind: 'negative', message})
    await bringDown(stateDir(), {purge: false})
    expect(await findStack(stateDir())).toEqual({kind: 'none'})
  })

  it.each([
    [{pid: -1}, 'pid: '],
    [{pid: 0}, 'pid: '],
    [{pid: 1e300}, 'pid: '],
    [{pid: 1.5}, 'pid: '],
    [{controlPort: 65_536}, 'controlPort: '],
    [{endpoint: 'http://elsewhere.example:8000'}, 'endpoint: expected an address like http://127.0.0.1:8000'],
    [{endpoint: "http://127.0.0.1:1';$(reboot)"}, 'endpoint: '],
    [{endpoint: 'http://127.0.0.1:1\n'}, 'endpoint: '],
    [{dataDir: 'somewhere'}, 'dataDir: expected an absolute path'],
    [{dataDir: '/a\u001b[2J'}, 'dataDir: control characters are not allowed'],
    [{engine: 'constructor'}, 'engine: '],
    [{stack: 'prod'}, 'stack: '],
    [{startToken: ''}, 'startToken: '],
  ])('uses no state with %j', async (change, problem) => {
    await record(change as Partial<StackState>)
    const found = await findStack(stateDir())
    expect(found).toMatchObject({kind: 'damaged', file: {problem: expect.stringContaining(problem)}})
  })

  it('ignores keys of a newer version, and passes none of them on', async () => {
    await record({future: {deep: 1}, ['__proto__']: {polluted: true}} as Partial<StackState>)
    const found = await findStack(stateDir())
    expect(found).toEqual({kind: 'running', state: await sampleState(), live})
  })

  it('refuses a folder in the place of the state file, and does not change it', async () => {
    await mkdir(join(stateDir().stateFile, 'mine'), {recursive: true, mode: 0o700})
    const refusal = {code: 'local.home', message: `Cannot read ${stateDir().stateFile}: it is a folder, not a file`}
    await expect(findStack(stateDir())).rejects.toMatchObject(refusal)
    await expect(bringDown(stateDir(), {purge: false})).rejects.toMatchObject(refusal)
    expect(await readdir(stateDir().stateFile)).toEqual(['mine'])
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
      problem: expect.stringContaining('does not respond'),
    })
  })

  it('forgets a stack that has ended even if its end cannot be recorded, as on a full disk', async () => {
    await record()
    await mkdir(stateDir().endFile) // no file can be written here
    await endState(stateDir(), await sampleState(), null)
    expect(await findStack(stateDir())).toEqual({kind: 'none'})
  })

  it('fails with the next command when a stack is required and none runs', async () => {
    await expect(requireStack(stateDir())).rejects.toMatchObject({
      code: 'local.not-running',
      kind: 'negative',
      message: `The local stack is not running (looked in ${stateDir().folder}).`,
      hint: 'zael local up, or set ZAEL_DATA_DIR to the folder of a running stack',
    })
  })
})
