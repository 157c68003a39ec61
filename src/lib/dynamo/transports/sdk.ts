import type {DynamoDBClient, DynamoDBClientConfig, GetItemCommand} from '@aws-sdk/client-dynamodb'
import {leftMs} from '../../core/text/duration.js'
import {unlessStopped} from '../abort.js'
import {classifyError} from '../classify.js'
import type {Connection} from '../connection.js'
import {dateOf} from '../server-clock.js'
import {
  type ClosableTransport,
  capacityOf,
  longestExchangeMs,
  type Operation,
  refusesTime,
  type SendOptions,
  type Timeouts,
  type TransportOptions,
  timeoutsOf,
} from '../transport.js'

export type {DynamoDBClient} from '@aws-sdk/client-dynamodb'

interface OwnClientOptions extends TransportOptions, Timeouts {
  connection: Connection
}

interface GivenClientOptions extends TransportOptions {
  /** Keeps its own timeouts. Neither changed nor closed; its retry settings are ignored. */
  client: DynamoDBClient
}

export type SdkTransportOptions = OwnClientOptions | GivenClientOptions

interface SdkTransport extends ClosableTransport {
  client(): Promise<DynamoDBClient>
}

type Sdk = typeof import('@aws-sdk/client-dynamodb')

// For a caller's client, whose timeouts are unknown.
const LONGEST_EXCHANGE_MS = 60_000

// A hot process has dozens of buckets in flight. Waiting for a socket would count as time to connect.
const MAX_SOCKETS = 128

/** Loads the SDK with the first request, since that takes about 0.1 s. */
export function createSdkTransport(options: SdkTransportOptions): SdkTransport {
  let loading: Promise<{sdk: Sdk; client: DynamoDBClient}> | undefined

  async function load() {
    const sdk = await import('@aws-sdk/client-dynamodb')
    if ('client' in options) return {sdk, client: options.client}
    return {sdk, client: withoutNodeWarning(() => new sdk.DynamoDBClient(clientConfig(options)))}
  }

  const loaded = () => {
    loading ??= load()
    return loading
  }

  return {
    client: async () => (await loaded()).client,

    async send(operation, input, sending = {}) {
      let sent = false
      const longestMs = 'client' in options ? LONGEST_EXCHANGE_MS : longestExchangeMs(options)
      const timeoutMs = Math.min(sending.timeoutMs === undefined ? longestMs : leftMs(sending.timeoutMs), longestMs)
      const signal = signalOf({...sending, timeoutMs})
      try {
        signal.throwIfAborted()
        const {sdk, client} = await loaded()
        // The SDK drops this setting from operations that do not have it.
        const request = options.meterCapacity === true ? {ReturnConsumedCapacity: 'INDEXES', ...input} : input
        const command = createCommand(sdk, operation, request)
        tryOnce(command)
        observe(command, operation, options, () => {
          sent = true
        })
        // Options, even empty ones, keep a client with `cacheMiddleware` from mixing zael's commands with its owner's.
        // The SDK's timeouts end with the head of a response; this also bounds the body.
        return (await unlessStopped(client.send(command, {abortSignal: signal}), {signal})) as never
      } catch (error) {
        throw classifyError(error, operation, {signal, sent})
      }
    },

    async close() {
      if ('client' in options || loading === undefined) return
      const {client} = await loading
      loading = undefined
      client.destroy()
    },
  }
}

export function signalOf(sending: SendOptions & {timeoutMs: number}): AbortSignal
export function signalOf(sending: SendOptions): AbortSignal | undefined
export function signalOf({signal, timeoutMs}: SendOptions): AbortSignal | undefined {
  if (timeoutMs === undefined) return signal
  const deadline = AbortSignal.timeout(Math.max(0, Math.ceil(timeoutMs)))
  return signal === undefined ? deadline : AbortSignal.any([signal, deadline])
}

function clientConfig(options: OwnClientOptions): DynamoDBClientConfig {
  const {connection} = options
  const {connectTimeoutMs, requestTimeoutMs} = timeoutsOf(options)
  const {region, profile, endpoint, credentials} = connection
  const agent = {keepAlive: true, maxSockets: MAX_SOCKETS}
  return {
    ...(region === undefined ? {} : {region}),
    ...(profile === undefined ? {} : {profile}),
    ...(endpoint === undefined ? {} : {endpoint}),
    // Copied: the SDK writes into the object.
    ...(credentials === undefined ? {} : {credentials: {...credentials}}),
    requestHandler: {
      connectionTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      // Otherwise the SDK only logs a warning and keeps waiting.
      throwOnRequestTimeout: true,
      socketTimeout: requestTimeoutMs,
      httpAgent: agent,
      httpsAgent: agent,
    },
  }
}

const NO_WARNING = 'AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'

/** The SDK warns on Node 20 when its first client is made. The version in use supports Node 20, and zael pins it. */
function withoutNodeWarning<T>(create: () => T): T {
  if (process.env[NO_WARNING] !== undefined) return create()
  process.env[NO_WARNING] = 'true'
  try {
    return create()
  } finally {
    delete process.env[NO_WARNING]
  }
}

/** Replaces the SDK's retries for this command only. */
export function tryOnce(command: GetItemCommand): void {
  const place = {name: 'retryMiddleware', step: 'finalizeRequest', priority: 'high', override: true} as const
  command.middlewareStack.add(next => next, place)
}

function observe(command: GetItemCommand, operation: Operation, options: TransportOptions, onSent: () => void): void {
  const {clock, onResponse} = options
  command.middlewareStack.add(
    next => async args => {
      onSent()
      const sentAtMs = clock()
      const received = (response: unknown, output?: unknown, isTimeRefused = false) =>
        onResponse?.({
          operation,
          sentAtMs,
          receivedAtMs: clock(),
          serverDateMs: dateOf((response as {headers?: Record<string, string>}).headers?.date),
          isTimeRefused,
          capacity: capacityOf(output),
        })
      const result = await next(args).catch((error: Error & {$response?: unknown}) => {
        if (error.$response !== undefined) received(error.$response, undefined, refusesTime(error))
        throw error
      })
      received(result.response, result.output)
      return result
    },
    {name: 'observeResponse', step: 'deserialize', priority: 'high'},
  )
}

function createCommand(sdk: Sdk, operation: Operation, input: unknown): GetItemCommand {
  const Command = sdk[`${operation}Command`] as unknown as new (input: unknown) => GetItemCommand
  return new Command(input)
}
