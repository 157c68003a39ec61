import {Readable} from 'node:stream'
import {buffer} from 'node:stream/consumers'
import type {SQSClient} from '@aws-sdk/client-sqs'
import {GetCallerIdentityCommand} from '@aws-sdk/client-sts'
import {unlessStopped} from '../../dynamo/abort.js'
import {type ConnectionInput, resolveConnection} from '../../dynamo/connection.js'
import {callAws} from './errors.js'

type Environment = Readonly<Record<string, string | undefined>>

type Config = ReturnType<typeof configOf>

const SERVICES = {
  cloudFormation: async (config: Config) =>
    new (await import('@aws-sdk/client-cloudformation')).CloudFormationClient(config),
  lambda: async (config: Config) => new (await import('@aws-sdk/client-lambda')).LambdaClient(config),
  cloudWatch: async (config: Config) => new (await import('@aws-sdk/client-cloudwatch')).CloudWatchClient(config),
  sqs: async (config: Config) => new (await import('@aws-sdk/client-sqs')).SQSClient(config),
  sts: async (config: Config) => new (await import('@aws-sdk/client-sts')).STSClient(config),
  iam: async (config: Config) => new (await import('@aws-sdk/client-iam')).IAMClient(config),
  s3: async (config: Config) => new (await import('@aws-sdk/client-s3')).S3Client(config),
}

type Services = {readonly [Name in keyof typeof SERVICES]: () => ReturnType<(typeof SERVICES)[Name]>}

/** Loads each client on first use. Disposing aborts requests in flight. */
export interface Aws extends Services, Disposable {
  /** The endpoint is on this machine: an AWS emulator or a plain DynamoDB engine. */
  readonly isLocal: boolean
  /** Throws when no region is configured. */
  region(): Promise<string>
}

const CONNECT_TIMEOUT_MS = 3_000
const REQUEST_TIMEOUT_MS = 15_000
// Two more than the SDK's default: CloudFormation throttles per account, and other tools poll it too.
const MAX_ATTEMPTS = 5

function configOf(input: ConnectionInput, env: Environment) {
  const {region, profile, endpoint, credentials, isLocal} = resolveConnection(input, env)
  // A DynamoDB endpoint on this machine, as set by `zael local env`, applies to all services.
  const address = endpoint ?? (isLocal ? env.AWS_ENDPOINT_URL_DYNAMODB || undefined : undefined)
  return {
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
    // For S3: emulators do not serve host names such as bucket.127.0.0.1.
    forcePathStyle: isLocal,
  }
}

/** Sends no request and reads no file yet. */
export function openAws(input: ConnectionInput, env: Environment): Aws {
  const config = configOf(input, env)
  const disposal = new AbortController()
  const clients = new Map<string, Promise<{destroy(): void}>>()
  const services = eachService(name => () => {
    const open: (config: Config) => Promise<{destroy(): void}> = SERVICES[name]
    const client = clients.get(name) ?? open(config).then(each => abortable(disposal.signal, refusingPages(each)))
    clients.set(name, client)
    return client
  })
  return {
    ...services,
    isLocal: config.forcePathStyle,
    region: async () => (await services.cloudFormation()).config.region(),
    [Symbol.dispose]() {
      disposal.abort()
      for (const client of clients.values()) client.then(each => each.destroy()).catch(() => {})
    },
  }
}

function eachService(open: (name: keyof Services) => () => Promise<object>): Services {
  const names = Object.keys(SERVICES) as (keyof Services)[]
  return Object.fromEntries(names.map(name => [name, open(name)])) as unknown as Services
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
  const bound = (name: keyof Services) => async () => {
    const client: {send(command: object, options?: object): Promise<unknown>} = await (aws[name]() as Promise<never>)
    const send = async (command: object, options?: object) => {
      signal.throwIfAborted()
      return unlessStopped(client.send(command, {...options, abortSignal: signal}), {signal})
    }
    // Inherits from the client: paginators check its class.
    return Object.assign(Object.create(client), {send})
  }
  return {...aws, ...eachService(bound)}
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

/** Approximate; includes messages in flight. */
export async function countMessages(client: SQSClient, QueueUrl: string): Promise<number> {
  const {GetQueueAttributesCommand} = await import('@aws-sdk/client-sqs')
  const names = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'] as const
  const command = new GetQueueAttributesCommand({QueueUrl, AttributeNames: [...names]})
  const {Attributes = {}} = await client.send(command)
  return names.reduce((sum, name) => sum + Number(Attributes[name] ?? 0), 0)
}
