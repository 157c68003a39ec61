import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {existsSync} from 'node:fs'
import {mkdir, readdir, readFile, stat, writeFile} from 'node:fs/promises'
import {createServer} from 'node:net'
import {join} from 'node:path'
import {createInterface} from 'node:readline/promises'
import {afterEach, beforeEach, describe, expect, inject, it} from 'vitest'
import {defineLimits, RateLimiter, Repository} from '../../src/lib/index.js'
import {PATIENT_MS} from '../helpers/table.js'
import {enginesUnderTest, isRunning, untilGone, writeFakeJava} from '../local/support.js'
import {LocalUser} from './local-stack.js'
import {BIN, run, zael} from './zael.js'

let user: LocalUser

beforeEach(async () => {
  user = await LocalUser.create()
})

afterEach(async () => {
  await user.leave()
})

const describeWithEngine = describe.skipIf(inject('engineEndpoint') === '')

/** Something to be found again: an entity in the default namespace. */
async function writeEntity(endpoint: unknown, id: string): Promise<void> {
  const repository = new Repository({stack: 'local', endpoint: String(endpoint)})
  const namespace = await repository.namespace()
  await namespace.entities.create({id})
  await repository.close()
}

async function hasEntity(endpoint: unknown, id: string): Promise<boolean> {
  const repository = new Repository({stack: 'local', endpoint: String(endpoint)})
  const namespace = await repository.namespace()
  const found = await namespace.entities.get(id)
  await repository.close()
  return found !== undefined
}

/** Three of a new table, and the aggregator's own: since when days and months are rolled up. */
const FIRST_RECORDS = 4

describeWithEngine('zael local', () => {
  it('C-40 supports up, status, logs, env and down without Docker or a cloud account', async () => {
    const up = await user.run('up')
    expect(up).toMatchObject({code: 0})
    expect(up.stdout).toMatch(
      /^The local stack is running\n {2}endpoint +http:\/\/127\.0\.0\.1:\d+\n {2}engine +\S+ \S+\n/,
    )
    expect(up.stdout).toContain(`data        ${user.home.dataDir}\n`)
    expect(up.stderr).toMatch(/^\nNext:\n {2}eval .+\n {2}zael local status .+\n {2}zael local down .+\n$/)

    const again = await user.tell('up')
    expect(again).toMatchObject({started: false, mended: false, stack: 'local', aggregator: true})

    const status = await user.until(({aggregator}) => (aggregator as {records: number}).records === FIRST_RECORDS)
    expect(status).toMatchObject({running: true, pid: again.pid, endpoint: again.endpoint, engineRestarts: 0})
    expect(status.table).toMatchObject({name: 'local', status: 'ACTIVE'})
    expect(status.aggregator).toMatchObject({errors: 0, lastError: null})
    expect(status).not.toHaveProperty('error')
    expect((await user.run('status')).stdout).toMatch(
      /^The local stack is running\n[\s\S]* stream +\d.* lag [\s\S]* records 4, /,
    )

    const logs = await user.run('logs')
    expect(logs).toMatchObject({code: 0, stderr: ''})
    expect(logs.stdout).toMatch(/^\S+Z info {2}the engine runs engine=[\s\S]*\n\S+Z info {2}the stack is ready /)
    const {entries} = (await user.tell('logs --tail 1')) as {entries: object[]}
    expect(entries).toHaveLength(1)
    expect(Object.keys(entries[0] ?? {})).toEqual(['time', 'level', 'message', 'fields'])

    const down = await user.run('down')
    expect(down).toMatchObject({code: 0, stderr: ''})
    expect(down.stdout).toBe(`Stopped the local stack at ${again.endpoint}\nKept the data in ${user.home.dataDir}\n`)
    await untilGone([user.note(status.pid), user.note(status.enginePid)])
    expect(await user.tell('down')).toEqual({stopped: false, endpoint: null, purged: null})
    expect(await user.tell('status', 6)).toMatchObject({running: false, problem: null, lastEnd: {reason: null}})
  })

  it('keeps its folder private to one user', async () => {
    await user.tell('up')
    expect((await stat(user.home.folder)).mode & 0o777).toBe(0o700)
    for (const file of [user.home.stateFile, user.home.logFile]) expect((await stat(file)).mode & 0o777).toBe(0o600)
  })

  it('keeps data over down and up, on the same port', async () => {
    const before = await user.tell('up')
    await writeEntity(before.endpoint, 'team-1')
    await user.run('down')
    const after = await user.tell('up')
    expect(after).toMatchObject({started: true, endpoint: before.endpoint, dataDir: user.home.dataDir})
    expect(after.pid).not.toBe(before.pid)
    expect(await hasEntity(after.endpoint, 'team-1')).toBe(true)
  })

  it.skipIf(process.platform === 'win32')('stops even if no file can be written, as on a full disk', async () => {
    const {pid, endpoint} = await user.tell('up')
    const {enginePid} = await user.tell('status')
    const down = `ulimit -f 0; exec "${process.execPath}" "${BIN}" local down`
    const {code, stdout} = await run('bash', ['-c', down], {env: user.env})
    expect([code, stdout]).toEqual([0, expect.stringContaining(`Stopped the local stack at ${endpoint}\n`)])
    await untilGone([user.note(pid), user.note(enginePid)])
    expect(await user.tell('status', 6)).toMatchObject({running: false, problem: null})
  })

  it('resumes the aggregator where it stopped', async () => {
    await user.tell('up')
    await user.until(({aggregator}) => (aggregator as {records: number}).records === FIRST_RECORDS)
    await user.run('down')
    const {endpoint} = await user.tell('up')
    await writeEntity(endpoint, 'team-1')
    const status = await user.until(({aggregator}) => (aggregator as {records: number}).records > 0)
    // The entity and its audit event; not the records of the first start again.
    expect((status.aggregator as {records: number}).records).toBeLessThanOrEqual(2)
  })

  it('counts usage with the aggregator', async () => {
    const {endpoint} = await user.tell('up')
    const options = {stack: 'local', endpoint: String(endpoint)}
    const repository = new Repository(options)
    const namespace = await repository.namespace()
    await namespace.setLimits({level: 'system'}, defineLimits(['rpm=100/min']))
    const limiter = new RateLimiter({...options, timeoutMs: PATIENT_MS})
    for (let request = 0; request < 5; request++) {
      await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}})
    }
    await limiter.close()
    // Summed over windows that begin anew while the test runs.
    const counted = async () => {
      const {records} = await namespace.usage.ofEntity('user-1', {window: 'monthly'})
      return records.reduce((sum, {tokens}) => sum + (tokens.get('rpm') ?? 0), 0)
    }
    await expect.poll(counted).toBe(5)
    await repository.close()
    // It counts its writes after the whole batch. A new table has its days and months rolled up.
    await user.until(({aggregator}) => (aggregator as {snapshots: number}).snapshots >= 1)
  })

  it('follows logs until it is interrupted', async () => {
    await user.tell('up')
    const args = ['local', 'logs', '--follow', '--tail', '1', '--json']
    const child = spawn(process.execPath, [BIN, ...args], {env: {...process.env, ...user.env}, stdio: 'pipe'})
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
    expect(JSON.parse((await lines.next()).value)).toMatchObject({level: 'info'})
    const {enginePid} = await user.tell('status')
    process.kill(user.note(enginePid), 'SIGKILL')
    for (;;) {
      const {message} = JSON.parse((await lines.next()).value)
      if (message === 'the engine runs again') break
    }
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([null, 'SIGINT']) // which a shell calls 130
  })

  it('points programs at it with env, in a real shell', async () => {
    const {endpoint} = await user.tell('up')
    const {stdout: lines} = await user.run('env')
    const script = `${lines}\nprintenv ZAEL_STACK AWS_ENDPOINT_URL_DYNAMODB AWS_REGION AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY`
    const {stdout} = await run('sh', ['-c', script], {})
    expect(stdout).toBe(`local\n${endpoint}\nus-east-1\nlocal\nlocal\n`)
    expect((await user.tell('env')).variables).toMatchObject({AWS_ENDPOINT_URL_DYNAMODB: endpoint})
    expect((await user.run('env --format fish')).stdout).toMatch(/^set -gx ZAEL_STACK 'local'\n/)
    expect((await user.run('env --format powershell')).stdout).toMatch(/^\$Env:ZAEL_STACK = 'local'\n/)
    expect((await user.run('env --format dotenv')).stdout).toMatch(/^ZAEL_STACK=local\n/)
  })

  it('keeps nothing with --in-memory', async () => {
    const before = await user.tell('up --in-memory')
    expect(before).toMatchObject({dataDir: null})
    await writeEntity(before.endpoint, 'team-1')
    expect(await user.tell('up --in-memory')).toMatchObject({started: false})
    expect((await user.run('up --in-memory')).stderr).toContain('stop the stack and lose the data in memory')
    await user.run('down')
    expect(existsSync(user.home.dataDir)).toBe(false)
    expect(existsSync(user.home.volatileDir)).toBe(false)
    const after = await user.tell('up --in-memory')
    expect(await hasEntity(after.endpoint, 'team-1')).toBe(false)
  })

  it('does not read the stream with --no-aggregator', async () => {
    await user.tell('up --no-aggregator')
    expect(await user.tell('status')).toMatchObject({aggregator: null})
    expect((await user.run('status')).stdout).toMatch(/ aggregator +off: usage is not counted\n/)
  })

  it('leaves nothing behind after --purge, and asks first', async () => {
    await user.tell('up')
    expect(await user.run('down --purge')).toMatchObject({
      code: 2,
      stderr: `Error: This deletes all data in ${user.home.dataDir}. This needs confirmation.\nHint: Add --yes: zael cannot ask without a terminal.\n`,
    })
    expect(await user.tell('status')).toMatchObject({running: true})
    expect(await user.tell('down --purge --yes')).toMatchObject({stopped: true, purged: user.home.dataDir})
    expect(existsSync(user.home.folder)).toBe(false)
    expect(await user.tell('down --purge')).toMatchObject({stopped: false, purged: null})
  })

  it('starts empty with --reset, asks first, and keeps foreign files', async () => {
    const before = await user.tell('up')
    await writeEntity(before.endpoint, 'team-1')
    expect(await user.tell('up --reset', 2)).toMatchObject({error: {code: 'confirm.needed'}})
    const after = await user.tell('up --reset --yes')
    expect(after).toMatchObject({started: true, dataDir: user.home.dataDir})
    expect(isRunning(before.pid as number)).toBe(false)
    expect(await hasEntity(after.endpoint, 'team-1')).toBe(false)

    await writeFile(join(user.home.dataDir, 'thesis.txt'), 'mine')
    expect(await user.tell('up --reset --yes', 5)).toMatchObject({
      error: {code: 'local.foreign-files', details: {foreign: ['thesis.txt']}},
    })
    expect(await user.tell('down --purge --yes', 5)).toMatchObject({error: {code: 'local.foreign-files'}})
    expect(await user.tell('status')).toMatchObject({running: true, pid: after.pid})
    expect(await readFile(join(user.home.dataDir, 'thesis.txt'), 'utf8')).toBe('mine')
  })

  it('reports that the running stack has other options than requested', async () => {
    const {port} = await user.tell('up')
    const other = (port as number) === 65_535 ? 65_534 : (port as number) + 1
    for (const flags of [
      '--engine docker',
      `--port ${other}`,
      `--data-dir ${user.folder}`,
      '--in-memory',
      '--no-aggregator',
    ]) {
      expect(await user.tell(`up ${flags}`, 5)).toMatchObject({error: {code: 'local.running-otherwise'}})
    }
    expect(await user.tell(`up --port ${port} --data-dir ${user.home.dataDir}`)).toMatchObject({started: false})
  })

  it('works under a broken AWS configuration', async () => {
    const env = {AWS_PROFILE: 'no-such-profile', AWS_REGION: 'mars-1', AWS_ENDPOINT_URL: 'http://127.0.0.1:1'}
    await user.tell('up', 0, env)
    expect(await user.tell('status', 0, env)).toMatchObject({running: true, table: {status: 'ACTIVE'}})
  })
})

describe.each((await enginesUnderTest()).filter(({name}) => name !== 'dynoxide'))(
  'zael local on $name',
  ({name, isSkipped}) => {
    it.skipIf(isSkipped)('keeps its data, and is chosen again because of it', async () => {
      const before = await user.tell(`up --engine ${name}`)
      expect(before).toMatchObject({engine: name, engineVersion: expect.stringMatching(/\d/)})
      await writeEntity(before.endpoint, 'team-1')
      await user.until(({aggregator}) => (aggregator as {records: number}).records > 3)
      await user.run('down')
      const after = await user.tell('up')
      expect(after).toMatchObject({started: true, engine: name, endpoint: before.endpoint})
      expect(await hasEntity(after.endpoint, 'team-1')).toBe(true)
      expect((await user.tell('status')).aggregator).toMatchObject({errors: 0})
    })
  },
)

describeWithEngine('zael local, when something is killed', () => {
  it('ends the engine of a killed supervisor, reports it in status, and repairs it with the next up', async () => {
    const before = await user.tell('up')
    await writeEntity(before.endpoint, 'team-1')
    const {enginePid} = await user.tell('status')
    process.kill(before.pid as number, 'SIGKILL')
    await untilGone([before.pid as number, user.note(enginePid)])

    expect(await user.tell('status', 6)).toMatchObject({
      running: false,
      problem: `the supervisor (process ${before.pid}) was killed`,
    })
    expect(await user.tell('env', 6)).toMatchObject({error: {code: 'local.not-running', hint: 'zael local up'}})
    expect(existsSync(user.home.stateFile)).toBe(true) // status changes nothing
    const after = await user.tell('up')
    expect(after).toMatchObject({started: true, mended: true, endpoint: before.endpoint})
    expect(await hasEntity(after.endpoint, 'team-1')).toBe(true)
  })

  it('reports a hanging supervisor in status, and replaces it with the next up', async () => {
    const before = await user.tell('up')
    process.kill(before.pid as number, 'SIGSTOP')
    const problem = `the supervisor (process ${before.pid}) does not respond`
    expect(await user.tell('status', 6)).toMatchObject({running: false, problem})
    const after = await user.tell('up')
    expect(after).toMatchObject({started: true, mended: true, endpoint: before.endpoint})
    expect(isRunning(before.pid as number)).toBe(false)
  })

  it('restarts a killed engine at the same address, with its data', async () => {
    const {endpoint, pid} = await user.tell('up')
    await writeEntity(endpoint, 'team-1')
    const {enginePid} = await user.tell('status')
    process.kill(user.note(enginePid), 'SIGKILL')
    const status = await user.until(({engineRestarts}) => engineRestarts === 1)
    expect(status).toMatchObject({running: true, pid, endpoint})
    expect(status.enginePid).not.toBe(enginePid)
    expect(await hasEntity(endpoint, 'team-1')).toBe(true)
    expect((await user.run('logs')).stdout).toMatch(
      / error the engine ended with SIGKILL [\s\S]* info {2}the engine runs again /,
    )
  })

  it('recreates the table of a killed in-memory engine, and follows its stream', async () => {
    await user.tell('up --in-memory')
    const {enginePid, endpoint} = await user.until(
      ({aggregator}) => (aggregator as {records: number}).records === FIRST_RECORDS,
    )
    process.kill(user.note(enginePid), 'SIGKILL')
    // Counted from zero again; the aggregator's own record may follow before anybody looks.
    await user.until(
      ({engineRestarts, aggregator}) => engineRestarts === 1 && (aggregator as {records: number}).records >= 3,
    )
    expect(await hasEntity(endpoint, 'team-1')).toBe(false)
  })

  it('leaves nothing half-started when up is killed', async () => {
    const script = `"$0" "$@" & sleep 0.6; kill -9 $!; wait $!; true`
    await run('sh', ['-c', script, process.execPath, BIN, 'local', 'up'], {env: user.env})
    // It may have been quick enough; then the stack runs and is known. Otherwise nothing does.
    expect([0, 6]).toContain((await user.run('status')).code)
    expect(await user.tell('up')).toMatchObject({stack: 'local'})
    await user.tell('down')
  })
})

describeWithEngine('zael local, for several at once', () => {
  it('starts one stack for two ups at the same moment', async () => {
    const results = await Promise.all([user.tell('up'), user.tell('up'), user.tell('up')])
    expect(new Set(results.map(({pid}) => pid)).size).toBe(1)
    expect(results.filter(({started}) => started)).toHaveLength(1)
    expect((await readdir(user.home.folder)).filter(name => name.startsWith('lock'))).toEqual([])
  })

  it('starts two stacks for two homes, and gives a data folder to one of them', async () => {
    const other = await LocalUser.create()
    try {
      const [one, two] = await Promise.all([user.tell('up'), other.tell('up')])
      expect(one.port).not.toBe(two.port)
      await other.run('down')
      expect(await user.tell('status')).toMatchObject({running: true, pid: one.pid})
      expect(await other.tell(`up --data-dir ${user.home.dataDir}`, 5)).toMatchObject({
        error: {code: 'local.data-in-use', details: {pid: one.pid}},
      })
    } finally {
      await other.leave()
    }
  })
})

describeWithEngine('zael local, when it cannot start', () => {
  /** Nothing runs, nothing is locked, and a plain start works. */
  async function expectClean(): Promise<void> {
    expect(user.leftovers()).toEqual([])
    expect(existsSync(user.home.stateFile)).toBe(false)
    expect(existsSync(user.home.lockFile)).toBe(false)
  }

  it('reports a port in use', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await new Promise(resolve => server.once('listening', resolve))
    const {port} = server.address() as {port: number}
    const result = await user.tell(`up --port ${port}`, 5)
    server.close()
    expect(result).toMatchObject({error: {code: 'engine.port-taken', kind: 'conflict'}})
    await expectClean()
    expect(await user.tell(`up --port ${port}`)).toMatchObject({port})
  })

  it('reports a damaged database', async () => {
    await user.tell('up')
    await user.run('down')
    const [database] = (await readdir(user.home.dataDir)).filter(name => name.endsWith('.db'))
    await writeFile(join(user.home.dataDir, String(database)), 'this is no database, this is a letter to my aunt')
    const result = await user.tell('up', 1)
    expect(result).toMatchObject({error: {code: 'local.data-damaged', hint: expect.stringContaining('--reset')}})
    await expectClean()
    expect(await user.tell('up --reset --yes')).toMatchObject({started: true})
  })

  it('reports data of another engine', async () => {
    await mkdir(user.home.dataDir, {recursive: true, mode: 0o700})
    await writeFile(join(user.home.dataDir, 'shared-local-instance.db'), '')
    expect(await user.tell('up --engine dynoxide', 5)).toMatchObject({
      error: {code: 'local.other-engine', details: {engine: 'dynamodb-local'}},
    })
    await expectClean()
  })

  it('reports a home that cannot be written to', async () => {
    await writeFile(join(user.folder, 'file'), '')
    for (const [folder, kind] of [
      [join(user.folder, 'file'), 'failed'],
      ['/proc/zael', 'failed'],
    ]) {
      expect(await user.tell('up', 1, {ZAEL_DATA_DIR: String(folder)})).toMatchObject({
        error: {code: 'local.home', kind},
      })
    }
    expect(await user.tell('up --data-dir /proc/zael', 2)).toMatchObject({error: {code: 'engine.data-dir'}})
    await expectClean()
  })

  it('reports an engine that is not available', async () => {
    const env = {JAVA_HOME: user.folder}
    expect(await user.tell('up --engine dynamodb-local', 1, env)).toMatchObject({
      error: {code: 'engine.missing', hint: expect.stringContaining('Install a Java development kit')},
    })
    await expectClean()
  })

  it.skipIf(process.platform === 'win32')('reports a Java that is too old', async () => {
    await writeFakeJava(user.folder, 'echo java.base@11.0.2; echo jdk.compiler@11.0.2')
    expect(await user.tell('up --engine dynamodb-local', 1, {JAVA_HOME: user.folder})).toMatchObject({
      error: {code: 'engine.java-too-old', message: expect.stringContaining('found Java 11')},
    })
    await expectClean()
  })

  it.each([
    ['up --port 0', '--port'],
    ['up --port x', '--port'],
    ['up --engine sqlite', '--engine'],
    ['up --data-dir x --in-memory', '--in-memory'],
    ['up --nonsense', '--nonsense'],
    ['logs --tail -1', '--tail'],
    ['env --format csh', '--format'],
  ])('refuses %s', async (args, named) => {
    const {code, stdout, stderr} = await zael(['local', ...args.split(' ')], {env: user.env})
    expect({code, stdout}).toEqual({code: 2, stdout: ''})
    expect(stderr).toContain(named)
    expect(stderr).toMatch(/^Error: .+\nHint: zael local \w+ --help\n$/s)
    expect(existsSync(user.home.folder)).toBe(false)
  })
})
