import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {mkdir, mkdtemp, readdir, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {type Lock, removeAbandoned, takeLock} from '../../../src/lib/local/state-dir/lock-file.js'
import {isProcessRunning, ownIdentity, waitForExit} from '../../../src/lib/local/state-dir/process-identity.js'

let folder = ''
let file = ''

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  file = join(folder, 'lock')
})

afterEach(async () => {
  await rm(folder, {recursive: true})
})

/** The lock holder of a process that has ended. */
async function deadProcess() {
  const child = spawn(process.execPath, ['--eval', ''])
  await once(child, 'exit')
  return {pid: child.pid as number, began: 'long ago', token: 'dead'}
}

async function take(waitMs = 60_000): Promise<Lock> {
  const lock = await takeLock(file, waitMs)
  if (!('release' in lock)) throw new Error(`held by ${lock.pid}`)
  return lock
}

describe('a lock', () => {
  it('is held by one holder at a time', async () => {
    let inside = 0
    let most = 0
    const work = async () => {
      const lock = await take()
      most = Math.max(most, ++inside)
      await new Promise(resolve => setImmediate(resolve))
      inside--
      await lock.release()
    }
    await Promise.all(Array.from({length: 8}, work))
    expect({most, left: await readdir(folder)}).toEqual({most: 1, left: []})
  })

  it('reports its holder when it cannot be taken in time', async () => {
    const lock = await take()
    expect(await takeLock(file, 0)).toMatchObject(await ownIdentity())
    await lock.release()
  })

  it('is free when its process is dead', async () => {
    await writeFile(file, JSON.stringify(await deadProcess()), {mode: 0o600})
    await (await take()).release()
    expect(await readdir(folder)).toEqual([])
  })

  it('is free when its process is dead and the pid is in use again', async () => {
    await writeFile(file, JSON.stringify({pid: process.pid, began: 'another time', token: 'other'}), {mode: 0o600})
    await (await take()).release()
  })

  it.each([
    '',
    '{"pid":',
    'null',
    '{"pid": -1, "began": "", "token": "x"}',
    '{"pid": 1e99, "began": "", "token": "x"}',
  ])('is free when a crash has left it as %j', async text => {
    await writeFile(file, text, {mode: 0o600})
    await (await take()).release()
  })

  it('goes to only one of several processes when its holder is dead', async () => {
    await writeFile(file, JSON.stringify(await deadProcess()), {mode: 0o600})
    const taken = await Promise.all(Array.from({length: 6}, () => takeLock(file, 0)))
    const locks = taken.filter((each): each is Lock => 'release' in each)
    expect(locks).toHaveLength(1)
    await locks[0]?.release()
    expect(await readdir(folder)).toEqual([])
  })

  it('is restored when a late removal of an abandoned lock hits a new holder', async () => {
    const lock = await take()
    await removeAbandoned(file, 'dead')
    expect(await takeLock(file, 0)).toMatchObject(await ownIdentity())
    await lock.release()
    expect(await readdir(folder)).toEqual([])
  })

  it('is not released by a former holder', async () => {
    const lock = await take()
    const other = JSON.stringify({...(await ownIdentity()), token: 'other'})
    await writeFile(file, other, {mode: 0o600})
    await lock.release()
    expect(await readFile(file, 'utf8')).toBe(other)
  })

  it('reports a folder in its place, and does not change it', async () => {
    await mkdir(file, {mode: 0o700})
    const message = `Cannot read ${file}: it is a folder, not a file`
    await expect(takeLock(file, 0)).rejects.toMatchObject({code: 'local.home', message})
    expect(await readdir(folder)).toEqual(['lock'])
  })

  it('is respected when a newer version wrote it with more keys', async () => {
    await writeFile(file, JSON.stringify({...(await ownIdentity()), token: 'newer', future: 1}), {mode: 0o600})
    expect(await takeLock(file, 0)).toEqual({...(await ownIdentity()), token: 'newer'})
  })

  it('fails in a missing folder', async () => {
    await expect(takeLock(join(folder, 'none', 'lock'), 0)).rejects.toMatchObject({code: 'local.home'})
  })
})

describe('a process', () => {
  it('is identified by pid and start time', async () => {
    const own = await ownIdentity()
    expect(await isProcessRunning(own)).toBe(true)
    expect(await isProcessRunning(await deadProcess())).toBe(false)
    if (process.platform !== 'win32') expect(await isProcessRunning({...own, began: 'another time'})).toBe(false)
    expect(await waitForExit(own, 1)).toBe(false)
  })
})
