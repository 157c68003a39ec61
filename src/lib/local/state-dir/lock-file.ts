import {randomUUID} from 'node:crypto'
import {link, rename, rm, writeFile} from 'node:fs/promises'
import {setTimeout as sleep} from 'node:timers/promises'
import type {z} from 'zod'
import {cannotWrite, ignoreDamage, readPrivateJson} from './private-file.js'
import {isProcessRunning, ownIdentity} from './process-identity.js'
import type {lockHolderSchema} from './schemas.js'

export interface Lock extends AsyncDisposable {
  release(): Promise<void>
}

type LockHolder = Readonly<z.infer<typeof lockHolderSchema>>

const POLL_INTERVAL_MS = 25

/** Resolves with the holder after `waitMs`. A dead holder's lock counts as free. `stateDir`: the stack it is for. */
export async function takeLock(file: string, waitMs: number, stateDir?: string): Promise<Lock | LockHolder> {
  const limit = AbortSignal.timeout(waitMs)
  const own: LockHolder = {...(await ownIdentity()), token: randomUUID(), ...(stateDir !== undefined && {stateDir})}
  for (;;) {
    if (await tryTake(file, own)) return lockOf(file, own)
    const holder = await readHolder(file)
    if (!holder || !(await isProcessRunning(holder))) await removeAbandoned(file, holder?.token)
    else if (limit.aborted) return holder
    else await sleep(POLL_INTERVAL_MS)
  }
}

/** Hard-linking publishes the lock together with its content, so no reader sees a lock without a holder. */
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

/** Two processes may find the same dead lock: the slower one moves the faster one's new lock aside and puts it back. */
export async function removeAbandoned(file: string, token: string | undefined): Promise<void> {
  const aside = `${file}.${randomUUID()}`
  try {
    await rename(file, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw cannotWrite(file, error)
  }
  if ((await readHolder(aside))?.token !== token) await link(aside, file).catch(() => {})
  await rm(aside)
}

function lockOf(file: string, own: LockHolder): Lock {
  const release = async () => {
    if ((await readHolder(file))?.token === own.token) await rm(file, {force: true})
  }
  return {release, [Symbol.asyncDispose]: release}
}

/** `undefined`: no lock, or a damaged one after a crash. */
function readHolder(file: string): Promise<LockHolder | undefined> {
  return readPrivateJson(file, schemas => schemas.lockHolderSchema).catch(ignoreDamage)
}
