import {chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, inject, it, vi} from 'vitest'
import {type EngineOptions, startEngine} from '../../../src/lib/local/engines/engine.js'
import {childrenOfThisProcess, isRunning, PRINT_JDK_17, untilGone, writeStandInJava} from '../support.js'

const hasNoEngine = inject('engineEndpoint') === ''
const hasNoShell = process.platform === 'win32'
let scratch = ''

beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'zael-test-'))
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(scratch, {recursive: true})
})

describe('input that no engine can take', () => {
  it.each([0, -1, 1.5, 65_536, Number.NaN])('refuses port %s', async port => {
    await expect(startEngine({port})).rejects.toMatchObject({code: 'engine.port', exitCode: 2})
  })

  it('refuses an engine that does not exist and names those that do', async () => {
    const engine = 'sqlite' as EngineOptions['engine']
    await expect(startEngine({engine})).rejects.toMatchObject({
      code: 'engine.unknown',
      hint: 'Choose one of: dynoxide, dynamodb-local, docker.',
    })
  })

  it.skipIf(hasNoEngine)('refuses a data folder that is a file, or lies behind one', async () => {
    const file = join(scratch, 'file')
    await writeFile(file, 'mine')
    for (const dataDir of [file, join(file, 'below')]) {
      await expect(startEngine({dataDir})).rejects.toMatchObject({
        code: 'engine.data-dir',
        exitCode: 2,
        message: `cannot keep data in ${dataDir}: the path leads to or through a file`,
      })
    }
    expect(await readdir(scratch)).toEqual(['file'])
  })

  it.skipIf(hasNoEngine)('refuses a data folder that cannot be written to', async context => {
    if (hasNoShell) return context.skip('Windows has no permission bits to take away')
    // Root may write anywhere except where the kernel itself says no.
    const dataDir = process.getuid?.() === 0 ? '/proc' : join(scratch, 'locked')
    if (dataDir === '/proc') expect(await readdir(dataDir)).toContain('self')
    else await mkdir(dataDir).then(() => chmod(dataDir, 0o500))
    await expect(startEngine({dataDir})).rejects.toMatchObject({code: 'engine.data-dir'})
  })
})

describe.skipIf(hasNoEngine)('giving up', () => {
  it('does not start when the signal has fired already', async () => {
    const choosePort = vi.fn()
    await expect(startEngine({signal: AbortSignal.abort()}, {choosePort})).rejects.toThrow('aborted')
    expect(choosePort).not.toHaveBeenCalled()
  })

  it('stops a running engine when the signal fires', async () => {
    const controller = new AbortController()
    const engine = await startEngine({signal: controller.signal})
    controller.abort()
    await engine.exited
    expect(isRunning(engine.pid)).toBe(false)
  })

  it.skipIf(hasNoShell)('forces an engine that does not heed the polite signal', async () => {
    const engine = await startEngine({}, {stopGraceMs: 50})
    process.kill(engine.pid, 'SIGSTOP')
    await Promise.all([engine.stop(), engine.stop()])
    expect(await engine.exited).toEqual({code: null, signal: 'SIGKILL'})
  })
})

describe.skipIf(hasNoShell)('an engine that does not come up', () => {
  it('shows its last words', async () => {
    await writeStandInJava(scratch, PRINT_JDK_17, 'echo "error: the database is damaged" >&2; exit 3')
    vi.stubEnv('JAVA_HOME', scratch)
    await expect(startEngine({engine: 'dynamodb-local'})).rejects.toMatchObject({
      code: 'engine.start-failed',
      exitCode: 1,
      message: 'dynamodb-local ended with code 3 before it was ready; it said:\nerror: the database is damaged',
    })
  })

  it('is ended when the signal fires during the start', async () => {
    const others = childrenOfThisProcess()
    await writeStandInJava(scratch, PRINT_JDK_17, 'exec sleep 600')
    vi.stubEnv('JAVA_HOME', scratch)
    const reason = new Error('changed my mind')
    const controller = new AbortController()
    const starting = startEngine({engine: 'dynamodb-local', signal: controller.signal})
    setTimeout(() => controller.abort(reason), 100)
    await expect(starting).rejects.toBe(reason)
    expect(childrenOfThisProcess()).toEqual(others)
  })

  it('is ended after the time limit', async () => {
    const pidFile = join(scratch, 'pid')
    await writeStandInJava(
      scratch,
      PRINT_JDK_17,
      `echo $$ > ${pidFile}; echo "listening on nothing" >&2; exec sleep 600`,
    )
    vi.stubEnv('JAVA_HOME', scratch)
    await expect(startEngine({engine: 'dynamodb-local'}, {readyTimeoutMs: 5_000})).rejects.toMatchObject({
      code: 'engine.start-failed',
      message: 'dynamodb-local gave no answer within 5000 ms; it said:\nlistening on nothing',
    })
    await untilGone([Number(await readFile(pidFile, 'utf8'))])
  })
})
