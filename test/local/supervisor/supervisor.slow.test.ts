import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {existsSync} from 'node:fs'
import {mkdir, mkdtemp, readdir, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {afterEach, beforeEach, expect, it, onTestFinished} from 'vitest'
import {findFreePort} from '../../../src/lib/local/engines/engine.js'
import {type LogLevel, tailLog} from '../../../src/lib/local/state-dir/log.js'
import {readEnd, readState, type StackState, stateDirAt, writeState} from '../../../src/lib/local/state-dir/state.js'
import {fetchStatus, type LiveStatus} from '../../../src/lib/local/supervisor/control.js'
import {supervisorProgram} from '../../../src/lib/local/supervisor/start.js'
import {runSupervisor, type SupervisorOptions} from '../../../src/lib/local/supervisor/supervisor.js'
import {describeOnEngine} from '../../helpers/table.js'
import {childrenOfThisProcess} from '../support.js'

/** For folders that a process may be writing to. */
const WHILE_WRITTEN = {maxRetries: 50, retryDelay: 100}

let folder = ''
let others: number[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  others = childrenOfThisProcess()
})

afterEach(async () => {
  await rm(folder, {recursive: true, ...WHILE_WRITTEN})
  expect(childrenOfThisProcess()).toEqual(others)
})

/** Runs a supervisor inside the test. */
function supervise(changes: Partial<SupervisorOptions> = {}) {
  const ending = new AbortController()
  const logged: Array<{level: LogLevel; message: string}> = []
  let ended: Promise<unknown> = Promise.resolve()
  const ready = new Promise<StackState>((resolve, reject) => {
    ended = runSupervisor(
      {stateDir: folder, dataDir: join(folder, 'data'), aggregator: true, version: '0.1.0', ...changes},
      {
        log: (level, message) => logged.push({level, message}),
        signal: ending.signal,
        onReady: resolve,
        watchIntervalMs: 20,
        sleep: async () => {},
      },
    ).catch((error: Error) => error)
    void ended.then(reject)
  })
  ready.catch(() => {})
  return {ending, logged, ready, ended}
}

async function live({controlPort, startToken}: StackState): Promise<LiveStatus> {
  const status = await fetchStatus(controlPort, startToken)
  if (!status) throw new Error('no answer')
  return status
}

describeOnEngine('a supervisor', () => {
  const stateDir = () => stateDirAt(folder)

  it('records its start and its end, and leaves only the data', async () => {
    const {ending, logged, ready, ended} = supervise()
    const state = await ready
    expect(await readState(stateDir())).toEqual(state)
    expect(await live(state)).toMatchObject({engineRestarts: 0, aggregator: {errors: 0}})
    ending.abort()
    expect(await ended).toBe(undefined)
    expect(await readState(stateDir())).toBe(undefined)
    expect(await readEnd(stateDir())).toMatchObject({port: state.port, reason: null})
    expect(await fetchStatus(state.controlPort, state.startToken)).toBe(undefined)
    expect((await readdir(folder)).sort()).toEqual(['data', 'ended.json'])
    expect(await readdir(stateDir().dataDir)).not.toContain('zael.lock')
    expect(logged.filter(({level}) => level !== 'info')).toEqual([])
    const stops = ['the aggregator has stopped', 'the engine has stopped', 'the stack has ended']
    expect(logged.slice(-3).map(({message}) => message)).toEqual(stops)
  })

  it('reuses the preferred port when it is free, and takes another one when it is in use', async () => {
    const preferredPort = await findFreePort()
    const settings = {dataDir: null, aggregator: false, preferredPort}
    const first = supervise(settings)
    expect(await first.ready).toMatchObject({port: preferredPort})
    const otherDir = await mkdtemp(join(tmpdir(), 'zael-test-'))
    const second = supervise({...settings, stateDir: otherDir})
    expect((await second.ready).port).not.toBe(preferredPort)
    for (const {ending, ended} of [first, second]) {
      ending.abort()
      await ended
    }
    await rm(otherDir, {recursive: true})
  })

  it('leaves nothing when it is stopped during its start', async () => {
    const {ending, ended} = supervise()
    ending.abort(new Error('changed my mind'))
    expect(await ended).toMatchObject({message: 'changed my mind'})
    expect(existsSync(stateDir().stateFile)).toBe(false)
    expect(existsSync(stateDir().endFile)).toBe(false)
  })

  it('stops when its state directory is deleted', async () => {
    const {ready, ended} = supervise({dataDir: null})
    await ready
    await rm(folder, {recursive: true, ...WHILE_WRITTEN})
    expect(await ended).toBe(undefined)
    expect(existsSync(folder)).toBe(false)
    await mkdir(folder)
  })

  it('stops when another stack has taken over its state directory, without changing it', async () => {
    const {ready, ended} = supervise({dataDir: null, aggregator: false})
    const other = {...(await ready), startToken: 'another'}
    await writeState(stateDir(), other)
    expect(await ended).toBe(undefined)
    expect(await readState(stateDir())).toEqual(other)
  })

  it('stops when its engine does not stay up, and records why', async () => {
    const {logged, ready, ended} = supervise({dataDir: null, aggregator: false})
    const state = await ready
    for (let restarts = 0; restarts <= 5; restarts++) {
      while ((await live(state)).engineRestarts < restarts) await sleep(20)
      process.kill((await live(state)).enginePid, 'SIGKILL')
    }
    expect(await ended).toMatchObject({code: 'local.engine-lost'})
    expect(await readState(stateDir())).toBe(undefined)
    expect(await readEnd(stateDir())).toMatchObject({reason: expect.stringContaining('the engine ended with SIGKILL')})
    expect(logged.at(-1)).toEqual({level: 'error', message: 'the stack has ended'})
  })
})

it.skipIf(process.platform === 'win32')(
  'stops a supervisor whose starting command exits before it is ready',
  async () => {
    const options = {stateDir: folder, dataDir: join(folder, 'data'), aggregator: true, version: '0.1.0'}
    const child = spawn(process.execPath, [...supervisorProgram(), JSON.stringify(options)], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    child.disconnect()
    expect(await once(child, 'exit')).toEqual([1, null])
    expect(existsSync(stateDirAt(folder).stateFile)).toBe(false)
    expect(await tailLog(stateDirAt(folder).logFile, 1)).toMatchObject([
      {
        message: 'the stack has ended',
        fields: {reason: expect.stringContaining('the command that started it has exited')},
      },
    ])
  },
)

it('fails when the supervisor may not write its data folder, and leaves nothing', async () => {
  const {ended} = supervise({dataDir: '/proc/zael'})
  expect(await ended).toMatchObject({code: 'engine.data-dir'})
  expect(await readdir(folder)).toEqual([])
})
