import {chmod, mkdir, mkdtemp, readdir, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, inject, it, vi} from 'vitest'
import {type EngineOptions, startEngine} from '../../../src/lib/local/engines/engine.js'
import {childrenOfThisProcess, isRunning, PRINT_JDK_17, writeFakeJava} from '../support.js'

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

describe('invalid options of an engine', () => {
  it.each([0, -1, 1.5, 65_536, Number.NaN])('refuses port %s', async port => {
    await expect(startEngine({port})).rejects.toMatchObject({code: 'engine.port', kind: 'usage'})
  })

  it('refuses an unknown engine and lists the known ones', async () => {
    const engine = 'sqlite' as EngineOptions['engine']
    await expect(startEngine({engine})).rejects.toMatchObject({
      code: 'engine.unknown',
      hint: 'Choose one of: dynoxide, dynamodb-local, docker.',
    })
  })

  it.skipIf(hasNoEngine)('refuses a data folder that is a file, or is below one', async () => {
    const file = join(scratch, 'file')
    await writeFile(file, 'mine')
    for (const dataDir of [file, join(file, 'below')]) {
      await expect(startEngine({dataDir})).rejects.toMatchObject({
        code: 'engine.data-dir',
        kind: 'usage',
        message: `Cannot keep data in ${dataDir}: a part of the path is a file.`,
      })
    }
    expect(await readdir(scratch)).toEqual(['file'])
  })

  it.skipIf(hasNoEngine)('refuses a data folder that cannot be written to', async context => {
    if (hasNoShell) return context.skip('Windows has no permission bits')
    // Root may write everywhere except to file systems such as /proc.
    const dataDir = process.getuid?.() === 0 ? '/proc' : join(scratch, 'locked')
    if (dataDir === '/proc') expect(await readdir(dataDir)).toContain('self')
    else await mkdir(dataDir).then(() => chmod(dataDir, 0o500))
    await expect(startEngine({dataDir})).rejects.toMatchObject({code: 'engine.data-dir'})
  })
})

describe.skipIf(hasNoEngine)('the abort signal', () => {
  it('prevents the start when it is aborted before', async () => {
    const choosePort = vi.fn()
    await expect(startEngine({signal: AbortSignal.abort()}, {choosePort})).rejects.toThrow('aborted')
    expect(choosePort).not.toHaveBeenCalled()
  })

  it('leaves a running engine to its owner', async () => {
    const controller = new AbortController()
    const engine = await startEngine({signal: controller.signal})
    controller.abort()
    expect(isRunning(engine.pid)).toBe(true)
    await engine.stop()
    expect(isRunning(engine.pid)).toBe(false)
  })
})

it.skipIf(hasNoEngine || hasNoShell)('kills an engine that ignores SIGTERM after the grace time', async () => {
  const engine = await startEngine({}, {stopGraceMs: 50})
  process.kill(engine.pid, 'SIGSTOP')
  await Promise.all([engine.stop(), engine.stop()])
  expect(await engine.exited).toEqual({code: null, signal: 'SIGKILL'})
})

describe.skipIf(hasNoShell)('an engine that does not start', () => {
  it('is reported with its last output', async () => {
    await writeFakeJava(scratch, PRINT_JDK_17, 'echo "error: the database is damaged" >&2; exit 3')
    vi.stubEnv('JAVA_HOME', scratch)
    await expect(startEngine({engine: 'dynamodb-local'})).rejects.toMatchObject({
      code: 'engine.start-failed',
      kind: 'failed',
      message: 'dynamodb-local ended with code 3 before it was ready; its output:\nerror: the database is damaged',
    })
  })

  it('is stopped when the signal is aborted during the start', async () => {
    const others = childrenOfThisProcess()
    await writeFakeJava(scratch, PRINT_JDK_17, 'exec sleep 600')
    vi.stubEnv('JAVA_HOME', scratch)
    const reason = new Error('changed my mind')
    const controller = new AbortController()
    const starting = startEngine({engine: 'dynamodb-local', signal: controller.signal})
    setTimeout(() => controller.abort(reason), 100)
    await expect(starting).rejects.toBe(reason)
    expect(childrenOfThisProcess()).toEqual(others)
  })

  it('is stopped after the time limit', async () => {
    const others = childrenOfThisProcess()
    await writeFakeJava(scratch, PRINT_JDK_17, 'echo "listening on nothing" >&2; exec sleep 600')
    vi.stubEnv('JAVA_HOME', scratch)
    await expect(startEngine({engine: 'dynamodb-local'}, {readyTimeoutMs: 1_000})).rejects.toMatchObject({
      code: 'engine.start-failed',
      message: expect.stringMatching(/^dynamodb-local did not respond within 1000 ms/),
    })
    expect(childrenOfThisProcess()).toEqual(others)
  })
})
