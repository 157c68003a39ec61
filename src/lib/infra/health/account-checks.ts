import {ZaelError} from '../../core/errors.js'
import {type CallerIdentity, readCallerIdentity} from '../aws/caller-identity.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {type Check, failedCheck, passedCheck, warningCheck} from './check.js'

/** Credentials that expire sooner than this may expire during a deployment. */
const SOON_MS = 900_000

export interface Account {
  readonly checks: readonly Check[]
  /** `undefined`: no valid credentials or no region, so that further checks make no sense. */
  readonly caller: CallerIdentity | undefined
  readonly region: string | undefined
}

export async function examineAccount(aws: Aws, nowMs: number): Promise<Account> {
  const region = await tryTo('find the region', () => aws.region())
  if (region instanceof ZaelError) {
    return {checks: [failed('region', region)], caller: undefined, region: undefined}
  }
  const regionCheck = passedCheck('account', 'region', region)
  const caller = await tryTo('find out who you are', () => readCallerIdentity(aws))
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
  const minutes = Math.max(0, Math.floor(leftMs / 60_000))
  return warningCheck(
    'account',
    'credentials',
    `${until}, ${minutes} min from now`,
    'Renew them before a long command.',
  )
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
