import {execFile} from 'node:child_process'
import {readFile} from 'node:fs/promises'
import {setTimeout as sleep} from 'node:timers/promises'
import {promisify} from 'node:util'

/** One process, and not a later one that was given the same number. */
export interface ProcessIdentity {
  readonly pid: number
  /** When it began, in whatever words the system has for that; empty where it has none. */
  readonly began: string
}

const POLL_INTERVAL_MS = 20

/** This process. */
export async function ownIdentity(): Promise<ProcessIdentity> {
  return {pid: process.pid, began: (await beginOf(process.pid)) ?? ''}
}

/** Whether that very process still runs. */
export async function isProcessRunning({pid, began}: ProcessIdentity): Promise<boolean> {
  return isPidInUse(pid) && (began === '' || (await beginOf(pid)) === began)
}

/** Resolves with true once the process is gone, with false when it is still there after the time. */
export async function waitForExit(identity: ProcessIdentity, limitMs: number): Promise<boolean> {
  const limit = AbortSignal.timeout(limitMs)
  while (await isProcessRunning(identity)) {
    if (limit.aborted) return false
    await sleep(POLL_INTERVAL_MS)
  }
  return true
}

function isPidInUse(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** `undefined` when there is no such process, or only what is left of it until its parent takes note. */
async function beginOf(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') return beginFromProc(pid)
  if (process.platform === 'win32') return ''
  const {stdout} = await promisify(execFile)('ps', ['-o', 'stat=,lstart=', '-p', String(pid)]).catch(() => ({
    stdout: '',
  }))
  const [, state, began] = /^\s*(\S+)\s+(.+?)\s*$/.exec(stdout) ?? []
  return state?.startsWith('Z') ? undefined : began
}

async function beginFromProc(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // The second field is the program's name in brackets and may hold anything; state is the 3rd, the start the 22nd.
  const [state, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return text === '' || state === 'Z' ? undefined : rest[18]
}
