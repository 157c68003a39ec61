import {ZaelError} from '../../core/errors.js'
import type {Connection} from '../../dynamo/connection.js'
import {Denied} from '../../dynamo/errors.js'
import {ServerClock} from '../../dynamo/server-clock.js'
import {createTransport} from '../../dynamo/transports/create.js'

/** What a few requests tell of the way to DynamoDB. */
export interface EndpointProbe {
  /** Where the requests went, in words. */
  readonly endpoint: string
  readonly roundTripsMs: readonly number[]
  /** Server time minus local time, the least that the answers prove; `null`: they tell no time. */
  readonly skewMs: number | null
  /** Why there was no answer. */
  readonly problem: {readonly message: string; readonly fix: string | null} | null
}

/** The first one also connects, and is not counted. */
const PROBES = 6

/** Sends a harmless request a few times, one after the other. A refusal is an answer too: it has a time and took its time. */
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
  // Without credentials nothing was sent, so there is no answer to learn from.
  const wasAnswered = error instanceof Denied && (error.cause as {$metadata?: {httpStatusCode?: number}})?.$metadata
  if (!wasAnswered) throw error
}
