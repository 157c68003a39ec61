import {ZaelError} from '../../core/errors.js'
import type {Connection} from '../../dynamo/connection.js'
import {Denied} from '../../dynamo/errors.js'
import {ServerClock} from '../../dynamo/server-clock.js'
import {createTransport} from '../../dynamo/transports/create.js'

export interface EndpointProbe {
  readonly endpoint: string
  readonly roundTripsMs: readonly number[]
  /** Server time minus local time: the minimum that the responses prove; `null`: they have no date. */
  readonly skewMs: number | null
  readonly problem: {readonly message: string; readonly fix: string | null} | null
}

/** The first request also opens the connection, and is not counted. */
const PROBES = 6

/** Sends a read-only request several times in sequence. A refusal counts too: it has a date and a round trip. */
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
  // Without credentials no request was sent, so there is no response.
  const wasAnswered = error instanceof Denied && (error.cause as {$metadata?: {httpStatusCode?: number}})?.$metadata
  if (!wasAnswered) throw error
}
