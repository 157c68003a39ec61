import {type Aggregator, createAggregator} from '../../../src/lib/aggregator/aggregator.js'
import type {LogLine} from '../../../src/lib/aggregator/batch.js'
import type {AggregatorSettings} from '../../../src/lib/aggregator/environment.js'
import {RollupSchedule} from '../../../src/lib/core/window.js'
import {loadTableDefinition} from '../../../src/lib/dynamo/table-definition.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {readAll} from '../../../src/lib/repository/table/query.js'
import type {NamespaceTable, Table} from '../../../src/lib/repository/table/table.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {parseItemKey} from '../../../src/lib/schema/keys.js'
import {ranges} from '../../../src/lib/schema/ranges.js'
import {encodeRollups} from '../../../src/lib/schema/registry-records.js'
import {MemoryDynamo} from '../../helpers/memory-table/memory-dynamo.js'
import {tableOver} from '../fixtures/stream.js'

export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS

/** Everything is rolled up, since always. */
export const ALWAYS = new RollupSchedule({daily: ['2000-01-01T00:00:00Z'], monthly: ['2000-01-01T00:00:00Z']})

/** A table in memory with the indexes of a real one. */
export async function memoryTable(clock: () => number): Promise<{transport: MemoryDynamo; name: string}> {
  const transport = new MemoryDynamo({clock, around: async (_, carryOut) => carryOut()})
  const {create} = await loadTableDefinition({tableName: 'memory', stream: false})
  transport.createTable(create)
  return {transport, name: 'memory'}
}

export const store = (transport: Transport, TableName: string, schedule: RollupSchedule): Promise<unknown> =>
  transport.send('PutItem', {TableName, Item: encodeRollups(schedule)})

/** An aggregator with its log lines, on a table with the test's clock. */
export function aggregatorOn(
  transport: Transport,
  name: string,
  clock: () => number,
  settings: Partial<AggregatorSettings> = {},
): Aggregator & {lines: LogLine[]; table: Table} {
  const lines: LogLine[] = []
  const table = tableOver(transport, name, clock)
  return {...createAggregator({table, settings, log: line => lines.push(line)}), lines, table}
}

export const inNamespace = (transport: Transport, name: string, namespace: string): NamespaceTable => ({
  ...tableOver(transport, name, Date.now),
  namespace,
})

/** The rollup agenda of a namespace, as `daily 2026-11-30T00:00:00Z gpt-4`. */
export async function agendaOf(table: Table, namespace: string): Promise<string[]> {
  const entries: string[] = []
  for await (const item of readAll(table, {...ranges.rollupAgenda(), prefix: '#ROLLUP#'})) {
    const key = parseItemKey(item)
    if (key?.record === 'rollup-agenda' && key.of.namespace === namespace)
      entries.push(`${key.window} ${key.start} ${key.of.resource}`)
  }
  return entries
}

/** An item without its rollup mark. */
export function figuresOf(item: Item): Item {
  return Object.fromEntries(Object.entries(item).filter(([name]) => name !== '_rolled'))
}
