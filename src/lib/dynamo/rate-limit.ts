import {capacityOf, isRead, type Operation, type OperationOutput, type Transport} from './transport.js'

/** Seconds of unused units that may be spent at once after a pause. */
const BURST_SECONDS = 1

/** Assumed cost until the response; a rejected request does not report its cost. */
const MIN_UNITS = 1

interface Pace {
  /** Epoch ms. */
  readonly clock: () => number
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
}

interface UnitLimit {
  readonly of: 'reads' | 'writes'
  readonly unitsPerSecond: number
}

/** Sends while the balance is positive and subtracts the actual cost from the response. */
export function rateLimited(inner: Transport, {of, unitsPerSecond}: UnitLimit, {clock, sleep}: Pace): Transport {
  let available = unitsPerSecond * BURST_SECONDS
  let refilledAtMs = clock()
  const refill = () => {
    const nowMs = clock()
    available = Math.min(unitsPerSecond * BURST_SECONDS, available + ((nowMs - refilledAtMs) / 1000) * unitsPerSecond)
    refilledAtMs = nowMs
  }
  // One at a time: concurrent requests would all see the same balance.
  let queue: Promise<void> = Promise.resolve()
  const waitForTurn = (signal: AbortSignal | undefined): Promise<void> => {
    queue = queue.then(async () => {
      for (refill(); available <= 0 && !signal?.aborted; refill()) {
        await sleep(Math.max(1, Math.ceil((-available / unitsPerSecond) * 1000)), signal)
      }
      // Reserve in advance, so that requests in flight count; the response settles it.
      available -= MIN_UNITS
    })
    return queue
  }
  return {
    async send(operation, input, options) {
      if (isRead(operation) !== (of === 'reads')) return inner.send(operation, input, options)
      await waitForTurn(options?.signal)
      const response = await inner.send(operation, {ReturnConsumedCapacity: 'TOTAL', ...input}, options)
      available -= unitsOf(response) - MIN_UNITS
      return response
    },
  }
}

function unitsOf(response: OperationOutput<Operation>): number {
  const units = capacityOf(response).reduce(
    (sum, each) => sum + (each.WriteCapacityUnits ?? each.ReadCapacityUnits ?? each.CapacityUnits ?? 0),
    0,
  )
  return Math.max(MIN_UNITS, units)
}

interface PacedTable {
  readonly transport: Transport
  readonly clock: Pace['clock']
  readonly backoff: Pick<Pace, 'sleep'>
}

/** `unitsPerSecond`: `undefined`: as fast as possible. */
export function paced<T extends PacedTable>(table: T, of: UnitLimit['of'], unitsPerSecond: number | undefined): T {
  if (unitsPerSecond === undefined) return table
  const pace = {clock: table.clock, sleep: table.backoff.sleep}
  return {...table, transport: rateLimited(table.transport, {of, unitsPerSecond}, pace)}
}
