import {rm} from 'node:fs/promises'
import {join} from 'node:path'
import {createAggregator} from '../../aggregator/aggregator.js'
import {folderSink} from '../../aggregator/audit-archive.js'
import type {StreamEvent} from '../../aggregator/stream-event.js'
import {sleepMs} from '../../dynamo/retry.js'
import type {TableOptions} from '../../dynamo/table-definition.js'
import type {ClosableTransport} from '../../dynamo/transport.js'
import {createStreamTransport} from '../../dynamo/transports/stream.js'
import {openTable} from '../../repository/table/open-table.js'
import type {Table} from '../../repository/table/table.js'
import {releaseRecords} from '../engines/dynoxide.js'
import type {Engine} from '../engines/engine.js'
import {localAccess, localTransport} from '../engines/transport.js'
import {DATA_NAMES} from '../state-dir/data-dir.js'
import type {WriteLog} from '../state-dir/log.js'
import {makePrivateFolder} from '../state-dir/private-file.js'
import {LOCAL_STACK} from '../state-dir/state.js'
import {StreamPoller} from '../stream/poller.js'
import type {AggregatorStatus} from './control.js'
import {prepareStack} from './prepare.js'

interface StackServiceOptions {
  readonly endpoint: string
  readonly folder: string
  readonly aggregator: boolean
  readonly resourceIndex: TableOptions['resourceIndex'] | undefined
  readonly version: string
  readonly log: WriteLog
}

export class StackService {
  readonly #options: StackServiceOptions
  readonly #transport: ClosableTransport
  readonly #table: Table
  #aggregator: ReturnType<typeof startAggregator> | undefined

  constructor(options: StackServiceOptions) {
    this.#options = options
    this.#transport = localTransport(options.endpoint)
    this.#table = openTable({stack: LOCAL_STACK, transport: this.#transport}).table
  }

  /** Also called after a restart: an engine in memory has lost its table, and a new table has a new stream. */
  async start(engine: Engine): Promise<void> {
    const {folder, log, version, resourceIndex} = this.#options
    const table = this.#table
    const {created} = await prepareStack(table, version, resourceIndex === undefined ? {} : {resourceIndex})
    log('info', created ? 'created the table' : 'found the table', {table: table.name})
    if (!this.#options.aggregator) return
    await makePrivateFolder(folder)
    if (created) await rm(join(folder, DATA_NAMES.checkpoint), {force: true})
    this.#aggregator = startAggregator(engine, table, folder, log)
  }

  status(): AggregatorStatus | null {
    return this.#aggregator?.status() ?? null
  }

  async stop(): Promise<void> {
    const aggregator = this.#aggregator
    this.#aggregator = undefined
    if (!aggregator) return
    await aggregator.stop()
    this.#options.log('info', 'the aggregator has stopped')
  }

  async close(): Promise<void> {
    await this.stop()
    await this.#transport.close()
  }
}

/** Runs the same code as Lambda. */
function startAggregator(engine: Engine, table: Table, folder: string, log: WriteLog) {
  const stream = createStreamTransport({access: localAccess(engine.endpoint), clock: Date.now})
  const aggregator = createAggregator({
    table,
    sink: folderSink(join(folder, DATA_NAMES.archive)),
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
    checkpointFile: join(folder, DATA_NAMES.checkpoint),
    ...(canRelease ? {release: (arn, sequence) => releaseRecords(table.transport, arn, sequence)} : {}),
    clock: Date.now,
    sleep: sleepMs,
    log,
  })
  poller.start()
  return {
    status(): AggregatorStatus {
      const {records, batches, errors, lastError, lagMs, streamLength} = poller.status()
      const figures = {records, batches, ...done, errors, lastError: lastError?.message ?? null, lagMs}
      return {...figures, streamLength: streamLength ?? null}
    },
    async stop(): Promise<void> {
      await poller.stop()
      stream.close()
    },
  }
}
