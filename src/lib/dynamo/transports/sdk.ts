import type {DynamoDBClient, DynamoDBClientConfig, GetItemCommand} from '@aws-sdk/client-dynamodb'
import {classifyError} from '../classify.js'
import type {Connection} from '../connection.js'
import {capacityOf, dateOf, type ResponseInfo} from '../response-info.js'
import type {ClosableTransport, Operation, SendOptions} from '../transport.js'

export type {DynamoDBClient} from '@aws-sdk/client-dynamodb'

/** What every transport is told. */
export interface TransportOptions {
  /** Local time in ms since 1970, to date responses. */
  clock: () => number
  onResponse?: (info: ResponseInfo) => void
  /** Ask DynamoDB for the units each request consumed, by table and index. */
  meterCapacity?: boolean
}

interface OwnClientOptions extends TransportOptions {
  connection: Connection
  /** How long a connection may take, waiting for a free socket included. */
  connectTimeoutMs?: number
  /** How long an answer may take, and how long it may stall. */
  requestTimeoutMs?: number
}

interface GivenClientOptions extends TransportOptions {
  /** The caller's client with its own timeouts; it is neither changed nor closed, and its retries do not apply here. */
  client: DynamoDBClient
}

/** A client of our own from connection settings, or the caller's. */
export type SdkTransportOptions = OwnClientOptions | GivenClientOptions

/** The reference transport. */
export interface SdkTransport extends ClosableTransport {
  /** The client in use, which knows the identity, the region and the endpoint. */
  client(): Promise<DynamoDBClient>
}

type Sdk = typeof import('@aws-sdk/client-dynamodb')

// A hot process has dozens of buckets in flight; a queue for sockets would count as time to connect.
const MAX_SOCKETS = 128

/** A transport over the AWS SDK. The SDK takes about 0.1 s to load, so that happens with the first request. */
export function createSdkTransport(options: SdkTransportOptions): SdkTransport {
  let loading: Promise<{sdk: Sdk; client: DynamoDBClient}> | undefined

  async function load() {
    const sdk = await import('@aws-sdk/client-dynamodb')
    return {sdk, client: 'client' in options ? options.client : new sdk.DynamoDBClient(clientConfig(options))}
  }

  const loaded = () => {
    loading ??= load()
    return loading
  }

  return {
    client: async () => (await loaded()).client,

    async send(operation, input, sending = {}) {
      let sent = false
      const signal = signalOf(sending)
      try {
        signal?.throwIfAborted()
        const {sdk, client} = await loaded()
        // Operations without that setting drop it: the SDK sends known members only.
        const request = options.meterCapacity === true ? {ReturnConsumedCapacity: 'INDEXES', ...input} : input
        const command = createCommand(sdk, operation, request)
        tryOnce(command)
        observe(command, operation, options, () => {
          sent = true
        })
        // Options, even empty ones, keep a client with `cacheMiddleware` from mixing our commands with its owner's.
        return (await client.send(command, signal ? {abortSignal: signal} : {})) as never
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

/** The caller's signal and its deadline, as one. */
export function signalOf({signal, timeoutMs}: SendOptions): AbortSignal | undefined {
  if (timeoutMs === undefined) return signal
  const deadline = AbortSignal.timeout(Math.max(0, Math.ceil(timeoutMs)))
  return signal === undefined ? deadline : AbortSignal.any([signal, deadline])
}

function clientConfig(options: OwnClientOptions): DynamoDBClientConfig {
  const {connection, connectTimeoutMs = 3_000, requestTimeoutMs = 10_000} = options
  const {region, profile, endpoint, credentials} = connection
  const agent = {keepAlive: true, maxSockets: MAX_SOCKETS}
  return {
    ...(region === undefined ? {} : {region}),
    ...(profile === undefined ? {} : {profile}),
    ...(endpoint === undefined ? {} : {endpoint}),
    ...(credentials === undefined ? {} : {credentials}),
    requestHandler: {
      connectionTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      // Without this the SDK only logs a warning and goes on waiting.
      throwOnRequestTimeout: true,
      socketTimeout: requestTimeoutMs,
      httpAgent: agent,
      httpsAgent: agent,
    },
  }
}

/** Takes the place of the SDK's retries for this one command; the client keeps its own. */
export function tryOnce(command: GetItemCommand): void {
  const place = {name: 'retryMiddleware', step: 'finalizeRequest', priority: 'high', override: true} as const
  command.middlewareStack.add(next => next, place)
}

/** Tells when the request goes out, after signing, and what its response says. */
function observe(command: GetItemCommand, operation: Operation, options: TransportOptions, onSent: () => void): void {
  const {clock, onResponse} = options
  command.middlewareStack.add(
    next => async args => {
      onSent()
      const sentAtMs = clock()
      const received = (response: unknown, output?: unknown) =>
        onResponse?.({
          operation,
          sentAtMs,
          receivedAtMs: clock(),
          serverDateMs: dateOf((response as {headers?: Record<string, string>}).headers?.date),
          capacity: capacityOf(output),
        })
      const result = await next(args).catch((error: {$response?: unknown}) => {
        if (error.$response !== undefined) received(error.$response)
        throw error
      })
      received(result.response, result.output)
      return result
    },
    {name: 'observeResponse', step: 'deserialize', priority: 'high'},
  )
}

/** All commands have one shape at run time; the seam's types tie input and output together. */
function createCommand(sdk: Sdk, operation: Operation, input: unknown): GetItemCommand {
  const Command = sdk[`${operation}Command`] as unknown as new (input: unknown) => GetItemCommand
  return new Command(input)
}
