import {mkdtemp, rmdir} from 'node:fs/promises'
import {join, resolve} from 'node:path'
import {InvalidInput} from '../../core/errors.js'
import {describePathError, makeFolder} from '../../files/folder.js'

export type EngineName = 'dynoxide' | 'dynamodb-local' | 'docker'

/** Program first. Without a data folder, the data is in memory. */
type EngineCommand = (port: number, dataDir: string | undefined) => readonly string[]

export interface LocatedEngine {
  readonly command: EngineCommand
  readonly version: string
}

export interface EngineKind {
  readonly name: EngineName
  /** Printed on stderr once the socket is bound. An HTTP response may come from another process on the port. */
  readonly announcement: string
  /** A SQLite file in the data folder. */
  readonly dataFile: string
  /** Runs before the engine opens the folder; changes nothing in a used one. */
  prepare?(dataDir: string): Promise<void>
  /** Throws a `ZaelError` that names what is missing. */
  locate(): Promise<LocatedEngine>
}

export const PRIVATE_MODE = 0o700

export async function prepareDataDir(dataDir: string): Promise<string> {
  const folder = resolve(dataDir)
  try {
    await makeFolder(folder, PRIVATE_MODE)
    // Only a write proves it: permission bits do not cover read-only mounts, access control lists or root.
    await rmdir(await mkdtemp(join(folder, '.write-test-')))
    return folder
  } catch (cause) {
    throw new InvalidInput('engine.data-dir', `Cannot keep data in ${folder}: ${describePathError(cause)}.`, {
      hint: 'Name a folder with write permission. zael creates it if it does not exist.',
      details: {dataDir: folder},
      cause,
    })
  }
}
