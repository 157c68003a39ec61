import {randomBytes} from 'node:crypto'
import {InvalidInput} from '../../core/errors.js'
import {checkTimeoutMs} from '../../core/text/duration.js'
import {resolveConnection} from '../../dynamo/connection.js'
import {sleepMs} from '../../dynamo/retry.js'
import {ServerClock} from '../../dynamo/server-clock.js'
import type {ClosableTransport, Transport} from '../../dynamo/transport.js'
import {createTransport} from '../../dynamo/transports/create.js'
import type {DynamoDBClient} from '../../dynamo/transports/sdk.js'
import type {Table} from './table.js'
import type {SteadyTimers} from './timers.js'

/** Where the table is. */
export interface ConnectionOptions {
  /** Name of the stack, which is also the name of its table. @default ZAEL_STACK */
  readonly stack?: string
  /** AWS region. @default AWS_REGION, AWS_DEFAULT_REGION or the profile's */
  readonly region?: string
  /** AWS profile. @default AWS_PROFILE */
  readonly profile?: string
  /** Address of the service, such as a local engine. @default AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL or AWS */
  readonly endpoint?: string
  /** Provides identity, region and endpoint; sends requests only if it has other settings. Never changed or closed. */
  readonly client?: DynamoDBClient
}

/** Tests replace these. */
export interface TableSeams {
  readonly transport?: Transport
  /** Epoch milliseconds. @default the server's time */
  readonly clock?: () => number
  readonly randomBytes?: (count: number) => Uint8Array
  /** In [0, 1). */
  readonly random?: () => number
  /** Resolves after `ms`, or earlier when the signal aborts. */
  readonly sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
  readonly timers?: SteadyTimers
}

export interface OpenTableOptions extends ConnectionOptions, TableSeams {
  readonly requestTimeoutMs?: number
}

export interface OpenTable {
  readonly table: Table
  /** Closes only our own connections. */
  close(): Promise<void>
}

/** Sends nothing yet: the first request connects. */
export function openTable(options: OpenTableOptions): OpenTable {
  const serverClock = new ServerClock(Date.now)
  const own = options.transport ? undefined : ownTransport(options, serverClock)
  return {
    table: {
      name: options.stack ?? stackFromEnvironment(),
      transport: options.transport ?? (own as ClosableTransport),
      clock: options.clock ?? serverClock.now,
      randomBytes: options.randomBytes ?? randomBytes,
      backoff: {random: options.random ?? Math.random, sleep: options.sleep ?? sleepMs},
      timers: options.timers,
    },
    close: async () => own?.close(),
  }
}

function stackFromEnvironment(): string {
  const {ZAEL_STACK: stack} = process.env
  if (stack) return stack
  throw new InvalidInput('stack.missing', 'No stack is given.', {
    hint: "Pass its name, such as {stack: 'prod'}, or set ZAEL_STACK.",
  })
}

function ownTransport(options: OpenTableOptions, serverClock: ServerClock): ClosableTransport {
  const common = {clock: Date.now, onResponse: serverClock.observe}
  if (options.client) return createTransport({...common, client: options.client})
  const {region, profile, endpoint: endpointUrl, requestTimeoutMs} = options
  if (requestTimeoutMs !== undefined) checkTimeoutMs('requestTimeoutMs', requestTimeoutMs)
  const connection = resolveConnection({region, profile, endpointUrl}, process.env)
  return createTransport({...common, connection, ...(requestTimeoutMs === undefined ? {} : {requestTimeoutMs})})
}
