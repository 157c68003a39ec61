import {beforeAll, describe, it} from 'vitest'
import {CapacityMeter} from '../../../src/lib/dynamo/capacity.js'
import {createTable, loadTableDefinition, type TableOptions} from '../../../src/lib/dynamo/table-definition.js'
import type {ClosableTransport} from '../../../src/lib/dynamo/transport.js'
import {connectToEngine, describeOnEngine, RESOURCE_INDEXES, type TestTable, useTable} from '../table.js'
import {MemoryDynamo} from './memory-dynamo.js'

const {ZAEL_TEST_ENGINE: engine, ZAEL_TEST_SLOW: isSlow} = process.env

/** Like `useTable`, in memory. */
function useMemoryTable(options: Omit<TableOptions, 'tableName'> = {}): TestTable {
  const name = 'memory'
  const capacity = new CapacityMeter()
  const transport = connectToMemory(capacity)
  beforeAll(async () => {
    await createTable(transport, await loadTableDefinition({stream: false, ...options, tableName: name}))
  })
  return {name, transport, capacity}
}

function connectToMemory(capacity: CapacityMeter): ClosableTransport {
  return new MemoryDynamo({meterCapacity: true, onResponse: capacity.observe})
}

/** For suites that make tables of their own: in memory in plain `npm test`, and otherwise to the engine of this run. */
export function connectToEither(capacity: CapacityMeter): ClosableTransport {
  return engine || isSlow ? connectToEngine(capacity) : connectToMemory(capacity)
}

/** Whether a suite runs in full, in memory, or once, on an engine. */
export type Extent = 'all' | 'one of each'

export interface SuiteOptions {
  readonly timeout?: number
  /** Runs the suite with every index of `RESOURCE_INDEXES`. */
  readonly eachIndex?: boolean
}

/**
 * A suite for any table. Plain `npm test` runs it in memory; with `ZAEL_TEST_ENGINE` it runs on that engine, so that
 * neither is trusted alone. CI does both. Slow suites run on both in one run.
 */
export function describeOnBoth(
  name: string,
  {eachIndex, ...options}: SuiteOptions,
  suite: (table: TestTable, extent: Extent, resourceIndex: 'KEYS_ONLY' | 'ALL') => void,
): void {
  for (const resourceIndex of eachIndex ? RESOURCE_INDEXES : RESOURCE_INDEXES.slice(0, 1)) {
    const title = eachIndex ? `${name}, with ${resourceIndex} in the resource index` : name
    const run = (use: typeof useTable, extent: Extent) => suite(use({resourceIndex}), extent, resourceIndex)
    if (!engine) describe(`${title}, in memory`, options, () => run(useMemoryTable, 'all'))
    if (engine || isSlow) describeOnEngine(`${title}, on an engine`, options, () => run(useTable, 'one of each'))
  }
}

/** Like `it`, for a thousand successive requests: in memory in every run, on an engine with `ZAEL_TEST_SIZE=full`. */
export const longTest = (extent: Extent) => it.skipIf(extent === 'one of each' && process.env.ZAEL_TEST_SIZE !== 'full')
