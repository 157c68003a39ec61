import {createAggregator} from '../../aggregator/aggregator.js'
import {embeddedMetrics} from '../../aggregator/metrics.js'
import {readEvent} from '../../aggregator/stream-event.js'
import {openTable} from '../../repository/table/open-table.js'
import {parseLambdaSettings} from './environment.js'
import {s3Sink} from './s3-archive-sink.js'

/**
 * Entry point of the AWS Lambda function. Settings are parsed when the function starts, so that an invalid one fails its
 * first start visibly; the connection is reused between batches.
 */
const settings = parseLambdaSettings(process.env)
const {table} = openTable({stack: settings.tableName})
const aggregator = createAggregator({
  table,
  settings,
  sink: settings.archiveBucket === undefined ? undefined : s3Sink(settings.archiveBucket),
  log: print,
})

/** Returns the records that Lambda has to deliver again; it retries from the first of them. */
export async function handler(event: unknown): Promise<{batchItemFailures: {readonly itemIdentifier: string}[]}> {
  const {failures, counts} = await aggregator.handle(readEvent(event))
  print(embeddedMetrics(counts, settings.tableName, table.clock()))
  return {batchItemFailures: failures.map(itemIdentifier => ({itemIdentifier}))}
}

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}
