import {setTimeout as sleep} from 'node:timers/promises'
import type {StreamRecord} from '../../../src/lib/aggregator/stream-event.js'
import {resolveConnection} from '../../../src/lib/dynamo/connection.js'
import {sleepMs} from '../../../src/lib/dynamo/retry.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {type Access, explicitAccess} from '../../../src/lib/dynamo/transports/access.js'
import {createStreamTransport, type StreamTransport} from '../../../src/lib/dynamo/transports/stream.js'
import {type PollerOptions, StreamPoller} from '../../../src/lib/local/stream/poller.js'
import {readNumber, readString} from '../../../src/lib/schema/attribute-value.js'

/** A transport to the streams of a local engine. */
export function openStreams(endpoint: string): StreamTransport {
  const access = explicitAccess(resolveConnection({endpointUrl: endpoint}, {}), {}) as Access
  return createStreamTransport({access, clock: Date.now})
}

/** Writes version after version of some items, one after the other: `a` 0, `b` 0, `a` 1, `b` 1 and so on. */
export async function writeVersions(
  transport: Transport,
  TableName: string,
  items: readonly string[],
  from: number,
  to: number,
): Promise<void> {
  for (let version = from; version < to; version++) {
    for (const item of items) {
      const Item = {PK: {S: item}, SK: {S: 'x'}, version: {N: String(version)}}
      await transport.send('PutItem', {TableName, Item})
    }
  }
}

/** `a 3`: item and version of a record. */
export function describeRecord({dynamodb: {Keys, NewImage}}: StreamRecord): string {
  return `${readString(Keys, 'PK')} ${readNumber(NewImage ?? {}, 'version')}`
}

/** The records of `writeVersions`, as `describeRecord` prints them. */
export function versions(items: readonly string[], from: number, to: number): string[] {
  return Array.from({length: to - from}, (_, at) => items.map(item => `${item} ${from + at}`)).flat()
}

/** Waits until a condition holds; the test's timeout is the limit. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(10)
}

type TestPollerOptions = Pick<PollerOptions, 'tableName' | 'transport' | 'stream' | 'checkpointFile'> &
  Partial<PollerOptions>

/** A poller with short waits, and its delivered records and logs. */
export function testPoller(options: TestPollerOptions) {
  const delivered: string[] = []
  const batches: StreamRecord[][] = []
  const logged: string[] = []
  const poller = new StreamPoller({
    handler: async ({Records}) => {
      batches.push([...Records])
      delivered.push(...Records.map(describeRecord))
      return {failures: []}
    },
    clock: Date.now,
    sleep: (ms, signal) => sleepMs(Math.min(ms, 20), signal),
    log: (level, message) => logged.push(`${level}: ${message}`),
    ...options,
  })
  return {poller, delivered, batches, logged}
}
