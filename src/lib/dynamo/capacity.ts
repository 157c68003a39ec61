import type {Capacity} from '@aws-sdk/client-dynamodb'
import {capacityOf, isDataOperation, isRead, type Operation, type ResponseInfo, type Transport} from './transport.js'

interface Units {
  read: number
  write: number
}

export interface CapacityTotals extends Units {
  /** Includes refused requests. */
  calls: number
}

export class CapacityMeter {
  readonly #totals: CapacityTotals = {calls: 0, read: 0, write: 0}

  readonly observe = ({operation, capacity}: Pick<ResponseInfo, 'operation' | 'capacity'>): void => {
    this.#totals.calls++
    for (const consumed of capacity) {
      const {read, write} = unitsOf(consumed, operation)
      this.#totals.read += read
      this.#totals.write += write
    }
  }

  get read(): number {
    return this.#totals.read
  }

  snapshot(): CapacityTotals {
    return {...this.#totals}
  }

  since(before: CapacityTotals): CapacityTotals {
    const {calls, read, write} = this.#totals
    return {calls: calls - before.calls, read: read - before.read, write: write - before.write}
  }
}

export function meteredTransport(inner: Transport, meter: CapacityMeter): Transport {
  return {
    async send(operation, input, options) {
      let output: unknown
      try {
        const request = isDataOperation(operation) ? {ReturnConsumedCapacity: 'INDEXES', ...input} : input
        const answer = await inner.send(operation, request, options)
        output = answer
        return answer
      } finally {
        meter.observe({operation, capacity: capacityOf(output)})
      }
    },
  }
}

/** Only transactions report read and write units separately; otherwise the operation decides. */
function unitsOf(capacity: Capacity, operation: Operation): Units {
  const {ReadCapacityUnits, WriteCapacityUnits, CapacityUnits = 0} = capacity
  if (ReadCapacityUnits !== undefined || WriteCapacityUnits !== undefined) {
    return {read: ReadCapacityUnits ?? 0, write: WriteCapacityUnits ?? 0}
  }
  return isRead(operation) ? {read: CapacityUnits, write: 0} : {read: 0, write: CapacityUnits}
}
