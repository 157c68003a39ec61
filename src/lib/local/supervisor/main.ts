// The process behind a local stack; started by start-supervisor.ts with its options as JSON.
import module from 'node:module'
import {inspect} from 'node:util'
import {ZaelError} from '../../core/errors.js'
import {openLog} from '../state-dir/log.js'
import {stateDirAt} from '../state-dir/paths.js'
import type {SupervisorMessage} from './message.js'
import {runSupervisor, type SupervisorOptions} from './supervisor.js'

module.enableCompileCache?.() // absent on Node 20

const options = JSON.parse(process.argv[2] ?? '{}') as SupervisorOptions
const log = openLog(stateDirAt(options.home).logFile, Date.now)
const ending = new AbortController()
let isReady = false

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.on(signal, () => {
    log('info', `got ${signal}`)
    ending.abort(stopped(`it got ${signal}`))
  })
}
// Whoever started us went away before we were ready: nobody would know of this stack. That may have happened already.
const abandoned = () => {
  if (!isReady) ending.abort(stopped('the command that starts it went away'))
}
if (process.connected) process.once('disconnect', abandoned)
else abandoned()
for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
  process.on(event, error => {
    log('error', 'the supervisor has a bug and ends', {reason: inspect(error)})
    process.exit(1)
  })
}

function tell(message: SupervisorMessage): void {
  if (!process.connected) return
  process.send?.(message, () => {
    if (process.connected) process.disconnect?.()
  })
}

try {
  await runSupervisor(options, {
    log,
    signal: ending.signal,
    ready: state => {
      isReady = true
      tell({kind: 'ready', state})
    },
  })
} catch (error) {
  const isExpected = error instanceof ZaelError
  if (!isReady) tell({kind: 'failed', error: isExpected ? describe(error) : {message: String(error)}})
  if (!isExpected && !ending.signal.aborted) log('error', 'the supervisor has a bug', {reason: inspect(error)})
  process.exitCode = 1
}

function stopped(why: string): ZaelError {
  return new ZaelError('failed', 'local.stopped', `the local stack was stopped while it started: ${why}`)
}

function describe({kind, code, message, hint, details}: ZaelError) {
  return {kind, code, message, hint, details}
}
