import {mkdir, stat} from 'node:fs/promises'
import {dirname} from 'node:path'

/** Not with Node's `recursive` option, which never returns on file systems such as /proc. */
export async function makeFolder(folder: string, mode = 0o777): Promise<void> {
  try {
    await mkdir(folder, {mode})
  } catch (error) {
    const {code} = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await stat(folder)).isDirectory()) return
    if (code !== 'ENOENT' || dirname(folder) === folder) throw error
    await makeFolder(dirname(folder), mode)
    await mkdir(folder, {mode}).catch(again => {
      if (again.code !== 'EEXIST') throw again
    })
  }
}

export function describePathError(error: unknown): string {
  const {code, message} = error as NodeJS.ErrnoException
  if (code === 'EEXIST' || code === 'ENOTDIR') return 'a part of the path is a file'
  if (code === 'EISDIR') return 'it is a folder, not a file'
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied'
  if (code === 'EROFS') return 'the file system is read-only'
  if (code === 'ENOENT') return 'a folder cannot be created there'
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'no space left'
  return message
}
