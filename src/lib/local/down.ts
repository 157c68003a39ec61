import {existsSync} from 'node:fs'
import {rm, rmdir} from 'node:fs/promises'
import {setTimeout as sleep} from 'node:timers/promises'
import {ZaelError} from '../core/errors.js'
import {isPortTaken} from './engines/free-port.js'
import {type FoundStack, findStack} from './find.js'
import {checkNoForeignFiles, hasData, wipeData} from './state-dir/data-dir.js'
import {type Lock, takeLock} from './state-dir/lock-file.js'
import {rotatedLog} from './state-dir/log.js'
import type {StateDir} from './state-dir/paths.js'
import {isProcessRunning, waitForExit} from './state-dir/process-identity.js'
import {endState, type StackState} from './state-dir/state.js'

export interface DownResult {
  /** What ran; `undefined` when nothing did. */
  readonly stopped: StackState | undefined
  /** The data that was deleted, if any. */
  readonly purged: string | undefined
}

// Somebody else's start takes as long as a JVM does on a busy machine.
const LOCK_WAIT_MS = 60_000
// A batch of the aggregator is finished and the engine closes its files.
const STOP_WAIT_MS = 15_000
// One that does not answer may be about to end by itself.
const SILENT_WAIT_MS = 5_000
const PORT_WAIT_MS = 3_000

/** Stops the stack of a home; `purge` deletes its data and log as well. */
export async function bringDown(home: StateDir, {purge}: {purge: boolean}): Promise<DownResult> {
  const isIdle = !(purge && existsSync(home.folder)) && (await findStack(home)).kind === 'none'
  if (isIdle) return {stopped: undefined, purged: undefined}
  const result = await takeDown(home, purge)
  if (purge) await rmdir(home.folder).catch(() => {})
  return result
}

async function takeDown(home: StateDir, purge: boolean): Promise<DownResult> {
  await using _lock = await lockStack(home)
  const found = await findStack(home)
  const dataDir = purgedDir(home, found)
  if (purge) await checkNoForeignFiles(dataDir)
  await cleanUpAfter(home, found)
  if (found.kind === 'running') await stopStack(home, found.state)
  if (!purge) return {stopped: stoppedOf(found), purged: undefined}
  const hadData = await hasData(dataDir)
  await wipeData(dataDir)
  const leftovers = [home.logFile, rotatedLog(home.logFile), home.endFile, home.volatileDir]
  for (const path of leftovers) await rm(path, {recursive: true, force: true})
  return {stopped: stoppedOf(found), purged: hadData ? dataDir : undefined}
}

/** The data folder that a purge deletes; `undefined` when it holds nothing. */
export async function dataToPurge(home: StateDir): Promise<string | undefined> {
  const dataDir = purgedDir(home, await findStack(home))
  return (await hasData(dataDir)) ? dataDir : undefined
}

/** Waits until nobody else starts or stops this stack. */
export async function lockStack(home: StateDir): Promise<Lock> {
  const lock = await takeLock(home.lockFile, LOCK_WAIT_MS)
  if ('release' in lock) return lock
  const message = `another zael (process ${lock.pid}) has been starting or stopping the local stack for a minute`
  throw new ZaelError('conflict', 'local.busy', message, {
    hint: `Wait for it, or stop it with \`kill ${lock.pid}\`.`,
    details: {pid: lock.pid},
  })
}

/** Ends a supervisor and waits until it is gone, with everything that belongs to it. */
export async function stopStack(home: StateDir, state: StackState, waitMs = STOP_WAIT_MS): Promise<void> {
  signal(state, 'SIGTERM')
  if (await waitForExit(state, waitMs)) return
  await forceEnd(home, state)
}

/** Removes what a killed or silent supervisor left; true when there was something to mend. */
export async function cleanUpAfter(home: StateDir, found: FoundStack): Promise<boolean> {
  if (found.kind === 'none' || found.kind === 'running') return false
  if (found.kind === 'silent') await stopStack(home, found.state, SILENT_WAIT_MS)
  else await settle(home, found.state, 'the supervisor was killed')
  return true
}

async function forceEnd(home: StateDir, state: StackState): Promise<void> {
  if (await isProcessRunning(state)) signal(state, 'SIGKILL')
  await waitForExit(state, STOP_WAIT_MS)
  await settle(home, state, 'the supervisor did not stop and was killed')
}

/** The engine dies with its supervisor, a moment later; only then its port and files are free. */
async function settle(home: StateDir, state: StackState, reason: string): Promise<void> {
  const limit = AbortSignal.timeout(PORT_WAIT_MS)
  while (!limit.aborted && (await isPortTaken(state.port))) await sleep(20)
  await endState(home, state, reason)
}

function signal({pid}: StackState, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function purgedDir(home: StateDir, found: FoundStack): string {
  return found.kind === 'none' ? home.dataDir : (found.state.dataDir ?? home.dataDir)
}

function stoppedOf(found: FoundStack): StackState | undefined {
  return found.kind === 'none' || found.kind === 'killed' ? undefined : found.state
}
