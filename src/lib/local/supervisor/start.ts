import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {open} from 'node:fs/promises'
import {createRequire} from 'node:module'
import {fileURLToPath, pathToFileURL} from 'node:url'
import {ZaelError} from '../../core/errors.js'
import {stateDirAt} from '../state-dir/paths.js'
import {cannotWrite} from '../state-dir/private-file.js'
import type {StackState} from '../state-dir/state.js'
import type {ErrorReport, SupervisorMessage} from './message.js'
import type {SupervisorOptions} from './supervisor.js'

/** Starts a supervisor that outlives this process; resolves when its stack is ready, throws what kept it from that. */
export async function startSupervisor(options: SupervisorOptions): Promise<StackState> {
  const {folder, logFile} = stateDirAt(options.home)
  // What Node itself says when it crashes goes into the log too.
  const crashes = await open(logFile, 'a', 0o600).catch(cause => {
    throw cannotWrite(logFile, cause)
  })
  try {
    const child = spawn(process.execPath, [...supervisorProgram(), JSON.stringify(options)], {
      cwd: folder,
      // In a session of its own it hears neither Ctrl-C nor the end of the terminal.
      detached: true,
      windowsHide: true,
      stdio: ['ignore', 'ignore', crashes.fd, 'ipc'],
    })
    return await firstWord(child)
  } finally {
    await crashes.close()
  }
}

async function firstWord(child: ChildProcess): Promise<StackState> {
  let failure: Error | undefined
  const ready = new Promise<StackState>((resolve, reject) => {
    child.once('error', reject) // no such program, no process to be had
    child.once('message', (message: SupervisorMessage) => {
      if (message.kind === 'ready') resolve(message.state)
      else failure = revive(message.error)
    })
  })
  // The channel closes after its last message was read, which an exit alone does not tell.
  const gone = Promise.all([once(child, 'exit'), once(child, 'disconnect')])
  const state = await Promise.race([ready, gone.then(() => undefined)])
  if (state) {
    child.unref()
    if (child.connected) child.disconnect()
    return state
  }
  throw failure ?? supervisorLost(child)
}

function supervisorLost({exitCode, signalCode}: ChildProcess): ZaelError {
  const how = signalCode ?? `code ${exitCode}`
  const message = `the supervisor of the local stack ended with ${how} before the stack was ready`
  return new ZaelError('failed', 'local.supervisor-lost', message, {hint: 'zael local logs'})
}

/** The supervisor's error is ours; one that is not of the family is a bug here as well as there. */
function revive({kind, code, message, hint, details}: ErrorReport): Error {
  if (kind === undefined || code === undefined) return new Error(message)
  return new ZaelError(kind, code, message, {...(hint === undefined ? {} : {hint}), ...(details && {details})})
}

/** The entry as Node runs it: compiled, or from source when this very file is. */
export function supervisorProgram(): string[] {
  const isSource = import.meta.url.endsWith('.ts')
  const entry = fileURLToPath(new URL(`main.${isSource ? 'ts' : 'js'}`, import.meta.url))
  if (!isSource) return [entry]
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx'))
  return [`--import=${loader}`, entry]
}
