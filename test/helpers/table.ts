import {randomUUID} from 'node:crypto'
import {afterAll, beforeAll, describe, inject} from 'vitest'
import {CapacityMeter} from '../../src/lib/dynamo/capacity.js'
import {resolveConnection} from '../../src/lib/dynamo/connection.js'
import {createTable, loadTableDefinition, type TableOptions} from '../../src/lib/dynamo/table-definition.js'
import type {ClosableTransport, Transport} from '../../src/lib/dynamo/transport.js'
import {createTransport} from '../../src/lib/dynamo/transports/create.js'

/** Like `describe`, for tests that talk to the engine of this run; skipped where none can run. */
export const describeOnEngine = describe.skipIf(inject('engineEndpoint') === '')

/**
 * What the resource index may carry; suites that depend on it run with both on Amazon's engine, and with the default alone
 * in `npm test`, which has little time.
 */
export const RESOURCE_INDEXES: readonly ('KEYS_ONLY' | 'ALL')[] = process.env.ZAEL_TEST_ENGINE
  ? ['KEYS_ONLY', 'ALL']
  : ['KEYS_ONLY']

/** Ms for what is not to run out of time: a busy engine is no outage. */
export const PATIENT_MS = 60_000

export interface TestTable {
  readonly name: string
  readonly transport: Transport
  /** Units of every request so far. */
  readonly capacity: CapacityMeter
}

/** A transport to the engine of this run. */
export function connectToEngine(capacity: CapacityMeter): ClosableTransport {
  return createTransport({
    connection: resolveConnection({endpointUrl: inject('engineEndpoint')}, {}),
    clock: Date.now,
    // Whoever has hundreds of requests for a busy engine waits for a connection first.
    connectTimeoutMs: PATIENT_MS,
    requestTimeoutMs: PATIENT_MS,
    meterCapacity: true,
    onResponse: info => capacity.observe(info),
  })
}

/** A table of its own for the tests of one `describe`, made from the stack template; without a stream unless asked for. */
export function useTable(options: Omit<TableOptions, 'tableName'> = {}): TestTable {
  const name = `test-${randomUUID()}`
  const capacity = new CapacityMeter()
  const transport = connectToEngine(capacity)
  beforeAll(async () => {
    await createTable(transport, await loadTableDefinition({stream: false, ...options, tableName: name}))
  })
  afterAll(async () => {
    await transport.send('DeleteTable', {TableName: name})
    await transport.close()
  })
  return {name, transport, capacity}
}
