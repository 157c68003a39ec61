import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import {setTimeout as sleep} from 'node:timers/promises'
import {withCompiled} from './compiled.js'
import {openEnvironment} from './environment.js'
import {ACCOUNT, MODEL, openAccount} from './provider-account.js'
import type {CallerMessage, CallerTask, Way} from './provider-caller.js'
import {machineLine, numberOption, say, short, textTable} from './report.js'

/**
 * Runs processes that share one provider account, which may also be used outside zael. See bench/README.md.
 * `--quick`, `--processes 40`, `--seconds 60`, `--burst 10` for the burst of the provider.
 */
const isQuick = process.argv.includes('--quick')
const PROCESSES = numberOption('processes', isQuick ? 8 : 40)
const SECONDS = numberOption('seconds', isQuick ? 10 : 60)
const PER_MINUTE = 600
const BURST = numberOption('burst', PER_MINUTE / 60)
/** A fifth less: requests under way are charged in zael's bucket, but not yet in the provider's, whose refill overflows. */
const CAPACITY = Math.floor(0.8 * BURST)

const WAYS: readonly Way[] = ['no provider option', 'no feedback', 'feedback']

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
// Node reads extra certificates at every start, which slows child processes down.
delete process.env.NODE_EXTRA_CA_CERTS

interface Caller {
  readonly process: ChildProcess
  /** Aborted when the process ends. */
  readonly ended: AbortSignal
}

function startCaller(file: string): Caller {
  const ended = new AbortController()
  const process = fork(file, {execArgv: []})
  process.once('exit', code => ended.abort(new Error(`a caller ended with ${code}`)))
  return {process, ended: ended.signal}
}

/** Resolves when every caller has replied. */
async function ask(callers: readonly Caller[], message: CallerMessage): Promise<void> {
  const answers = callers.map(caller => once(caller.process, 'message', {signal: caller.ended}))
  tell(callers, message)
  await Promise.all(answers)
}

function tell(callers: readonly Caller[], message: CallerMessage): void {
  for (const caller of callers) caller.process.send(message)
}

const environment = await openEnvironment()
const account = await openAccount(PER_MINUTE, BURST)

async function measure(callers: readonly Caller[], way: Way, outsideShare: number): Promise<string[]> {
  const tenant = environment.newTenant()
  await environment.configure(tenant, {level: 'resource', resource: MODEL}, 'rpm=1M/min', 'tpm=100M/min')
  const scope = {level: 'entity', entity: ACCOUNT, resource: MODEL} as const
  await environment.configure(tenant, scope, `rpm=${PER_MINUTE}/min:${CAPACITY}`, 'tpm=100M/min')
  const {endpoint} = environment
  const task: CallerTask = {way, endpoint, stack: tenant.name, namespaceId: tenant.namespace, url: account.url}
  await ask(callers, task)
  account.start(outsideShare)
  tell(callers, 'go')
  await sleep(SECONDS * 1000)
  const {served, refused, outside, allowed} = account.stop()
  await ask(callers, 'stop')
  const percent = (part: number, whole: number) => `${((100 * part) / whole).toFixed(1)} %`
  const row = [
    way,
    outsideShare === 0 ? 'nobody' : `${100 * outsideShare} %`,
    short(served + refused),
    short(served),
    short(refused),
    percent(refused, served + refused),
    percent(served, allowed - outside),
  ]
  process.stderr.write(`${row.join('  ')}\n`)
  return row
}

try {
  const rows = await withCompiled('provider-caller', async file => {
    const callers = Array.from({length: PROCESSES}, () => startCaller(file))
    try {
      const rows: string[][] = []
      for (const outsideShare of [0, 0.1]) {
        for (const way of WAYS) rows.push(await measure(callers, way, outsideShare))
      }
      return rows
    } finally {
      for (const caller of callers) caller.process.kill()
    }
  })
  say(machineLine(environment.engineName))
  say(
    `${PROCESSES} processes, ${SECONDS} s each; ${PER_MINUTE} requests a minute, ${BURST} at once, in zael ${CAPACITY}\n`,
  )
  say(textTable(['zael', 'outside', 'sent', 'served', '429s', '429s/sent', 'served/allowed'], rows))
} finally {
  await account.close()
  await environment.close()
}
