import {createAggregator} from '../../../src/lib/aggregator/aggregator.js'
import {resolveConnection} from '../../../src/lib/dynamo/connection.js'
import {createTransport} from '../../../src/lib/dynamo/transports/create.js'
import {bucketImage, streamRecord, tableOver} from '../../aggregator/fixtures/stream.js'

/** Usage of a resource by a customer in one hour. */
export interface PastUsage {
  readonly entity: string
  readonly resource: string
  /** Epoch ms. */
  readonly atMs: number
  readonly requests: number
  /** By limit. */
  readonly tokens: Readonly<Record<string, number>>
}

/** Has the aggregator count usage of the past, as it would have counted it then. */
export async function countPast(endpoint: string, namespace: string, past: readonly PastUsage[]): Promise<void> {
  const transport = createTransport({connection: resolveConnection({endpointUrl: endpoint}, {}), clock: Date.now})
  const aggregator = createAggregator({table: tableOver(transport, 'local', Date.now), log: () => {}})
  const Records = past.map(({entity, resource, atMs, requests, tokens}) => {
    const images = [0, 1].map(part => {
      const tc = Object.entries(tokens).map(([name, count]) => [name, part * count * 1000])
      return bucketImage({namespace, entity, resource, rq: part * requests, tc: Object.fromEntries(tc)})
    })
    return streamRecord(images[0], images[1], {atMs})
  })
  const {failures} = await aggregator.handle({Records})
  if (failures.length > 0) throw new Error(JSON.stringify(failures))
  await transport.close()
}
