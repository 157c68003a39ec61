import {GetCallerIdentityCommand} from '@aws-sdk/client-sts'
import type {Aws} from './clients.js'
import {callAws} from './errors.js'

/** Who the credentials in force belong to. */
export interface CallerIdentity {
  readonly account: string
  readonly arn: string
}

// A network without a way to STS must not hold up a change for longer than this.
const PRINCIPAL_TIMEOUT_MS = 3_000

/** Asks STS, which answers everybody whose credentials are valid. */
export async function readCallerIdentity(aws: Aws, signal?: AbortSignal): Promise<CallerIdentity> {
  const {Account: account = '', Arn: arn = ''} = await callAws('find out who you are', async () =>
    (await aws.sts()).send(new GetCallerIdentityCommand({}), signal ? {abortSignal: signal} : {}),
  )
  return {account, arn}
}

/** Whom the audit trail names; nobody when that cannot be found out, for a change is worth more than its author's name. */
export async function readPrincipal(aws: Aws, timeoutMs = PRINCIPAL_TIMEOUT_MS): Promise<string | undefined> {
  try {
    const {arn} = await readCallerIdentity(aws, AbortSignal.timeout(timeoutMs))
    return arn.startsWith('arn:') ? arn : undefined
  } catch {
    return undefined
  }
}
