import {existsSync} from 'node:fs'
import {rm, rmdir} from 'node:fs/promises'
import {ZaelError} from '../core/errors.js'
import {isPortTaken} from './engines/engine.js'
import {type FoundStack, findStack} from './find.js'
import {checkNoForeignFiles, hasData, wipeData} from './state-dir/data-dir.js'
import {type Lock, takeLock} from './state-dir/lock-file.js'
import {rotatedLog} from './state-dir/log.js'
import {isProcessRunning, waitForExit, waitUntil} from './state-dir/process-identity.js'
import {endState, type StackState, type StateDir} from './state-dir/state.js'

export interface DownResult {
  readonly stopped: StackState | undefined
  readonly purged: string | undefined
}

// Another command may be starting the stack, which takes as long as a JVM start on a busy machine.
const LOCK_WAIT_MS = 60_000
// The aggregator finishes its batch and the engine closes its files.
const STOP_WAIT_MS = 15_000
// A supervisor that does not respond may already be shutting down.
const UNRESPONSIVE_WAIT_MS = 5_000
const PORT_WAIT_MS = 3_000

export async function bringDown(stateDir: StateDir, {purge}: {purge: boolean}): Promise<DownResult> {
  const hasNothingToDo = !(purge && existsSync(stateDir.folder)) && (await findStack(stateDir)).kind === 'none'
  if (hasNothingToDo) return {stopped: undefined, purged: undefined}
  const result = await stopLocked(stateDir, purge)
  if (purge) await rmdir(stateDir.folder).catch(() => {})
  return result
}

async function stopLocked(stateDir: StateDir, purge: boolean): Promise<DownResult> {
  await using _lock = await lockStack(stateDir).catch(ignoreFullDisk)
  const found = await findStack(stateDir)
  const dataDir = purgedDir(stateDir, found)
  if (purge) await checkNoForeignFiles(dataDir)
  await cleanUpAfter(stateDir, found)
  if (found.kind === 'running') await stopStack(stateDir, found.state)
  if (!purge) return {stopped: stoppedState(found), purged: undefined}
  const hadData = await hasData(dataDir)
  await wipeData(dataDir)
  const leftovers = [stateDir.logFile, rotatedLog(stateDir.logFile), stateDir.endFile, stateDir.volatileDir]
  for (const path of leftovers) await rm(path, {recursive: true, force: true})
  return {stopped: stoppedState(found), purged: hadData ? dataDir : undefined}
}

/** Stopping must work on a full disk, where no other command can take the lock to start a stack. */
function ignoreFullDisk(error: unknown): undefined {
  if (error instanceof ZaelError && error.code === 'local.home' && error.kind === 'failed') return undefined
  throw error
}

export async function dataToPurge(stateDir: StateDir): Promise<string | undefined> {
  const dataDir = purgedDir(stateDir, await findStack(stateDir))
  return (await hasData(dataDir)) ? dataDir : undefined
}

export async function lockStack(stateDir: StateDir): Promise<Lock> {
  const lock = await takeLock(stateDir.lockFile, LOCK_WAIT_MS)
  if ('release' in lock) return lock
  const message = `Another zael (process ${lock.pid}) has been starting or stopping the local stack for a minute.`
  throw new ZaelError('conflict', 'local.busy', message, {
    hint: `Wait, or stop that process: kill ${lock.pid}`,
    details: {pid: lock.pid},
  })
}

export async function stopStack(stateDir: StateDir, state: StackState, waitMs = STOP_WAIT_MS): Promise<void> {
  sendSignal(state, 'SIGTERM')
  if (await waitForExit(state, waitMs)) return
  await kill(stateDir, state)
}

export async function cleanUpAfter(stateDir: StateDir, found: FoundStack): Promise<boolean> {
  if (found.kind === 'none' || found.kind === 'running') return false
  if (found.kind === 'damaged') await rm(found.file.path, {force: true})
  else if (found.kind === 'unresponsive') await stopStack(stateDir, found.state, UNRESPONSIVE_WAIT_MS)
  else await recordEnd(stateDir, found.state, 'the supervisor was killed')
  return true
}

async function kill(stateDir: StateDir, state: StackState): Promise<void> {
  if (await isProcessRunning(state)) sendSignal(state, 'SIGKILL')
  await waitForExit(state, STOP_WAIT_MS)
  await recordEnd(stateDir, state, 'the supervisor did not stop and was killed')
}

/** The engine exits shortly after its supervisor; only then are its port and files free. */
async function recordEnd(stateDir: StateDir, state: StackState, reason: string): Promise<void> {
  await waitUntil(async () => !(await isPortTaken(state.port)), PORT_WAIT_MS)
  await endState(stateDir, state, reason)
}

function sendSignal({pid}: StackState, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function purgedDir(stateDir: StateDir, found: FoundStack): string {
  return ('state' in found ? found.state.dataDir : null) ?? stateDir.dataDir
}

function stoppedState(found: FoundStack): StackState | undefined {
  return found.kind === 'running' || found.kind === 'unresponsive' ? found.state : undefined
}
