import {rm} from 'node:fs/promises'
import {join} from 'node:path'
import type {TableOptions} from '../../dynamo/table-definition.js'
import type {ClosableTransport} from '../../dynamo/transport.js'
import {openTable} from '../../repository/table/open-table.js'
import type {Table} from '../../repository/table/table.js'
import type {Engine} from '../engines/engine.js'
import {localTransport} from '../engines/transport.js'
import {DATA_NAMES} from '../state-dir/data-dir.js'
import type {WriteLog} from '../state-dir/log.js'
import {makePrivateFolder} from '../state-dir/private-file.js'
import {LOCAL_STACK} from '../state-dir/state.js'
import {type StackAggregator, startStackAggregator} from './aggregator.js'
import type {AggregatorStatus} from './control.js'
import {prepareStack} from './prepare.js'

interface StackServiceOptions {
  readonly endpoint: string
  readonly folder: string
  readonly aggregator: boolean
  readonly resourceIndex?: TableOptions['resourceIndex']
  readonly version: string
  readonly log: WriteLog
}

export class StackService {
  readonly #options: StackServiceOptions
  readonly #transport: ClosableTransport
  readonly #table: Table
  #aggregator: StackAggregator | undefined

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
    const checkpointFile = join(folder, DATA_NAMES.checkpoint)
    if (created) await rm(checkpointFile, {force: true})
    const archiveDir = join(folder, DATA_NAMES.archive)
    this.#aggregator = startStackAggregator({engine, table, checkpointFile, archiveDir, log})
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
