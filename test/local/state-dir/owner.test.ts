import {chmod, chown, mkdir, mkdtemp, readdir, rm, stat, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {bringDown} from '../../../src/lib/local/down.js'
import {findStack} from '../../../src/lib/local/find.js'
import {enginesForData, openDataDir, wipeData} from '../../../src/lib/local/state-dir/data-dir.js'
import {takeLock} from '../../../src/lib/local/state-dir/lock-file.js'
import {checkOwnUser, checkPrivate, makePrivateFolder} from '../../../src/lib/local/state-dir/private-file.js'
import {stateDirAt} from '../../../src/lib/local/state-dir/state.js'

const own = process.getuid?.() ?? 0
const OTHER_UID = own + 4711
let folder = ''

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
})

afterEach(() => rm(folder, {recursive: true}))

describe.skipIf(process.platform === 'win32')('a private file or folder', () => {
  it('is used when it belongs to this user alone', () => {
    checkPrivate('/a', {uid: own, mode: 0o100_600})
    checkPrivate('/a', {uid: own, mode: 0o40_700})
  })

  it('is refused when another user owns it, whatever its mode', () => {
    const message = `/a belongs to another user (uid ${OTHER_UID}; yours is ${own})`
    const refusal = expect.objectContaining({code: 'local.owner', message, kind: 'access'})
    expect(() => checkPrivate('/a', {uid: OTHER_UID, mode: 0o600})).toThrow(refusal)
    expect(() => checkOwnUser('/a', {uid: OTHER_UID}, '')).toThrow(refusal)
  })

  it.each([0o640, 0o604, 0o620, 0o602, 0o601, 0o777])('is refused with mode %o', mode => {
    expect(() => checkPrivate("/it's", {uid: own, mode: 0o100_000 | mode})).toThrow(
      expect.objectContaining({
        code: 'local.permissions',
        kind: 'access',
        message: `Other users can access /it's (mode ${mode.toString(8)}).`,
        hint: "Check that nobody changed it, then run: chmod go= '/it'\\''s'",
      }),
    )
  })

  it('is checked whenever the state or a lock is read, and is not changed by that', async () => {
    const stateDir = stateDirAt(join(folder, 'local'))
    await makePrivateFolder(stateDir.folder)
    await writeFile(stateDir.stateFile, '{}')
    await chmod(stateDir.stateFile, 0o644)
    await expect(findStack(stateDir)).rejects.toMatchObject({code: 'local.permissions', kind: 'access'})
    await expect(bringDown(stateDir, {purge: true})).rejects.toMatchObject({code: 'local.permissions'})
    expect((await stat(stateDir.stateFile)).mode & 0o777).toBe(0o644)
    await writeFile(stateDir.lockFile, '{}')
    await chmod(stateDir.lockFile, 0o666)
    await expect(takeLock(stateDir.lockFile, 0)).rejects.toMatchObject({code: 'local.permissions'})
  })

  it('is also checked when it is the folder of the state', async () => {
    const stateDir = stateDirAt(join(folder, 'local'))
    await mkdir(stateDir.folder)
    await chmod(stateDir.folder, 0o775)
    await expect(findStack(stateDir)).rejects.toMatchObject({code: 'local.permissions'})
    await expect(makePrivateFolder(stateDir.folder)).rejects.toMatchObject({code: 'local.permissions'})
  })
})

/** Only root can give files away. */
describe.skipIf(own !== 0 || process.getuid === undefined)('a file or folder of another user', () => {
  it('is refused as a state file', async () => {
    const stateDir = stateDirAt(folder)
    await writeFile(stateDir.stateFile, '{}', {mode: 0o600})
    await chown(stateDir.stateFile, OTHER_UID, OTHER_UID)
    await expect(findStack(stateDir)).rejects.toMatchObject({code: 'local.owner', kind: 'access'})
  })

  it('is refused as a data folder, and nothing in it is deleted', async () => {
    const dataDir = join(folder, 'data')
    await mkdir(dataDir)
    await writeFile(join(dataDir, 'dynoxide.db'), '')
    await chown(dataDir, OTHER_UID, OTHER_UID)
    const refusal = {code: 'local.owner', hint: 'Use your own folder with --data-dir.'}
    await expect(enginesForData(dataDir)).rejects.toMatchObject(refusal)
    await expect(openDataDir(dataDir, undefined, folder)).rejects.toMatchObject(refusal)
    await expect(wipeData(dataDir)).rejects.toMatchObject(refusal)
    expect(await readdir(dataDir)).toEqual(['dynoxide.db'])
  })
})
