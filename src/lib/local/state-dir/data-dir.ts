import {open, readdir, rm, rmdir, stat} from 'node:fs/promises'
import {join} from 'node:path'
import {ZaelError} from '../../core/errors.js'
import {ENGINE_KINDS, pickEngine} from '../engines/find.js'
import {type EngineKind, type EngineName, prepareDataDir} from '../engines/kind.js'
import {type Lock, takeLock} from './lock-file.js'
import {checkOwnUser} from './private-file.js'

export const DATA_NAMES = {
  /** Held by the supervisor while it uses the folder. */
  lock: 'zael.lock',
  checkpoint: 'stream-checkpoint.json',
  archive: 'zael-archive',
} as const

// Long enough to stop an engine that is still starting on a busy machine.
const ENDING_WAIT_MS = 30_000

const SQLITE_HEADER = 'SQLite format 3\0'

/** All engines when the folder holds no tables or does not exist. */
export async function enginesForData(folder: string): Promise<readonly EngineKind[]> {
  const names = await listNames(folder)
  const owners = ENGINE_KINDS.filter(kind => names.includes(kind.dataFile))
  return owners.length === 0 ? ENGINE_KINDS : owners
}

/** Locks the folder. Throws when another stack uses it, or the engine cannot read its data. */
export async function openDataDir(
  dataDir: string,
  engine: EngineName | undefined,
  stateDir: string,
): Promise<{readonly folder: string; readonly engine: EngineName; readonly lock: Lock}> {
  const {kind} = await pickEngine(engine, await enginesForData(dataDir))
  const folder = await prepareDataDir(dataDir)
  const lock = await lockFolder(folder, stateDir)
  try {
    await checkData(folder, kind)
  } catch (error) {
    await lock.release()
    throw error
  }
  return {folder, engine: kind.name, lock}
}

/** Another supervisor of the same stack is about to end: the command that started it was killed before it was ready. */
async function lockFolder(folder: string, stateDir: string): Promise<Lock> {
  const file = join(folder, DATA_NAMES.lock)
  let lock = await takeLock(file, 0, stateDir)
  if ('stateDir' in lock && lock.stateDir === stateDir) lock = await takeLock(file, ENDING_WAIT_MS, stateDir)
  if ('release' in lock) return lock
  throw dataInUse(folder, lock.pid)
}

export async function hasData(folder: string): Promise<boolean> {
  return (await listNames(folder)).some(isStackFile)
}

/** Throws, before deleting anything, when the folder holds other files. */
export async function wipeData(folder: string): Promise<void> {
  await checkNoForeignFiles(folder)
  // Listed again: an engine creates and removes side files while it stops.
  for (const name of (await listNames(folder)).filter(isStackFile))
    await rm(join(folder, name), {recursive: true, force: true})
  await rmdir(folder).catch(() => {}) // does not exist, or another process has written to it meanwhile
}

export async function checkNoForeignFiles(folder: string): Promise<void> {
  const foreign = (await listNames(folder)).filter(name => !isStackFile(name))
  if (foreign.length === 0) return
  const shown = foreign.slice(0, 3).join(', ') + (foreign.length > 3 ? ', …' : '')
  const message = `${folder} contains files that do not belong to zael: ${shown}`
  throw new ZaelError('conflict', 'local.foreign-files', message, {
    hint: 'Move these files, or use another --data-dir.',
    details: {dataDir: folder, foreign},
  })
}

export async function checkData(folder: string, engine: EngineKind): Promise<void> {
  const owners = await enginesForData(folder)
  if (!owners.includes(engine)) {
    const [owner] = owners.map(kind => kind.name)
    const message = `${folder} contains data of ${owner}, which ${engine.name} cannot read`
    throw new ZaelError('conflict', 'local.other-engine', message, {
      hint: `Use --engine ${owner}, another --data-dir, or --reset to start without data.`,
      details: {dataDir: folder, engine: owner},
    })
  }
  const file = join(folder, engine.dataFile)
  if (await isDatabase(file)) return
  throw new ZaelError('failed', 'local.data-damaged', `${file} is damaged: it is not a database`, {
    hint: 'Restore it from a backup, or start without data: zael local up --reset',
    details: {file},
  })
}

/** A missing or empty file counts as a new database. */
async function isDatabase(file: string): Promise<boolean> {
  const handle = await open(file).catch(() => undefined)
  if (!handle) return true // when the file cannot be opened, the engine reports why
  try {
    const {bytesRead, buffer} = await handle.read(Buffer.alloc(SQLITE_HEADER.length), 0, SQLITE_HEADER.length, 0)
    return bytesRead === 0 || buffer.toString('latin1', 0, bytesRead) === SQLITE_HEADER
  } finally {
    await handle.close()
  }
}

function isStackFile(name: string): boolean {
  if (name === DATA_NAMES.archive) return true
  const files = [...ENGINE_KINDS.map(kind => kind.dataFile), DATA_NAMES.lock, DATA_NAMES.checkpoint]
  // Including SQLite's side files (-wal) and temporary files that are to be renamed (.new).
  return files.some(file => name === file || name.startsWith(`${file}-`) || name.startsWith(`${file}.`))
}

function dataInUse(folder: string, pid: number): ZaelError {
  return new ZaelError('conflict', 'local.data-in-use', `Another local stack (process ${pid}) uses ${folder}.`, {
    hint: 'Use another --data-dir, or stop that stack with `zael local down` in its environment.',
    details: {dataDir: folder, pid},
  })
}

/** Refuses a folder of another user, who could have put anything into it. */
async function listNames(folder: string): Promise<string[]> {
  try {
    checkOwnUser(folder, await stat(folder), 'Use your own folder with --data-dir.')
    return await readdir(folder)
  } catch (error) {
    if (error instanceof ZaelError) throw error
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    const message = `Cannot read the folder ${folder}: ${(error as Error).message}`
    throw new ZaelError('access', 'local.data-unreadable', message, {
      hint: 'Check the owner of the folder, or use another --data-dir.',
      details: {dataDir: folder},
      cause: error,
    })
  }
}
