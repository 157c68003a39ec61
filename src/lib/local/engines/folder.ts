import {mkdir, mkdtemp, rmdir, stat} from 'node:fs/promises'
import {dirname, join, resolve} from 'node:path'
import {InvalidInput} from '../../core/errors.js'

/** Makes sure that the folder exists and is writable; returns its absolute path. */
export async function prepareDataDir(dataDir: string): Promise<string> {
  const folder = resolve(dataDir)
  try {
    await makeFolder(folder)
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

/** Makes a folder and its parents. Node's `recursive` option is not used: it never returns on file systems such as /proc. */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, {mode: 0o700})
  } catch (error) {
    const {code} = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await stat(folder)).isDirectory()) return
    if (code !== 'ENOENT' || dirname(folder) === folder) throw error
    await makeFolder(dirname(folder))
    await mkdir(folder, {mode: 0o700}).catch(again => {
      if (again.code !== 'EEXIST') throw again
    })
  }
}

/** Why a path cannot be used, in a few words for an error message. */
export function describePathError(error: unknown): string {
  const {code, message} = error as NodeJS.ErrnoException
  if (code === 'EEXIST' || code === 'ENOTDIR') return 'a part of the path is a file'
  if (code === 'EISDIR') return 'it is a folder, not a file'
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied'
  if (code === 'EROFS') return 'the file system is read-only'
  if (code === 'ENOENT') return 'no folder can be created there'
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'no space left'
  return message
}
