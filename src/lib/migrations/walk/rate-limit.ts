import {capacityOf} from '../../dynamo/response-info.js'
import {isRead, type Operation, type OperationOutput, type Transport} from '../../dynamo/transport.js'

/** Seconds' worth of units that may be spent at once after a pause. */
const BURST_SECONDS = 1

/** A refused write says nothing about its cost; it has one all the same. */
const UNITS_OF_REFUSAL = 1

/** What pacing needs: epoch ms, and a way to wait. */
export interface Pace {
  readonly clock: () => number
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
}

/**
 * Keeps the write units that a transport consumes below a rate, measured by what each answer says it cost. A write is
 * sent when nothing is owed, and whatever it costs has to be earned before the next.
 */
export function rateLimited(inner: Transport, unitsPerSecond: number, {clock, sleep}: Pace): Transport {
  let available = unitsPerSecond * BURST_SECONDS
  let earnedAtMs = clock()
  const earn = () => {
    const nowMs = clock()
    available = Math.min(unitsPerSecond * BURST_SECONDS, available + ((nowMs - earnedAtMs) / 1000) * unitsPerSecond)
    earnedAtMs = nowMs
  }
  // Writes wait in line: those that come at once would all see the same balance.
  let line: Promise<void> = Promise.resolve()
  const turn = (signal: AbortSignal | undefined): Promise<void> => {
    line = line.then(async () => {
      for (earn(); available <= 0 && !signal?.aborted; earn()) {
        await sleep(Math.max(1, Math.ceil((-available / unitsPerSecond) * 1000)), signal)
      }
      // Taken in advance, so that writes in flight are counted; the answer corrects it.
      available -= UNITS_OF_REFUSAL
    })
    return line
  }
  return {
    async send(operation, input, options) {
      if (isRead(operation)) return inner.send(operation, input, options)
      await turn(options?.signal)
      const answer = await inner.send(operation, {ReturnConsumedCapacity: 'TOTAL', ...input}, options)
      available -= unitsOf(answer) - UNITS_OF_REFUSAL
      return answer
    },
  }
}

function unitsOf(answer: OperationOutput<Operation>): number {
  const units = capacityOf(answer).reduce((sum, each) => sum + (each.WriteCapacityUnits ?? each.CapacityUnits ?? 0), 0)
  return Math.max(UNITS_OF_REFUSAL, units)
}
