import {mkdir, mkdtemp, rmdir, stat} from 'node:fs/promises'
import {dirname, join, resolve} from 'node:path'
import {InvalidInput} from '../../core/errors.js'

/** Makes sure the folder exists and can be written to; returns its absolute path. */
export async function prepareDataDir(dataDir: string): Promise<string> {
  const folder = resolve(dataDir)
  try {
    await makeFolder(folder)
    // Writing is the only honest question: permission bits say nothing of read-only mounts, access lists or root.
    await rmdir(await mkdtemp(join(folder, '.write-test-')))
    return folder
  } catch (cause) {
    throw new InvalidInput('engine.data-dir', `cannot keep data in ${folder}: ${describePathError(cause)}`, {
      hint: 'Name a folder that you may write to, or one that does not exist yet.',
      details: {dataDir: folder},
      cause,
    })
  }
}

/** Makes a folder with all folders above it. Not Node's own way, which never comes back where the kernel makes the files. */
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

/** Why a path cannot be used, in a few words. */
export function describePathError(error: unknown): string {
  const {code, message} = error as NodeJS.ErrnoException
  if (code === 'EEXIST' || code === 'ENOTDIR') return 'the path leads to or through a file'
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied'
  if (code === 'EROFS') return 'the file system is read-only'
  if (code === 'ENOENT') return 'no folder can be made there'
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'there is no space left'
  return message
}
