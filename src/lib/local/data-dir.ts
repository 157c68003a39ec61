import {mkdir, mkdtemp, rmdir} from 'node:fs/promises'
import {join, resolve} from 'node:path'
import {InvalidInput} from '../errors.js'

/** Makes sure the folder exists and can be written to; returns its absolute path. */
export async function prepareDataDir(dataDir: string): Promise<string> {
  const folder = resolve(dataDir)
  try {
    await mkdir(folder, {recursive: true})
    // Writing is the only honest question: permission bits say nothing of read-only mounts, access lists or root.
    await rmdir(await mkdtemp(join(folder, '.write-test-')))
    return folder
  } catch (cause) {
    throw new InvalidInput('engine.data-dir', `cannot keep data in ${folder}: ${reasonOf(cause)}`, {
      hint: 'Name a folder that you may write to, or one that does not exist yet.',
      details: {dataDir: folder},
      cause,
    })
  }
}

function reasonOf(error: unknown): string {
  const {code, message} = error as NodeJS.ErrnoException
  if (code === 'EEXIST' || code === 'ENOTDIR') return 'the path leads to or through a file'
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied'
  if (code === 'EROFS') return 'the file system is read-only'
  return message
}
