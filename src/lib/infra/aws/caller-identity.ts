import {GetCallerIdentityCommand} from '@aws-sdk/client-sts'
import type {Aws} from './clients.js'
import {callAws} from './errors.js'

export interface CallerIdentity {
  readonly account: string
  readonly arn: string
}

// On a network that cannot reach STS, a change must not wait longer than this.
const PRINCIPAL_TIMEOUT_MS = 3_000

/** Asks STS, which needs no permission, only valid credentials. */
export async function readCallerIdentity(aws: Aws, signal?: AbortSignal): Promise<CallerIdentity> {
  const {Account: account = '', Arn: arn = ''} = await callAws('find out who you are', async () =>
    (await aws.sts()).send(new GetCallerIdentityCommand({}), signal ? {abortSignal: signal} : {}),
  )
  return {account, arn}
}

/** The ARN for the audit trail; `undefined` when STS does not answer: a change must not fail for want of its author. */
export async function readPrincipal(aws: Aws, timeoutMs = PRINCIPAL_TIMEOUT_MS): Promise<string | undefined> {
  try {
    const {arn} = await readCallerIdentity(aws, AbortSignal.timeout(timeoutMs))
    return arn.startsWith('arn:') ? arn : undefined
  } catch {
    return undefined
  }
}
