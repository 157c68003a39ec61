import {ZaelError} from '../../core/errors.js'
import {formatNumber} from '../../core/text/text.js'
import type {Connection} from '../../dynamo/connection.js'
import {Denied} from '../../dynamo/errors.js'
import {ServerClock} from '../../dynamo/server-clock.js'
import {createTransport} from '../../dynamo/transports/create.js'
import {type Aws, readCallerIdentity} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'

const OLDEST_NODE = [20, 19] as const

/** AWS rejects requests whose signature time is off by more than this. */
const MAX_SKEW_MS = 300_000

/** Beyond this, times in listings and expiry dates are noticeably wrong. */
const NOTABLE_SKEW_MS = 2_000

/** An acquire takes one round trip; above this, callers notice the delay. */
const SLOW_MS = 150

export function nodeCheck(version: string): Check {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number)
  const [wantedMajor, wantedMinor] = OLDEST_NODE
  const isOld = major < wantedMajor || (major === wantedMajor && minor < wantedMinor)
  const needs = `zael needs ${OLDEST_NODE.join('.')} or newer`
  return isOld
    ? failedCheck('machine', 'node', `${version}; ${needs}`, 'Install a newer Node.')
    : passedCheck('machine', 'node', version)
}

export function clockCheck({skewMs}: EndpointProbe): Check {
  if (skewMs === null) return warningCheck('machine', 'clock', 'the server did not send its time', null)
  const seconds = `${formatNumber(Math.abs(skewMs) / 1000, 'nearest', 1)} s`
  const words = skewMs > 0 ? `this machine is ${seconds} behind` : `this machine is ${seconds} ahead`
  const fix = 'Synchronize the clock of this machine, for example with NTP.'
  if (Math.abs(skewMs) >= MAX_SKEW_MS) return failedCheck('machine', 'clock', `${words}; AWS rejects its requests`, fix)
  if (Math.abs(skewMs) >= NOTABLE_SKEW_MS)
    return warningCheck('machine', 'clock', `${words}; zael corrects for it`, fix)
  return passedCheck('machine', 'clock', 'agrees with the server')
}

export function latencyCheck({endpoint, roundTripsMs, problem}: EndpointProbe): Check {
  const name = 'endpoint'
  if (problem !== null) return failedCheck('account', name, problem.message, problem.fix)
  const median = roundTripsMs.toSorted((a, b) => a - b)[Math.floor(roundTripsMs.length / 2)] ?? 0
  const words = `${endpoint} responds in ${Math.round(median)} ms (median of ${roundTripsMs.length})`
  if (median <= SLOW_MS) return passedCheck('account', name, words)
  const slow = `${words}; an acquire takes at least as long`
  return warningCheck('account', name, slow, 'Choose a region closer to your services.')
}

/** Credentials that expire sooner than this may expire during a deployment. */
const SOON_MS = 900_000

/** `caller` is `undefined` without a region or valid credentials: skip further checks. */
export async function examineAccount(aws: Aws, nowMs: number) {
  const region = await tryTo('find the region', () => aws.region())
  if (region instanceof ZaelError) {
    return {checks: [failed('region', region)], caller: undefined, region: undefined}
  }
  const regionCheck = passedCheck('account', 'region', region)
  const caller = await tryTo('read your identity', () => readCallerIdentity(aws))
  if (caller instanceof ZaelError) {
    return {checks: [regionCheck, failed('credentials', caller)], caller: undefined, region}
  }
  const {expiration} = await (await aws.sts()).config.credentials()
  return {checks: [regionCheck, credentialsCheck(caller.arn, expiration, nowMs)], caller, region}
}

export function credentialsCheck(arn: string, expiration: Date | undefined, nowMs: number): Check {
  if (expiration === undefined) return passedCheck('account', 'credentials', arn)
  const leftMs = expiration.getTime() - nowMs
  const until = `${arn}, until ${expiration.toISOString()}`
  if (leftMs > SOON_MS) return passedCheck('account', 'credentials', until)
  const soon = `${until}, ${Math.max(0, Math.floor(leftMs / 60_000))} min from now`
  return warningCheck('account', 'credentials', soon, 'Renew the credentials before a long command.')
}

async function tryTo<T>(doing: string, call: () => Promise<T>): Promise<T | ZaelError> {
  try {
    return await callAws(doing, call)
  } catch (error) {
    return error as ZaelError // callAws throws nothing else
  }
}

function failed(name: string, {message, hint}: ZaelError): Check {
  return failedCheck('account', name, message, hint ?? null)
}

export interface EndpointProbe {
  readonly endpoint: string
  readonly roundTripsMs: readonly number[]
  /** Server time minus local time: the minimum that the responses prove. `null`: they have no date. */
  readonly skewMs: number | null
  readonly problem: {readonly message: string; readonly fix: string | null} | null
}

/** The first request opens the connection and is not counted. */
const PROBES = 6

/** A refused request counts too: its response has a date and a round trip. */
export async function probeEndpoint(connection: Connection, clock: () => number): Promise<EndpointProbe> {
  const endpoint = connection.endpoint ?? 'DynamoDB'
  const serverClock = new ServerClock(clock)
  const roundTripsMs: number[] = []
  const transport = createTransport({
    connection,
    clock,
    onResponse: info => {
      serverClock.observe(info)
      roundTripsMs.push(info.receivedAtMs - info.sentAtMs)
    },
  })
  try {
    for (let probe = 0; probe < PROBES; probe++) await transport.send('ListTables', {Limit: 1}).catch(unlessAnswered)
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    const {message, hint: fix = null} = error
    return {endpoint, roundTripsMs: [], skewMs: null, problem: {message, fix}}
  } finally {
    await transport.close()
  }
  const isDated = Number.isFinite(serverClock.intervalMs.lowMs)
  return {endpoint, roundTripsMs: roundTripsMs.slice(1), skewMs: isDated ? serverClock.offsetMs : null, problem: null}
}

function unlessAnswered(error: unknown): void {
  // Without credentials no request was sent, so there is no response.
  const wasAnswered = error instanceof Denied && (error.cause as {$metadata?: {httpStatusCode?: number}})?.$metadata
  if (!wasAnswered) throw error
}

export interface Check {
  readonly group: 'machine' | 'account' | 'stack'
  readonly name: string
  readonly state: 'ok' | 'warn' | 'fail'
  readonly message: string
  readonly fix: string | null
}

export function passedCheck(group: Check['group'], name: string, message: string): Check {
  return {group, name, state: 'ok', message, fix: null}
}

export function warningCheck(group: Check['group'], name: string, message: string, fix: string | null): Check {
  return {group, name, state: 'warn', message, fix}
}

export function failedCheck(group: Check['group'], name: string, message: string, fix: string | null): Check {
  return {group, name, state: 'fail', message, fix}
}
