import {randomBytes, randomUUID} from 'node:crypto'
import {afterAll, beforeAll} from 'vitest'
import {CapacityMeter} from '../../src/lib/dynamo/capacity.js'
import {sleepMs} from '../../src/lib/dynamo/retry.js'
import type {Generation} from '../../src/lib/migrate/records/classify.js'
import type {Table} from '../../src/lib/repository/table/table.js'
import {connectToEither} from '../helpers/memory-table/use-memory-table.js'
import {makeOldTable} from './fixtures/old-table.js'

/** A table with the indexes of an older layout for the tests of one `describe`, with the clock of the population. */
export function useOldTable(
  generation: Generation,
  nowMs: number,
  capacity = new CapacityMeter(),
  connect = connectToEither,
): Table {
  const name = `old-${randomUUID()}`
  const transport = connect(capacity)
  const table: Table = {
    name,
    transport,
    clock: () => nowMs,
    randomBytes,
    backoff: {random: Math.random, sleep: sleepMs},
  }
  beforeAll(() => makeOldTable(table, generation))
  afterAll(async () => {
    await transport.send('DeleteTable', {TableName: name})
    await transport.close()
  })
  return table
}
