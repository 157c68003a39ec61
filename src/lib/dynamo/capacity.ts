import type {Capacity, ConsumedCapacity} from '@aws-sdk/client-dynamodb'
import {capacityOf, isDataOperation, isRead, type Operation, type ResponseInfo, type Transport} from './transport.js'

export interface Units {
  read: number
  write: number
}

export interface CapacityTotals extends Units {
  /** Includes refused requests. */
  calls: number
  byOperation: Record<string, Units & {calls: number}>
  /** By `table` or `table/index`. */
  byTarget: Record<string, Units>
}

export class CapacityMeter {
  #totals: CapacityTotals = {calls: 0, read: 0, write: 0, byOperation: {}, byTarget: {}}

  readonly observe = ({operation, capacity}: ResponseInfo): void => {
    const totals = this.#totals
    totals.byOperation[operation] ??= {calls: 0, read: 0, write: 0}
    const perOperation = totals.byOperation[operation]
    totals.calls++
    perOperation.calls++
    for (const consumed of capacity) {
      const units = unitsOf(consumed, operation)
      addTo(totals, units)
      addTo(perOperation, units)
      for (const [target, part] of targetsOf(consumed)) {
        totals.byTarget[target] ??= {read: 0, write: 0}
        addTo(totals.byTarget[target], unitsOf(part, operation))
      }
    }
  }

  get read(): number {
    return this.#totals.read
  }

  snapshot(): CapacityTotals {
    return structuredClone(this.#totals)
  }

  since(before: CapacityTotals): CapacityTotals {
    const now = this.#totals
    const change: CapacityTotals = {
      calls: now.calls - before.calls,
      ...difference(now, before),
      byOperation: {},
      byTarget: {},
    }
    for (const [operation, units] of Object.entries(now.byOperation)) {
      const calls = units.calls - (before.byOperation[operation]?.calls ?? 0)
      if (calls > 0) change.byOperation[operation] = {calls, ...difference(units, before.byOperation[operation])}
    }
    for (const [target, units] of Object.entries(now.byTarget)) {
      const added = difference(units, before.byTarget[target])
      if (added.read > 0 || added.write > 0) change.byTarget[target] = added
    }
    return change
  }
}

export function meteredTransport(inner: Transport, meter: CapacityMeter, clock: () => number): Transport {
  return {
    async send(operation, input, options) {
      const sentAtMs = clock()
      let output: unknown
      try {
        const request = isDataOperation(operation) ? {ReturnConsumedCapacity: 'INDEXES', ...input} : input
        const answer = await inner.send(operation, request, options)
        output = answer
        return answer
      } finally {
        const capacity = capacityOf(output)
        meter.observe({operation, sentAtMs, receivedAtMs: clock(), serverDateMs: undefined, capacity})
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

function* targetsOf(consumed: ConsumedCapacity): Generator<[string, Capacity]> {
  const table = consumed.TableName ?? ''
  if (consumed.Table !== undefined) yield [table, consumed.Table]
  for (const [index, part] of Object.entries(consumed.GlobalSecondaryIndexes ?? {})) yield [`${table}/${index}`, part]
}

function addTo(sum: Units, units: Units): void {
  sum.read += units.read
  sum.write += units.write
}

function difference(now: Units, before: Units = {read: 0, write: 0}): Units {
  return {read: now.read - before.read, write: now.write - before.write}
}
