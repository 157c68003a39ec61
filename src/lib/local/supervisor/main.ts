// The background process of a local stack; start.ts runs it with the options as JSON.
import module from 'node:module'
import {inspect} from 'node:util'
import {ZaelError} from '../../core/errors.js'
import {openLog} from '../state-dir/log.js'
import {stateDirAt} from '../state-dir/state.js'
import type {SupervisorMessage} from './start.js'
import {runSupervisor, type SupervisorOptions} from './supervisor.js'

module.enableCompileCache?.() // absent on Node 20

const options = JSON.parse(process.argv[2] ?? '{}') as SupervisorOptions
const log = openLog(stateDirAt(options.stateDir).logFile, Date.now)
const ending = new AbortController()
let isReady = false

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.on(signal, () => {
    log('info', `got ${signal}`)
    ending.abort(stopped(`it received ${signal}`))
  })
}
// If the starting command exits before the stack is ready, no process knows of it. It may have exited already.
const abandon = () => {
  if (!isReady) ending.abort(stopped('the command that started it has exited'))
}
if (process.connected) process.once('disconnect', abandon)
else abandon()
for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
  process.on(event, error => {
    log('error', 'bug in the supervisor, which exits', {reason: inspect(error)})
    process.exit(1)
  })
}

function send(message: SupervisorMessage): void {
  if (!process.connected) return
  process.send?.(message, () => {
    if (process.connected) process.disconnect?.()
  })
}

try {
  await runSupervisor(options, {
    log,
    signal: ending.signal,
    onReady: state => {
      isReady = true
      send({kind: 'ready', state})
    },
  })
} catch (error) {
  const isExpected = error instanceof ZaelError
  if (!isReady) send({kind: 'failed', error: isExpected ? toReport(error) : {message: String(error)}})
  if (!isExpected && !ending.signal.aborted) log('error', 'bug in the supervisor', {reason: inspect(error)})
  process.exitCode = 1
}

function stopped(why: string): ZaelError {
  return new ZaelError('failed', 'local.stopped', `The local stack stopped during its start: ${why}`)
}

function toReport({kind, code, message, hint, details}: ZaelError) {
  return {kind, code, message, hint, details}
}
