import {randomUUID} from 'node:crypto'
import type {Stats} from 'node:fs'
import {open, rename, rm, stat, writeFile} from 'node:fs/promises'
import type {z} from 'zod'
import {valueFor, ZaelError} from '../../core/errors.js'
import {describeIssues} from '../../core/text/text.js'
import {describePathError, makeFolder} from '../../files/folder.js'
import {PRIVATE_MODE} from '../engines/kind.js'

export async function makePrivateFolder(folder: string): Promise<void> {
  try {
    await makeFolder(folder, PRIVATE_MODE)
  } catch (cause) {
    throw cannotWrite(folder, cause)
  }
  await checkPrivateFolder(folder)
}

export async function checkPrivateFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch(() => undefined)
  if (found) checkPrivate(folder, found)
}

/** Atomic: a reader sees the old content or the new, never a part. */
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

export class DamagedFile extends ZaelError {
  constructor(
    readonly path: string,
    readonly problem: string,
  ) {
    super('failed', 'local.damaged', `${path} is damaged: ${problem}`, {
      hint: 'Run `zael local up`, which replaces the file.',
      details: {path},
    })
  }
}

export const ignoreDamage = valueFor([DamagedFile], undefined)

type Schemas = typeof import('./schemas.js')

export async function readPrivateJson<T>(
  file: string,
  schemaOf: (schemas: Schemas) => z.ZodType<T>,
): Promise<T | undefined> {
  const text = await readIfThere(file)
  if (text === undefined) return undefined
  // Loaded only where there is something to check.
  const schema = schemaOf(await import('./schemas.js'))
  const {data, error} = schema.safeParse(parseJson(file, text))
  if (error) throw new DamagedFile(file, describeIssues(error.issues))
  return data
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    await using handle = await open(file)
    checkPrivate(file, await handle.stat())
    return await handle.readFile('utf8')
  } catch (error) {
    if (error instanceof ZaelError) throw error
    const {code} = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw cannotRead(file, error)
  }
}

/** A power failure can leave an empty file. */
function parseJson(file: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new DamagedFile(file, text.trim() === '' ? 'it is empty' : 'it is not JSON')
  }
}

export function cannotWrite(path: string, cause: unknown): ZaelError {
  const isFull = ['ENOSPC', 'EDQUOT'].includes((cause as NodeJS.ErrnoException).code ?? '')
  const hint = 'Set XDG_DATA_HOME or ZAEL_DATA_DIR to a folder with write permission.'
  return pathError('write', path, cause, isFull ? 'Free some space, then try again.' : hint)
}

function cannotRead(path: string, cause: unknown): ZaelError {
  const isFolder = (cause as NodeJS.ErrnoException).code === 'EISDIR'
  const hint = isFolder ? 'Move that folder.' : 'Check the owner of the folder: only its owner can read the files.'
  return pathError('read', path, cause, hint)
}

function pathError(verb: 'read' | 'write', path: string, cause: unknown, hint: string): ZaelError {
  const isAccessProblem = ['EACCES', 'EPERM', 'EROFS'].includes((cause as NodeJS.ErrnoException).code ?? '')
  const message = `Cannot ${verb} ${path}: ${describePathError(cause)}`
  return new ZaelError(isAccessProblem ? 'access' : 'failed', 'local.home', message, {hint, details: {path}, cause})
}

/** Windows has neither user ids nor permission bits. */
export function checkOwnUser(path: string, {uid}: Pick<Stats, 'uid'>, hint: string): void {
  const own = process.getuid?.()
  if (own === undefined || uid === own) return
  throw new ZaelError('access', 'local.owner', `${path} belongs to another user (uid ${uid}; yours is ${own})`, {
    hint,
    details: {path, uid},
  })
}

/** Throws if another user owns, can read or can change the path. No repair: others may already have changed it. */
export function checkPrivate(path: string, {uid, mode}: Pick<Stats, 'uid' | 'mode'>): void {
  checkOwnUser(path, {uid}, 'Set ZAEL_DATA_DIR to your own folder.')
  if (process.getuid === undefined || (mode & 0o077) === 0) return
  const bits = (mode & 0o777).toString(8)
  throw new ZaelError('access', 'local.permissions', `Other users can access ${path} (mode ${bits}).`, {
    hint: `Check that nobody changed it, then run: chmod go= '${path.replaceAll("'", `'\\''`)}'`,
    details: {path, mode: bits},
  })
}
