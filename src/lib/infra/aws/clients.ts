import {Readable} from 'node:stream'
import {buffer} from 'node:stream/consumers'
import type {CloudFormationClient} from '@aws-sdk/client-cloudformation'
import type {CloudWatchClient} from '@aws-sdk/client-cloudwatch'
import type {IAMClient} from '@aws-sdk/client-iam'
import type {LambdaClient} from '@aws-sdk/client-lambda'
import type {S3Client} from '@aws-sdk/client-s3'
import type {SQSClient} from '@aws-sdk/client-sqs'
import {GetCallerIdentityCommand, type STSClient} from '@aws-sdk/client-sts'
import {unlessStopped} from '../../dynamo/abort.js'
import {type ConnectionInput, resolveConnection} from '../../dynamo/connection.js'
import {callAws} from './errors.js'

type Environment = Readonly<Record<string, string | undefined>>

/** Loads each client on first use. Disposing aborts requests in flight. */
export interface Aws extends Disposable {
  /** The endpoint is on this machine: an AWS emulator or a plain DynamoDB engine. */
  readonly isLocal: boolean
  /** Throws when no region is configured. */
  region(): Promise<string>
  cloudFormation(): Promise<CloudFormationClient>
  lambda(): Promise<LambdaClient>
  cloudWatch(): Promise<CloudWatchClient>
  sqs(): Promise<SQSClient>
  sts(): Promise<STSClient>
  iam(): Promise<IAMClient>
  s3(): Promise<S3Client>
}

const CONNECT_TIMEOUT_MS = 3_000
const REQUEST_TIMEOUT_MS = 15_000
// Two more than the SDK's default: CloudFormation throttles per account, and other tools poll it too.
const MAX_ATTEMPTS = 5

/** Sends no request and reads no file yet. */
export function openAws(input: ConnectionInput, env: Environment): Aws {
  const {region, profile, endpoint, credentials, isLocal} = resolveConnection(input, env)
  // A DynamoDB endpoint on this machine, as set by `zael local env`, applies to all services.
  const address = endpoint ?? (isLocal ? env.AWS_ENDPOINT_URL_DYNAMODB || undefined : undefined)
  const config = {
    ...(region === undefined ? {} : {region}),
    ...(profile === undefined ? {} : {profile}),
    ...(address === undefined ? {} : {endpoint: address}),
    ...(credentials === undefined ? {} : {credentials}),
    maxAttempts: MAX_ATTEMPTS,
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      // Without this the SDK only logs a warning and keeps waiting.
      throwOnRequestTimeout: true,
    },
  }
  const disposal = new AbortController()
  const clients = new Map<string, Promise<{destroy(): void}>>()
  const once = <T extends {destroy(): void}>(name: string, create: () => Promise<T>): Promise<T> => {
    const client =
      (clients.get(name) as Promise<T> | undefined) ??
      create().then(each => abortable(disposal.signal, refusingPages(each)))
    clients.set(name, client)
    return client
  }
  const cloudFormation = () =>
    once('cloudFormation', async () => {
      const {CloudFormationClient} = await import('@aws-sdk/client-cloudformation')
      return new CloudFormationClient(config)
    })
  return {
    isLocal,
    region: async () => (await cloudFormation()).config.region(),
    cloudFormation,
    lambda: () => once('lambda', async () => new (await import('@aws-sdk/client-lambda')).LambdaClient(config)),
    cloudWatch: () =>
      once('cloudWatch', async () => new (await import('@aws-sdk/client-cloudwatch')).CloudWatchClient(config)),
    sqs: () => once('sqs', async () => new (await import('@aws-sdk/client-sqs')).SQSClient(config)),
    sts: () => once('sts', async () => new (await import('@aws-sdk/client-sts')).STSClient(config)),
    iam: () => once('iam', async () => new (await import('@aws-sdk/client-iam')).IAMClient(config)),
    s3: () =>
      once('s3', async () => {
        const {S3Client} = await import('@aws-sdk/client-s3')
        // Emulators do not serve host names such as bucket.127.0.0.1.
        return new S3Client({...config, forcePathStyle: isLocal})
      }),
    [Symbol.dispose]() {
      disposal.abort()
      for (const client of clients.values()) client.then(each => each.destroy()).catch(() => {})
    },
  }
}

/** Rejects web pages that proxies and guest networks send with status 200: the SDK would read them as empty lists. */
function refusingPages<T extends object>(client: T): T {
  type Next = (args: object) => Promise<{response: unknown}>
  const {middlewareStack} = client as {middlewareStack: {add(middleware: (next: Next) => Next, options: object): void}}
  const refuse = (next: Next) => async (args: object) => {
    const result = await next(args)
    const $response = result.response as {statusCode: number; headers: Record<string, string>; body: Readable}
    if (!/^text\/html/.test($response.headers?.['content-type'] ?? '')) return result
    const body = await buffer($response.body)
    // Emulators also send text/html, so the body decides.
    if (/^\s*<(!doctype )?html/i.test(body.toString('latin1', 0, 100)))
      throw Object.assign(new Error('a web page'), {$response, $metadata: {httpStatusCode: $response.statusCode}})
    $response.body = Readable.from([body])
    return result
  }
  middlewareStack.add(refuse, {step: 'deserialize', priority: 'low', name: 'refuseWebPages'})
  return client
}

/** An abandoned request would keep the process running. */
function abortable<T extends object>(abortSignal: AbortSignal, client: T): T {
  const sender = client as {send(command: object, options?: object): Promise<unknown>}
  const send = sender.send.bind(sender)
  sender.send = (command, options?: {abortSignal?: AbortSignal}) => {
    const signals = options?.abortSignal ? [abortSignal, options.abortSignal] : [abortSignal]
    return send(command, {...options, abortSignal: AbortSignal.any(signals)})
  }
  return client
}

/** The signal also aborts requests that wait for credentials or a retry. */
export function awsUntilAborted(aws: Aws, signal: AbortSignal | undefined): Aws {
  if (signal === undefined) return aws
  const bound =
    <T extends object>(open: () => Promise<T>) =>
    async (): Promise<T> => {
      const client = await open()
      const sender = client as {send(command: object, options?: object): Promise<unknown>}
      const send = async (command: object, options?: object) => {
        signal.throwIfAborted()
        return unlessStopped(sender.send(command, {...options, abortSignal: signal}), {signal})
      }
      // Inherits from the client: paginators check its class.
      return Object.assign(Object.create(client), {send})
    }
  return {
    ...aws,
    cloudFormation: bound(aws.cloudFormation),
    lambda: bound(aws.lambda),
    cloudWatch: bound(aws.cloudWatch),
    sqs: bound(aws.sqs),
    sts: bound(aws.sts),
    iam: bound(aws.iam),
    s3: bound(aws.s3),
  }
}

export type CallerIdentity = Awaited<ReturnType<typeof readCallerIdentity>>

// A change must not wait longer on a network that cannot reach STS.
const PRINCIPAL_TIMEOUT_MS = 3_000

/** STS needs valid credentials, but no permission. */
export async function readCallerIdentity(aws: Aws, signal?: AbortSignal) {
  const {Account: account = '', Arn: arn = ''} = await callAws('read your identity', async () =>
    (await aws.sts()).send(new GetCallerIdentityCommand({}), signal ? {abortSignal: signal} : {}),
  )
  return {account, arn}
}

/** For the audit trail. `undefined` when STS does not respond: a change must not fail because of that. */
export async function readPrincipal(aws: Aws, timeoutMs = PRINCIPAL_TIMEOUT_MS): Promise<string | undefined> {
  try {
    const {arn} = await readCallerIdentity(aws, AbortSignal.timeout(timeoutMs))
    return arn.startsWith('arn:') ? arn : undefined
  } catch {
    return undefined
  }
}
