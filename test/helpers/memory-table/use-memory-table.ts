import {beforeAll, describe, it} from 'vitest'
import {CapacityMeter} from '../../../src/lib/dynamo/capacity.js'
import {createTable, loadTableDefinition, type TableOptions} from '../../../src/lib/dynamo/table-definition.js'
import {describeOnEngine, type TestTable, useTable} from '../table.js'
import {MemoryDynamo} from './memory-dynamo.js'

/** Like `describe`, for tests that need no engine; skipped if the run names an engine. */
const describeInMemory = describe.skipIf(Boolean(process.env.ZAEL_TEST_ENGINE))

/** Like `useTable`, in memory: for simulations that are too slow on an engine. */
function useMemoryTable(options: Omit<TableOptions, 'tableName'> = {}): TestTable {
  const name = 'memory'
  const capacity = new CapacityMeter()
  const transport = new MemoryDynamo({meterCapacity: true, onResponse: capacity.observe})
  beforeAll(async () => {
    await createTable(transport, await loadTableDefinition({stream: false, ...options, tableName: name}))
  })
  return {name, transport, capacity}
}

/** Whether a suite runs in full, in memory, or once, on an engine. */
export type Extent = 'all' | 'one of each'

/** A suite that runs in memory in full, and once on the engine of this run, so that neither is trusted alone. */
export function describeOnBoth(
  name: string,
  options: {readonly timeout?: number},
  suite: (table: TestTable, extent: Extent) => void,
): void {
  describeInMemory(`${name}, in memory`, options, () => suite(useMemoryTable(), 'all'))
  describeOnEngine(`${name}, on an engine`, options, () => suite(useTable(), 'one of each'))
}

/** Like `it`, for a thousand successive requests: in memory in every run, on an engine with `ZAEL_TEST_SIZE=full`. */
export const longTest = (extent: Extent) => it.skipIf(extent === 'one of each' && process.env.ZAEL_TEST_SIZE !== 'full')
