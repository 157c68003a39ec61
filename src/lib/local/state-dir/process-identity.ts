import {execFile} from 'node:child_process'
import {readFile} from 'node:fs/promises'
import {setTimeout as sleep} from 'node:timers/promises'
import {promisify} from 'node:util'

/** Distinguishes a process from a later one with the same pid. */
export interface ProcessIdentity {
  readonly pid: number
  /** Start time in the operating system's own format; empty: not available. */
  readonly began: string
}

const POLL_INTERVAL_MS = 20

export async function ownIdentity(): Promise<ProcessIdentity> {
  return {pid: process.pid, began: (await readStartTime(process.pid)) ?? ''}
}

export async function isProcessRunning({pid, began}: ProcessIdentity): Promise<boolean> {
  return isPidInUse(pid) && (began === '' || (await readStartTime(pid)) === began)
}

export function waitForExit(identity: ProcessIdentity, limitMs: number): Promise<boolean> {
  return waitUntil(async () => !(await isProcessRunning(identity)), limitMs)
}

export async function waitUntil(condition: () => Promise<boolean>, limitMs: number): Promise<boolean> {
  const limit = AbortSignal.timeout(limitMs)
  while (!(await condition())) {
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

/** `undefined`: no such process, or a zombie. */
async function readStartTime(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') return readStartTimeFromProc(pid)
  if (process.platform === 'win32') return ''
  const {stdout} = await promisify(execFile)('ps', ['-o', 'stat=,lstart=', '-p', String(pid)]).catch(() => ({
    stdout: '',
  }))
  const [, state, began] = /^\s*(\S+)\s+(.+?)\s*$/.exec(stdout) ?? []
  return state?.startsWith('Z') ? undefined : began
}

async function readStartTimeFromProc(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // Field 2 is the program's name in parentheses and may contain anything; field 3: the state; field 22: start time.
  const [state, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return text === '' || state === 'Z' ? undefined : rest[18]
}
