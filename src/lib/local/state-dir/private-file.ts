import {randomUUID} from 'node:crypto'
import {readFile, rename, rm, writeFile} from 'node:fs/promises'
import {ZaelError} from '../../core/errors.js'
import {describePathError, makeFolder} from '../engines/folder.js'

/** Makes a folder that only its owner can access. */
export async function makePrivateFolder(folder: string): Promise<void> {
  try {
    await makeFolder(folder)
  } catch (cause) {
    throw cannotWrite(folder, cause)
  }
}

/** Writes JSON atomically to a file that only its owner can read: a reader sees the old content or the new, never a part. */
export async function writePrivateJson(file: string, value: object): Promise<void> {
  const fresh = `${file}.${randomUUID()}`
  try {
    await writeFile(fresh, `${JSON.stringify(value, null, 2)}\n`, {mode: 0o600})
    await rename(fresh, file)
  } catch (cause) {
    await rm(fresh, {force: true}).catch(() => {})
    throw cannotWrite(file, cause)
  }
}

/** The content of a JSON file; `undefined` when there is no file or it is not JSON. */
export async function readPrivateJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw cannotRead(file, error)
  }
}

/** The error for a path of the state directory that cannot be written. */
export function cannotWrite(path: string, cause: unknown): ZaelError {
  const hint = 'Set XDG_DATA_HOME or ZAEL_DATA_DIR to a folder that you may write to.'
  return pathError('write', path, cause, hint)
}

function cannotRead(path: string, cause: unknown): ZaelError {
  return pathError('read', path, cause, 'Check who owns the folder: its files are readable by one user only.')
}

function pathError(verb: 'read' | 'write', path: string, cause: unknown, hint: string): ZaelError {
  const isAccessProblem = ['EACCES', 'EPERM', 'EROFS'].includes((cause as NodeJS.ErrnoException).code ?? '')
  const message = `cannot ${verb} ${path}: ${describePathError(cause)}`
  return new ZaelError(isAccessProblem ? 'access' : 'failed', 'local.home', message, {hint, details: {path}, cause})
}
