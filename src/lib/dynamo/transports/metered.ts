import type {CapacityMeter} from '../capacity.js'
import {capacityOf} from '../response-info.js'
import {isDataOperation, type Transport} from '../transport.js'

/** A transport that asks what each request costs and tells a meter, in front of one that may not. */
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
