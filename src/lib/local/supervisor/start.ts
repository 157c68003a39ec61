import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {open} from 'node:fs/promises'
import {createRequire} from 'node:module'
import {fileURLToPath, pathToFileURL} from 'node:url'
import {type ErrorKind, ZaelError} from '../../core/errors.js'
import {packageFile} from '../../files/package-file.js'
import {cannotWrite} from '../state-dir/private-file.js'
import {type StackState, stateDirAt} from '../state-dir/state.js'
import type {SupervisorOptions} from './supervisor.js'

export type SupervisorMessage =
  | {readonly kind: 'ready'; readonly state: StackState}
  | {readonly kind: 'failed'; readonly error: ErrorReport}

/** Without a code, the error is a bug. */
interface ErrorReport {
  readonly kind?: ErrorKind
  readonly code?: string
  readonly message: string
  readonly hint?: string | undefined
  readonly details?: Record<string, unknown>
}

/** The supervisor outlives this process. Resolves when its stack is ready; throws why it could not start. */
export async function startSupervisor(options: SupervisorOptions): Promise<StackState> {
  const {folder, logFile} = stateDirAt(options.stateDir)
  // Node's crash output goes into the log too.
  const crashOutput = await open(logFile, 'a', 0o600).catch(cause => {
    throw cannotWrite(logFile, cause)
  })
  try {
    const child = spawn(process.execPath, [...supervisorProgram(), JSON.stringify(options)], {
      cwd: folder,
      // In its own session, it gets neither Ctrl-C nor the terminal's hang-up.
      detached: true,
      windowsHide: true,
      stdio: ['ignore', 'ignore', crashOutput.fd, 'ipc'],
    })
    return await waitUntilReady(child)
  } finally {
    await crashOutput.close()
  }
}

async function waitUntilReady(child: ChildProcess): Promise<StackState> {
  let failure: Error | undefined
  const ready = new Promise<StackState>((resolve, reject) => {
    child.once('error', reject) // the process could not be spawned
    child.once('message', (message: SupervisorMessage) => {
      if (message.kind === 'ready') resolve(message.state)
      else failure = toError(message.error)
    })
  })
  // The channel closes after its last message was read; 'exit' alone may come before that.
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
  const message = `The supervisor of the local stack ended with ${how} before the stack was ready.`
  return new ZaelError('failed', 'local.supervisor-lost', message, {hint: 'zael local logs'})
}

function toError({kind, code, message, hint, details}: ErrorReport): Error {
  if (kind === undefined || code === undefined) return new Error(message)
  return new ZaelError(kind, code, message, {...(hint === undefined ? {} : {hint}), ...(details && {details})})
}

export function supervisorProgram(): string[] {
  const isSource = import.meta.url.endsWith('.ts')
  if (!isSource) return [fileURLToPath(packageFile('dist/lib/local/supervisor/main.js'))]
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx'))
  return [`--import=${loader}`, fileURLToPath(new URL('main.ts', import.meta.url))]
}
