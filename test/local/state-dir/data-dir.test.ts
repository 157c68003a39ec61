import {mkdir, mkdtemp, readdir, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {dynamodbLocal} from '../../../src/lib/local/engines/dynamodb-local.js'
import {dynoxide} from '../../../src/lib/local/engines/dynoxide.js'
import {checkData, enginesForData, hasData, openDataDir, wipeData} from '../../../src/lib/local/state-dir/data-dir.js'
import {type Lock, takeLock} from '../../../src/lib/local/state-dir/lock-file.js'

const DATABASE = 'SQLite format 3\0 and so on'
let folder = ''

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
})

afterEach(async () => {
  await rm(folder, {recursive: true, force: true})
})

async function put(...names: string[]): Promise<void> {
  for (const name of names) await writeFile(join(folder, name), DATABASE)
}

const readers = async () => (await enginesForData(folder)).map(({name}) => name)

describe('the data folder', () => {
  it('is readable by any engine without tables, and by those of the same format with tables', async () => {
    expect(await readers()).toEqual(['dynoxide', 'dynamodb-local', 'docker'])
    await put('dynoxide.db')
    expect(await readers()).toEqual(['dynoxide'])
    await rm(join(folder, 'dynoxide.db'))
    await put('shared-local-instance.db')
    expect(await readers()).toEqual(['dynamodb-local', 'docker'])
    await rm(folder, {recursive: true})
    expect(await readers()).toHaveLength(3)
  })

  it('is wiped with all files of a stack', async () => {
    await put('dynoxide.db', 'dynoxide.db-wal', 'shared-local-instance.db', 'stream-checkpoint.json', 'zael.lock')
    await put('stream-checkpoint.json.new', 'zael.lock.0b5f', 'dynoxide.db.new')
    await mkdir(join(folder, 'zael-archive'))
    expect(await hasData(folder)).toBe(true)
    await wipeData(folder)
    expect(await hasData(folder)).toBe(false)
    await expect(readdir(folder)).rejects.toThrow('ENOENT')
    await wipeData(folder)
  })

  it.each(['thesis.txt', 'dynoxide.db2', 'my-dynoxide.db', 'audit', 'lock'])(
    'is not changed at all when it contains %s',
    async name => {
      await put('dynoxide.db', name)
      await expect(wipeData(folder)).rejects.toMatchObject({code: 'local.foreign-files', details: {foreign: [name]}})
      expect(await readdir(folder)).toHaveLength(2)
    },
  )

  it('is checked before an engine opens it', async () => {
    await checkData(folder, dynoxide)
    await put('dynoxide.db')
    await checkData(folder, dynoxide)
    await expect(checkData(folder, dynamodbLocal)).rejects.toMatchObject({code: 'local.other-engine', kind: 'conflict'})
    for (const text of ['x', 'SQLite format 3', 'a letter to my aunt']) {
      await writeFile(join(folder, 'dynoxide.db'), text)
      await expect(checkData(folder, dynoxide)).rejects.toMatchObject({code: 'local.data-damaged', kind: 'failed'})
    }
    await writeFile(join(folder, 'dynoxide.db'), '')
    await checkData(folder, dynoxide)
  })

  it('is waited for while an earlier supervisor of the same stack ends, and refused while another stack uses it', async () => {
    const lock = (await takeLock(join(folder, 'zael.lock'), 0, '/home/a')) as Lock
    await expect(openDataDir(folder, 'dynoxide', '/home/b')).rejects.toMatchObject({code: 'local.data-in-use'})
    const opening = openDataDir(folder, 'dynoxide', '/home/a')
    await Promise.race([opening, sleep(200)]) // time enough to be refused
    await lock.release()
    await (await opening).lock.release()
    expect(await readdir(folder)).toEqual([])
  })
})
