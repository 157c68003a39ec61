import {createAggregator} from '../../aggregator/aggregator.js'
import {folderSink} from '../../aggregator/audit-archive.js'
import type {StreamEvent} from '../../aggregator/stream-event.js'
import {sleepMs} from '../../dynamo/retry.js'
import {createStreamTransport} from '../../dynamo/transports/stream.js'
import type {Table} from '../../repository/table/table.js'
import {releaseRecords} from '../engines/dynoxide-database.js'
import type {Engine} from '../engines/engine.js'
import {localAccess} from '../engines/transport.js'
import type {WriteLog} from '../state-dir/log.js'
import {StreamPoller} from '../stream/poller.js'
import type {AggregatorStatus} from './control.js'

export interface StackAggregator {
  status(): AggregatorStatus
  stop(): Promise<void>
}

interface StackAggregatorOptions {
  readonly engine: Engine
  readonly table: Table
  readonly checkpointFile: string
  readonly archiveDir: string
  readonly log: WriteLog
}

/** Runs the same code as Lambda. */
export function startStackAggregator(options: StackAggregatorOptions): StackAggregator {
  const {engine, table, checkpointFile, archiveDir, log} = options
  const stream = createStreamTransport({access: localAccess(engine.endpoint), clock: Date.now})
  const aggregator = createAggregator({
    table,
    sink: folderSink(archiveDir),
    log: ({level, message, ...fields}) => log(level, message, fields),
  })
  const done = {snapshots: 0, refused: 0, refills: 0, splits: 0, archived: 0}
  const handler = async (event: StreamEvent) => {
    const result = await aggregator.handle(event)
    for (const name of Object.keys(done) as Array<keyof typeof done>) done[name] += result.counts[name]
    return result
  }
  // Only a dynoxide database on disk is prepared for deleting processed records.
  const canRelease = engine.name === 'dynoxide' && engine.dataDir !== undefined
  const poller = new StreamPoller({
    tableName: table.name,
    transport: table.transport,
    stream,
    handler,
    idle: () => aggregator.tick(),
    checkpointFile,
    ...(canRelease ? {release: (arn, sequence) => releaseRecords(table.transport, arn, sequence)} : {}),
    clock: Date.now,
    sleep: sleepMs,
    log,
  })
  poller.start()
  return {
    status() {
      const {records, batches, errors, lastError, lagMs, streamLength} = poller.status()
      const figures = {records, batches, ...done, errors, lastError: lastError?.message ?? null, lagMs}
      return {...figures, streamLength: streamLength ?? null}
    },
    async stop() {
      await poller.stop()
      stream.close()
    },
  }
}
