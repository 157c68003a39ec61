import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {existsSync} from 'node:fs'
import {mkdtemp, readdir, readFile, rm} from 'node:fs/promises'
import {connect} from 'node:net'
import {networkInterfaces, tmpdir} from 'node:os'
import {join} from 'node:path'
import {createInterface} from 'node:readline/promises'
import {afterAll, beforeAll, describe, expect, it, vi} from 'vitest'
import {type Engine, findFreePort, startEngine} from '../../../src/lib/local/engines/engine.js'
import {pickEngine} from '../../../src/lib/local/engines/find.js'
import {call, childrenOfThisProcess, enginesUnderTest, isRunning, runningProcesses} from '../support.js'

const engines = await enginesUnderTest()

/** How long a JVM on a busy machine may take to start, in ms. */
const READY_MS = 100_000

// One engine serves the first tests and occupies the port that later tests try to use: a JVM takes seconds to start.
describe.each(engines)('$name', ({name, isSkipped}) => {
  let scratch = ''
  let first: Engine

  beforeAll(async () => {
    if (isSkipped) return
    scratch = await mkdtemp(join(tmpdir(), 'zael-test-'))
    vi.stubEnv('TMPDIR', scratch)
    vi.stubEnv('JAVA_TOOL_OPTIONS', `-Djava.io.tmpdir=${scratch}`)
    first = await startEngine({engine: name}, {readyTimeoutMs: READY_MS})
    vi.unstubAllEnvs()
  })

  afterAll(async () => {
    await first?.stop()
    if (scratch) await rm(scratch, {recursive: true})
  })

  it.skipIf(isSkipped)('answers at its endpoint and reports name and version', async () => {
    expect(first).toMatchObject({name, endpoint: `http://127.0.0.1:${first.port}`, dataDir: undefined})
    expect(await call(first.endpoint, 'ListTables', {})).toEqual({TableNames: []})
    expect(isRunning(first.pid)).toBe(true)
  })

  it.skipIf(isSkipped)('listens on 127.0.0.1 and nowhere else', async context => {
    if (existsSync('/proc/net/tcp')) {
      expect(await listeningAddresses(first.port)).toEqual(['127.0.0.1'])
      return
    }
    const outside = Object.values(networkInterfaces()).flatMap(each => each ?? [])
    const address = outside.find(each => !each.internal && each.family === 'IPv4')?.address
    if (address === undefined) return context.skip('this machine has only loopback addresses')
    expect(await canConnect('127.0.0.1', first.port)).toBe(true)
    expect(await canConnect(address, first.port)).toBe(false)
  })

  it.skipIf(isSkipped)('refuses a fixed port that is in use, even when the engine there answers', async () => {
    const others = childrenOfThisProcess()
    await expect(startEngine({engine: name, port: first.port})).rejects.toMatchObject({
      code: 'engine.port-taken',
      kind: 'conflict',
      message: `Port ${first.port} of 127.0.0.1 is already in use.`,
    })
    expect(childrenOfThisProcess()).toEqual(others)
  })

  // Once is enough: an engine on a port in use is stopped in the same way as in the test above, and each JVM takes seconds.
  it.skipIf(isSkipped || name !== 'dynoxide')('chooses another port when a free one was taken meanwhile', async () => {
    const chosen: number[] = []
    const choosePort = async () => {
      chosen.push(chosen.length === 0 ? first.port : await findFreePort())
      return chosen.at(-1) as number
    }
    const engine = await startEngine({engine: name}, {choosePort, readyTimeoutMs: READY_MS})
    await engine.stop()
    expect(chosen.length).toBeGreaterThan(1)
    expect(engine.port).toBe(chosen.at(-1))
    expect(engine.port).not.toBe(first.port)
  })

  it.skipIf(isSkipped)('keeps its data from one start to the next', async () => {
    const dataDir = join(scratch, 'new', 'folder')
    const TableName = 'kept'
    const before = await startEngine({engine: name, dataDir}, {stopGraceMs: 20_000, readyTimeoutMs: READY_MS})
    await call(before.endpoint, 'CreateTable', {
      TableName,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{AttributeName: 'id', AttributeType: 'S'}],
      KeySchema: [{AttributeName: 'id', KeyType: 'HASH'}],
    })
    await call(before.endpoint, 'PutItem', {TableName, Item: {id: {S: 'a'}, amount: {N: '7'}}})
    await before.stop()
    expect(isRunning(before.pid)).toBe(false)
    expect((await before.exited).signal).not.toBe('SIGKILL')

    const after = await startEngine({engine: name, dataDir, port: before.port}, {readyTimeoutMs: READY_MS})
    const answer = await call(after.endpoint, 'GetItem', {TableName, Key: {id: {S: 'a'}}})
    await after.stop()
    expect(answer).toEqual({Item: {id: {S: 'a'}, amount: {N: '7'}}})
    expect(after).toMatchObject({dataDir, port: before.port})
    expect((await readdir(dataDir)).filter(file => !/\.db(-\w+)?$/.test(file))).toEqual([])
    await rm(join(scratch, 'new'), {recursive: true})
  })

  it.skipIf(isSkipped)('reports that it was killed, and leaves no watcher process and no files', async () => {
    const watchers = runningProcesses().filter(row => row.parentPid === first.pid)
    process.kill(first.pid, 'SIGKILL')
    expect(await first.exited).toEqual({code: null, signal: 'SIGKILL'})
    expect(watchers.map(row => isRunning(row.pid))).toEqual(process.platform === 'win32' ? [] : [false])
    expect(await readdir(scratch)).toEqual([])
    await first.stop()
  })
})

it.skipIf(engines.some(each => each.name === 'dynamodb-local' && each.isSkipped))(
  'DynamoDB Local exits when its standard input closes, which ends it with its parent on Windows',
  async () => {
    const {kind, command} = await pickEngine('dynamodb-local')
    const [java = '', ...args] = command(await findFreePort(), undefined)
    const child = spawn(java, args, {stdio: ['pipe', 'ignore', 'pipe']})
    const exited = once(child, 'exit')
    // A JVM may print other lines before, such as the options that it takes from the environment.
    for await (const line of createInterface(child.stderr)) if (line.includes(kind.announcement)) break
    child.stderr.resume()
    expect(child.exitCode).toBe(null)
    child.stdin.end()
    expect(await exited).toEqual([0, null])
  },
)

/** Addresses on which the kernel has a listening socket for this port. */
async function listeningAddresses(port: number): Promise<string[]> {
  const LISTEN = '0A'
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map(file => readFile(file, 'utf8').catch(() => '')),
  )
  const rows = tables.flatMap(table => table.trim().split('\n')).map(row => row.trim().split(/\s+/))
  return rows
    .filter(([, local, , state]) => state === LISTEN && Number.parseInt(local?.split(':')[1] ?? '', 16) === port)
    .map(([, local]) => readAddress(local?.split(':')[0] ?? ''))
}

/** The kernel prints addresses as little-endian words; an IPv4 address may come mapped into IPv6 (::ffff:1.2.3.4). */
function readAddress(hex: string): string {
  const ipv4 = /^(?:0{16}FFFF0000)?([0-9A-F]{8})$/.exec(hex)?.[1]
  return ipv4 === undefined ? hex : [...Buffer.from(ipv4, 'hex').reverse()].join('.')
}

function canConnect(host: string, port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({host, port, timeout: 2_000})
    const settle = (isOpen: boolean) => {
      socket.destroy()
      resolve(isOpen)
    }
    socket
      .once('connect', () => settle(true))
      .once('error', () => settle(false))
      .once('timeout', () => settle(false))
  })
}
