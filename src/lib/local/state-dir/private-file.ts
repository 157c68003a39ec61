import {randomUUID} from 'node:crypto'
import {readFile, rename, rm, writeFile} from 'node:fs/promises'
import {ZaelError} from '../../core/errors.js'
import {describePathError, makeFolder} from '../engines/folder.js'

/** Makes a folder that only its owner can look into. */
export async function makePrivateFolder(folder: string): Promise<void> {
  try {
    await makeFolder(folder)
  } catch (cause) {
    throw cannotWrite(folder, cause)
  }
}

/** Puts JSON into a file that only its owner can read; whoever reads sees the old text or the new one, never half of it. */
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

/** What a JSON file says; `undefined` when there is none or it cannot be understood. */
export async function readPrivateJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw cannotRead(file, error)
  }
}

/** The error for a place in the stack's home that does not take what is written there. */
export function cannotWrite(path: string, cause: unknown): ZaelError {
  const kind = isAccessProblem(cause) ? 'access' : 'failed'
  return new ZaelError(kind, 'local.home', `cannot write ${path}: ${describePathError(cause)}`, {
    hint: 'Name a folder you may write to in XDG_DATA_HOME or ZAEL_DATA_DIR.',
    details: {path},
    cause,
  })
}

function cannotRead(path: string, cause: unknown): ZaelError {
  const kind = isAccessProblem(cause) ? 'access' : 'failed'
  return new ZaelError(kind, 'local.home', `cannot read ${path}: ${describePathError(cause)}`, {
    hint: 'Check who owns the folder; zael keeps its files for one user only.',
    details: {path},
    cause,
  })
}

function isAccessProblem(error: unknown): boolean {
  return ['EACCES', 'EPERM', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? '')
}
