import {openTable} from '../repository/table/open-table.js'
import {markAggregator} from '../repository/table/version.js'
import {createAggregator} from './aggregator.js'
import {parseLambdaSettings} from './environment.js'
import {embeddedMetrics} from './metrics.js'
import {s3Sink} from './s3-archive-sink.js'
import {readEvent} from './stream-event.js'

/** AWS Lambda entry point. Parses settings at start, so that invalid ones fail visibly. Reuses the connection. */
const settings = parseLambdaSettings(process.env)
const {table} = openTable({stack: settings.tableName})
const aggregator = createAggregator({
  table,
  settings,
  sink: settings.archiveBucket === undefined ? undefined : s3Sink(settings.archiveBucket),
  log: print,
})

let marking: Promise<void> | undefined

/** Returns the records to redeliver; Lambda retries from the first of them. */
export async function handler(event: unknown): Promise<{batchItemFailures: {readonly itemIdentifier: string}[]}> {
  const {failures, counts} = await aggregator.handle(readEvent(event))
  print(embeddedMetrics(counts, settings.tableName, table.clock()))
  marking ??= mark()
  await marking
  return {batchItemFailures: failures.map(itemIdentifier => ({itemIdentifier}))}
}

/** For code uploaded without a deployment. Without the mark, Python clients refuse some features; the batch is fine. */
async function mark(): Promise<void> {
  try {
    await markAggregator(table)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    print({level: 'warn', message: 'the version record was not updated', reason})
  }
}

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}
