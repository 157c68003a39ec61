import {randomUUID} from 'node:crypto'
import {link, rename, rm, writeFile} from 'node:fs/promises'
import {setTimeout as sleep} from 'node:timers/promises'
import {cannotWrite, readPrivateJson} from './private-file.js'
import {isProcessRunning, ownIdentity, type ProcessIdentity} from './process-identity.js'

/** A lock that this process holds. */
export interface Lock extends AsyncDisposable {
  release(): Promise<void>
}

/** Who holds a lock. */
export interface LockHolder extends ProcessIdentity {
  readonly token: string
}

const POLL_INTERVAL_MS = 25

/**
 * Takes the lock, waiting for it up to the given time; otherwise says who holds it. A holder that died without letting go
 * does not count.
 */
export async function takeLock(file: string, waitMs: number): Promise<Lock | LockHolder> {
  const limit = AbortSignal.timeout(waitMs)
  const own: LockHolder = {...(await ownIdentity()), token: randomUUID()}
  for (;;) {
    if (await tryTake(file, own)) return lockOf(file, own)
    const holder = asHolder(await readPrivateJson(file))
    if (!holder || !(await isProcessRunning(holder))) await removeAbandoned(file, holder?.token)
    else if (limit.aborted) return holder
    else await sleep(POLL_INTERVAL_MS)
  }
}

/** A link is made at once and with its content, so nobody ever reads a lock that does not say whose it is. */
async function tryTake(file: string, own: LockHolder): Promise<boolean> {
  const fresh = `${file}.${own.token}`
  try {
    await writeFile(fresh, JSON.stringify(own), {mode: 0o600})
    await link(fresh, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw cannotWrite(file, error)
  } finally {
    await rm(fresh, {force: true})
  }
}

/** A power failure may leave a lock without words. Two may find the same abandoned lock: the one who is late would move away the new lock of the other, and puts it back. */
export async function removeAbandoned(file: string, token: string | undefined): Promise<void> {
  const aside = `${file}.${randomUUID()}`
  try {
    await rename(file, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw cannotWrite(file, error)
  }
  if (asHolder(await readPrivateJson(aside))?.token !== token) await link(aside, file).catch(() => {})
  await rm(aside)
}

function lockOf(file: string, own: LockHolder): Lock {
  const release = async () => {
    if (asHolder(await readPrivateJson(file))?.token === own.token) await rm(file, {force: true})
  }
  return {release, [Symbol.asyncDispose]: release}
}

function asHolder(value: unknown): LockHolder | undefined {
  const {pid, began, token} = (value ?? {}) as Partial<LockHolder>
  return typeof pid === 'number' && typeof began === 'string' && typeof token === 'string'
    ? {pid, began, token}
    : undefined
}
