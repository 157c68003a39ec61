import {mkdtemp, rmdir} from 'node:fs/promises'
import {join, resolve} from 'node:path'
import {InvalidInput} from '../../core/errors.js'
import {describePathError, makeFolder} from '../../files/folder.js'

export type EngineName = 'dynoxide' | 'dynamodb-local' | 'docker'

/** Builds the command line (program first) that serves on a loopback port; without a data folder the data is in memory. */
type EngineCommand = (port: number, dataDir: string | undefined) => readonly string[]

export interface LocatedEngine {
  readonly command: EngineCommand
  readonly version: string
}

export interface EngineKind {
  readonly name: EngineName
  /**
   * Printed on stderr once the socket is bound. An HTTP response alone does not prove that our engine is up: on a port that
   * is in use it comes from the process that already listens there.
   */
  readonly announcement: string
  /** The file in the data folder that holds the tables, in SQLite's format. */
  readonly dataFile: string
  /** Prepares an empty data folder before the engine opens it for the first time; changes nothing in a used one. */
  prepare?(dataDir: string): Promise<void>
  /** Finds what the engine needs; throws a `ZaelError` that names what is missing. */
  locate(): Promise<LocatedEngine>
}

export const PRIVATE_MODE = 0o700

/** Makes sure that the folder exists and is writable; returns its absolute path. */
export async function prepareDataDir(dataDir: string): Promise<string> {
  const folder = resolve(dataDir)
  try {
    await makeFolder(folder, PRIVATE_MODE)
    // Only writing proves it: permission bits do not tell about read-only mounts, access control lists or root.
    await rmdir(await mkdtemp(join(folder, '.write-test-')))
    return folder
  } catch (cause) {
    throw new InvalidInput('engine.data-dir', `cannot keep data in ${folder}: ${describePathError(cause)}`, {
      hint: 'Name a folder that you may write to; it is created if it does not exist.',
      details: {dataDir: folder},
      cause,
    })
  }
}
