import {type ChildProcess, spawn} from 'node:child_process'
import {constants} from 'node:os'
import {valueIf, ZaelError} from '../../core/errors.js'
import {isInFlight} from '../../core/limits/limit.js'
import {onAbort} from '../../dynamo/abort.js'
import {isUnavailability} from '../../dynamo/errors.js'
import {resolveFamily} from '../../insight/lookup/family-limits.js'
import type {Lease} from '../../limiter/lease.js'
import type {StackContext} from '../base/context.js'

const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** As shells report a program that a signal ended. */
const SIGNAL_EXIT = 128

/** True while the table is unavailable: the limiter then decides. */
export async function hasInFlight({namespace}: StackContext, entity: string, resource: string): Promise<boolean> {
  const resolving = namespace().then(repository => resolveFamily(repository, entity, resource))
  const family = await resolving.catch(valueIf(isUnavailability, undefined))
  return (
    !family ||
    [family.own, ...family.parents.map(({resolution}) => resolution)].some(({limits}) => limits.some(isInFlight))
  )
}

/** Runs a command, ends the lease, and resolves to the exit code. If the lease is lost, stops the command. */
export async function runHolding(
  lease: Lease,
  command: readonly string[],
  warn: (text: string) => void,
): Promise<number> {
  let exitCode: number
  try {
    exitCode = await runCommand(command, lease.signal, warn)
  } catch (error) {
    await lease.rollback()
    throw error
  }
  try {
    await lease.commit()
  } catch (error) {
    if (!isUnavailability(error)) throw error
    warn('The table did not answer, so the slots are still taken. They come back within 45 seconds of the next refusal')
  }
  return exitCode
}

async function runCommand(
  [program = '', ...args]: readonly string[],
  lost: AbortSignal,
  warn: (text: string) => void,
): Promise<number> {
  const child = spawn(program, args, {stdio: 'inherit'})
  const stopForwarding = forwardSignals(child)
  const stopWatching = onAbort(lost, () => {
    warn(
      `The slots could not be renewed for 30 seconds, so others may have taken them: stopping ${program} with SIGTERM`,
    )
    child.kill('SIGTERM')
  })
  try {
    return await new Promise((resolve, reject) => {
      child.once('error', error => reject(notStarted(program, error)))
      child.once('close', (code, signal) => resolve(code ?? SIGNAL_EXIT + (signal ? constants.signals[signal] : 0)))
    })
  } finally {
    stopForwarding()
    stopWatching()
  }
}

function forwardSignals(child: ChildProcess): () => void {
  const listeners = FORWARDED.map(signal => {
    // A terminal sends Ctrl-C to both processes; a second one might end the command without cleaning up.
    const isSentByTerminal = signal === 'SIGINT' && process.stdin.isTTY
    const listener = () => {
      if (!isSentByTerminal) child.kill(signal)
    }
    process.on(signal, listener)
    return () => process.off(signal, listener)
  })
  return () => {
    for (const stop of listeners) stop()
  }
}

function notStarted(program: string, error: NodeJS.ErrnoException): ZaelError {
  const isMissing = error.code === 'ENOENT'
  const message = isMissing
    ? `Command ${JSON.stringify(program)} not found.`
    : `The command could not be started: ${error.message}`
  return new ZaelError(isMissing ? 'notFound' : 'failed', 'acquire.command', message, {
    hint: 'Nothing was charged. Check the words after --.',
    details: {command: program},
    cause: error,
  })
}
