import {setImmediate} from 'node:timers/promises'
import {classifyError} from '../../../src/lib/dynamo/classify.js'
import {
  type ClosableTransport,
  capacityOf,
  isDataOperation,
  type Operation,
  type OperationInput,
  type OperationOutput,
  type ResponseInfo,
  type SendOptions,
} from '../../../src/lib/dynamo/transport.js'
import {signalOf} from '../../../src/lib/dynamo/transports/sdk.js'
import {MemoryOperations} from './operations.js'
import type {Change, MemoryTable} from './table.js'

/** One call, as an interceptor sees it. */
export interface MemoryCall {
  readonly operation: Operation
  readonly input: unknown
  readonly options: SendOptions
  /** Number of the call, from 1. */
  readonly number: number
}

export interface MemoryDynamoOptions {
  /** Epoch ms, for the times of changes. Default: the real clock. */
  readonly clock?: () => number
  /**
   * Intercepts every call: it may delay or skip it, or apply it and fail. The caller gets what it throws. Default: calls
   * are applied in order, each in its own turn of the event loop.
   */
  readonly around?: (call: MemoryCall, carryOut: () => unknown) => Promise<unknown>
  /** Called with every effective write, in order, like a stream. */
  readonly onChange?: (change: Change) => void
  /** As for the transports: the cost of each response. */
  readonly meterCapacity?: boolean
  readonly onResponse?: (info: ResponseInfo) => void
}

/**
 * DynamoDB in memory, as a transport: real expressions, indexes, transactions, capacity and errors, without network or
 * waits. `memory-dynamo.slow.test.ts` compares it with an engine. It has no clock, so that a simulation controls all
 * timing.
 */
export class MemoryDynamo implements ClosableTransport {
  readonly #options: MemoryDynamoOptions
  readonly #operations: MemoryOperations
  #calls = 0

  constructor(options: MemoryDynamoOptions = {}) {
    this.#options = options
    this.#operations = new MemoryOperations(options.clock ?? Date.now, options.onChange ?? (() => {}))
  }

  /** Creates a table at once, without faults. */
  createTable(definition: OperationInput<'CreateTable'>): void {
    this.#operations.carryOut('CreateTable', definition)
  }

  /** A table for inspection, without faults. */
  table(name: string): MemoryTable {
    return this.#operations.table(name)
  }

  async send<O extends Operation>(
    operation: O,
    input: OperationInput<O>,
    options: SendOptions = {},
  ): Promise<OperationOutput<O>> {
    const {around = inTurn} = this.#options
    const call = {operation, input, options, number: ++this.#calls}
    const signal = signalOf(options)
    try {
      signal?.throwIfAborted()
    } catch (error) {
      throw classifyError(error, operation, {signal, sent: false})
    }
    try {
      return (await around(call, () => this.#carryOut(operation, input))) as OperationOutput<O>
    } catch (error) {
      throw classifyError(error, operation, {signal, sent: true})
    }
  }

  async close(): Promise<void> {}

  #carryOut<O extends Operation>(operation: O, input: OperationInput<O>): OperationOutput<O> {
    const {meterCapacity, onResponse, clock = Date.now} = this.#options
    const request =
      meterCapacity && isDataOperation(operation) ? {ReturnConsumedCapacity: 'INDEXES' as const, ...input} : input
    const nowMs = clock()
    const observe = (output: unknown) =>
      onResponse?.({
        operation,
        sentAtMs: nowMs,
        receivedAtMs: nowMs,
        serverDateMs: undefined,
        capacity: capacityOf(output),
      })
    try {
      const output = this.#operations.carryOut(operation, request as OperationInput<O>)
      observe(output)
      return output
    } catch (error) {
      observe(undefined)
      throw error
    }
  }
}

async function inTurn(_: MemoryCall, carryOut: () => unknown): Promise<unknown> {
  await setImmediate()
  return carryOut()
}
