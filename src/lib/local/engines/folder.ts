import {mkdtemp, rmdir} from 'node:fs/promises'
import {join, resolve} from 'node:path'
import {InvalidInput} from '../../core/errors.js'
import {describePathError, makeFolder} from '../../files/folder.js'

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
