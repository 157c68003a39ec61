import {rm} from 'node:fs/promises'
import {homedir} from 'node:os'
import {join, resolve} from 'node:path'
import type {z} from 'zod'
import {checkPrivateFolder, ignoreDamage, readPrivateJson, writePrivateJson} from './private-file.js'
import type {stackEndSchema, stackStateSchema} from './schemas.js'

/** Also the name of its table. */
export const LOCAL_STACK = 'local'

/** Does not prove that the stack still runs. */
export type StackState = Readonly<z.infer<typeof stackStateSchema>>

export type StackEnd = Readonly<z.infer<typeof stackEndSchema>>

/** Throws `DamagedFile` when the file cannot be used. */
export async function readState(stateDir: StateDir): Promise<StackState | undefined> {
  await checkPrivateFolder(stateDir.folder)
  return readPrivateJson(stateDir.stateFile, schemas => schemas.stackStateSchema)
}

/** `undefined`: no stack has ended, it was killed, or the file is damaged. */
export async function readEnd(stateDir: StateDir): Promise<StackEnd | undefined> {
  return readPrivateJson(stateDir.endFile, schemas => schemas.stackEndSchema).catch(ignoreDamage)
}

export async function writeState(stateDir: StateDir, state: StackState): Promise<void> {
  await writePrivateJson(stateDir.stateFile, state)
}

/** Skips the state of a later stack. */
export async function endState(stateDir: StateDir, state: StackState, reason: string | null): Promise<void> {
  if ((await readState(stateDir).catch(ignoreDamage))?.startToken !== state.startToken) return
  const end: StackEnd = {endedAt: new Date().toISOString(), port: state.port, reason}
  // A full disk must not leave the state of a stack that has ended.
  await writePrivateJson(stateDir.endFile, end).catch(() => {})
  await rm(stateDir.stateFile, {force: true})
}

/** Each state directory holds one local stack. */
export interface StateDir {
  readonly folder: string
  /** Exists only while a supervisor runs, or after one was killed. */
  readonly stateFile: string
  readonly endFile: string
  /** Held by a command that starts or stops the stack. */
  readonly lockFile: string
  readonly logFile: string
  readonly dataDir: string
  /** Files of a stack in memory; worthless after it has ended. */
  readonly volatileDir: string
}

type Environment = Readonly<Record<string, string | undefined>>

/** Below ZAEL_DATA_DIR, else below the XDG data directory. */
export function findStateDir(env: Environment = process.env): StateDir {
  return stateDirAt(join(dataFolder(env), 'local'))
}

export function stateDirAt(folder: string): StateDir {
  return {
    folder,
    stateFile: join(folder, 'state.json'),
    endFile: join(folder, 'ended.json'),
    lockFile: join(folder, 'lock'),
    logFile: join(folder, 'stack.log'),
    dataDir: join(folder, 'data'),
    volatileDir: join(folder, 'volatile'),
  }
}

function dataFolder(env: Environment): string {
  if (env.ZAEL_DATA_DIR) return resolve(env.ZAEL_DATA_DIR)
  // By the XDG specification a relative path counts as not set.
  const xdg = env.XDG_DATA_HOME?.startsWith('/') ? env.XDG_DATA_HOME : undefined
  const windows = process.platform === 'win32' ? env.LOCALAPPDATA : undefined
  return join(xdg ?? windows ?? join(env.HOME || homedir(), '.local', 'share'), 'zael')
}
