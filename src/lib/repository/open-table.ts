import {randomBytes} from 'node:crypto'
import {resolveConnection} from '../dynamo/connection.js'
import {sleepMs} from '../dynamo/retry.js'
import {createSdkTransport, type DynamoDBClient, type SdkTransport} from '../dynamo/sdk-transport.js'
import {ServerClock} from '../dynamo/server-clock.js'
import type {Transport} from '../dynamo/transport.js'
import type {Table} from './table.js'

/** Where the table is, and what is passed in instead of being reached for. */
export interface TableOptions {
  /** Name of the stack, which is the name of its table. */
  readonly stack: string
  /** AWS region; otherwise AWS_REGION, AWS_DEFAULT_REGION or the profile's. */
  readonly region?: string
  readonly profile?: string
  /** Address of the service, such as that of a local engine. */
  readonly endpoint?: string
  /** Use this client instead of a new one; it is neither changed nor closed. */
  readonly client?: DynamoDBClient
  /** Use this way to the table instead of the AWS SDK. */
  readonly transport?: Transport
  /** How long one answer may take, in ms. */
  readonly requestTimeoutMs?: number

  /** Epoch milliseconds; the server's time by default. */
  readonly clock?: () => number
  readonly randomBytes?: (count: number) => Uint8Array
  /** In [0, 1). */
  readonly random?: () => number
}

export interface OpenTable {
  readonly table: Table
  /** Lets go of the connections, if they are our own. */
  close(): Promise<void>
}

/** Sends nothing yet: the first request connects. */
export function openTable(options: TableOptions): OpenTable {
  const serverClock = new ServerClock(Date.now)
  const own = options.transport ? undefined : ownTransport(options, serverClock)
  return {
    table: {
      name: options.stack,
      transport: options.transport ?? (own as SdkTransport),
      clock: options.clock ?? (() => serverClock.now()),
      randomBytes: options.randomBytes ?? randomBytes,
      backoff: {random: options.random ?? Math.random, sleep: sleepMs},
    },
    close: async () => own?.close(),
  }
}

function ownTransport(options: TableOptions, serverClock: ServerClock): SdkTransport {
  const common = {clock: Date.now, onResponse: serverClock.observe}
  if (options.client) return createSdkTransport({...common, client: options.client})
  const {region, profile, endpoint: endpointUrl, requestTimeoutMs} = options
  const connection = resolveConnection({region, profile, endpointUrl}, process.env)
  return createSdkTransport({...common, connection, ...(requestTimeoutMs === undefined ? {} : {requestTimeoutMs})})
}
