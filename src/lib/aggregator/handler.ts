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

/** Time kept free at the end of a run for the response, in ms, but at most a tenth of the run. */
const RESERVE_MS = 5_000

interface LambdaContext {
  getRemainingTimeInMillis(): number
}

let marking: Promise<void> | undefined

/** Returns the records to redeliver; Lambda retries from the first of them. A run that times out returns none. */
export async function handler(
  event: unknown,
  context?: LambdaContext,
): Promise<{batchItemFailures: {readonly itemIdentifier: string}[]}> {
  const signal = context && endOf(context)
  const {failures, counts} = await aggregator.handle(readEvent(event), signal)
  print(embeddedMetrics(counts, settings.tableName, table.clock()))
  if (!signal?.aborted) {
    marking ??= mark()
    await marking
  }
  return {batchItemFailures: failures.map(itemIdentifier => ({itemIdentifier}))}
}

function endOf(context: LambdaContext): AbortSignal {
  const leftMs = context.getRemainingTimeInMillis()
  return AbortSignal.timeout(Math.floor(leftMs - Math.min(RESERVE_MS, leftMs / 10)))
}

/**
 * For code uploaded without a deployment. Without the mark, Python clients refuse some features; batches still work.
 */
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
