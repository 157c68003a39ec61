import {open, readdir, rm, rmdir} from 'node:fs/promises'
import {join} from 'node:path'
import {ZaelError} from '../../core/errors.js'
import {ENGINE_KINDS, pickEngine} from '../engines/find.js'
import {prepareDataDir} from '../engines/folder.js'
import type {EngineKind, EngineName} from '../engines/kind.js'
import {type Lock, takeLock} from './lock-file.js'

/** What a stack keeps beside the engine's tables. */
export const DATA_NAMES = {
  /** Held by the supervisor while it uses the folder. */
  lock: 'zael.lock',
  /** How far the aggregator has read the stream. */
  checkpoint: 'stream-checkpoint.json',
  /** Expired audit events. */
  archive: 'zael-archive',
} as const

const SQLITE_HEADER = 'SQLite format 3\0'

/** The engines that can read what is in a folder: all of them when it holds no tables, or is not there. */
export async function enginesForData(folder: string): Promise<readonly EngineKind[]> {
  const names = await namesIn(folder)
  const owners = ENGINE_KINDS.filter(kind => names.includes(kind.dataFile))
  return owners.length === 0 ? ENGINE_KINDS : owners
}

/** A data folder in use by this process. */
export interface OpenDataDir {
  readonly folder: string
  readonly engine: EngineName
  readonly lock: Lock
}

/** Makes sure that the folder can be written to, that nobody else uses it, and that the engine can read what is in it. */
export async function openDataDir(dataDir: string, engine: EngineName | undefined): Promise<OpenDataDir> {
  const {kind} = await pickEngine(engine, await enginesForData(dataDir))
  const folder = await prepareDataDir(dataDir)
  const lock = await takeLock(join(folder, DATA_NAMES.lock), 0)
  if (!('release' in lock)) throw dataInUse(folder, lock.pid)
  try {
    await checkData(folder, kind)
  } catch (error) {
    await lock.release()
    throw error
  }
  return {folder, engine: kind.name, lock}
}

/** Whether a folder holds anything of a local stack. */
export async function hasData(folder: string): Promise<boolean> {
  return (await namesIn(folder)).some(isOurs)
}

/** Removes a stack's data and the folder; refuses, before touching anything, when other things are in there. */
export async function wipeData(folder: string): Promise<void> {
  await checkNoForeignFiles(folder)
  // An engine makes and removes side files while it stops, so this asks for what is there now.
  for (const name of (await namesIn(folder)).filter(isOurs))
    await rm(join(folder, name), {recursive: true, force: true})
  await rmdir(folder).catch(() => {}) // not there at all, or in use by somebody else meanwhile
}

/** Throws when a folder holds something that is not of a local stack. */
export async function checkNoForeignFiles(folder: string): Promise<void> {
  const foreign = (await namesIn(folder)).filter(name => !isOurs(name))
  if (foreign.length === 0) return
  const shown = foreign.slice(0, 3).join(', ') + (foreign.length > 3 ? ', …' : '')
  throw new ZaelError('conflict', 'local.foreign-files', `${folder} also holds what is not zael's: ${shown}`, {
    hint: 'Move those files elsewhere, or name another --data-dir.',
    details: {dataDir: folder, foreign},
  })
}

/** Throws when an engine cannot work with what is in a folder: tables of another engine, or a file that is no database. */
export async function checkData(folder: string, engine: EngineKind): Promise<void> {
  const owners = await enginesForData(folder)
  if (!owners.includes(engine)) {
    const [owner] = owners.map(kind => kind.name)
    const message = `${folder} holds data of ${owner}, which ${engine.name} cannot read`
    throw new ZaelError('conflict', 'local.other-engine', message, {
      hint: `Use --engine ${owner}, another --data-dir, or --reset to start anew.`,
      details: {dataDir: folder, engine: owner},
    })
  }
  const file = join(folder, engine.dataFile)
  if (await isDatabase(file)) return
  throw new ZaelError('failed', 'local.data-damaged', `${file} is damaged: it is not a database`, {
    hint: 'Put a good copy there, or start anew with `zael local up --reset`.',
    details: {file},
  })
}

/** No file, or an empty one, is a database that has nothing in it yet. */
async function isDatabase(file: string): Promise<boolean> {
  const handle = await open(file).catch(() => undefined)
  if (!handle) return true // what cannot be opened at all is for the engine to tell
  try {
    const {bytesRead, buffer} = await handle.read(Buffer.alloc(SQLITE_HEADER.length), 0, SQLITE_HEADER.length, 0)
    return bytesRead === 0 || buffer.toString('latin1', 0, bytesRead) === SQLITE_HEADER
  } finally {
    await handle.close()
  }
}

function isOurs(name: string): boolean {
  if (name === DATA_NAMES.archive) return true
  const files = [...ENGINE_KINDS.map(kind => kind.dataFile), DATA_NAMES.lock, DATA_NAMES.checkpoint]
  // With what SQLite puts beside its file (-wal), and the new text of a file before it takes the old one's place (.new).
  return files.some(file => name === file || name.startsWith(`${file}-`) || name.startsWith(`${file}.`))
}

function dataInUse(folder: string, pid: number): ZaelError {
  return new ZaelError('conflict', 'local.data-in-use', `${folder} is in use by another local stack (process ${pid})`, {
    hint: 'Name another --data-dir, or stop that stack with `zael local down` where it was started.',
    details: {dataDir: folder, pid},
  })
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new ZaelError('access', 'local.data-unreadable', `cannot look into ${folder}: ${(error as Error).message}`, {
      hint: 'Check who owns the folder, or name another --data-dir.',
      details: {dataDir: folder},
      cause: error,
    })
  }
}
