import {type BucketState, nextBoundary} from '../../core/buckets/bucket.js'
import type {BucketRecord} from '../../schema/bucket-record.js'

/** Clocks that are kept right differ by less; an instant further ahead is waited for. */
const MOST_AHEAD_MS = 60_000

/**
 * At the end of every minute, for so long, time passes at half speed in buckets that are ahead. So they come back to the
 * clocks once the client is gone: processes that live for one request, and clients that do not follow, wait for that. All
 * processes do it at the same time: else each would bring forward what the others bring back. A client that is still there
 * moves the bucket on, and has an advantage in this time only.
 */
const RETURN_MS = 10_000
const MINUTE_MS = 60_000

/** An instant to which a clock ahead of this process's has brought a bucket, and when this process has seen it there. */
interface SeenAhead {
  readonly bucketMs: number
  readonly clockMs: number
  /** On the clock of `performance`, which is never set. */
  readonly steadyMs: number
  /** The calendar of its limits changes the rules here: it is followed up to this instant only. */
  readonly boundaryMs: number
  readonly incarnation: string | undefined
}

/**
 * The instant at which one bucket is decided about: that of this process's clock, or, if a client whose clock is ahead has
 * refilled the bucket, the one that the bucket has reached by that clock at least (decision 29). So the time since is
 * credited by whoever comes first, not by that client alone, and never later than what the clock furthest ahead shows.
 */
export class BucketTime {
  #ahead: SeenAhead | undefined

  /** A clock that is set gains nothing: what has passed is the least of what it and the steady clock of this process tell. */
  at(clockMs: number): number {
    if (!this.#ahead) return clockMs
    const {bucketMs, clockMs: seenMs, steadyMs, boundaryMs} = this.#ahead
    const passedMs = Math.min(clockMs - seenMs, Math.floor(performance.now() - steadyMs))
    const reachedMs = bucketMs + passedMs - Math.max(0, returnedBy(clockMs) - returnedBy(seenMs))
    return reachedMs > clockMs && reachedMs < boundaryMs ? reachedMs : clockMs
  }

  follow(record: BucketRecord | undefined, clockMs: number): void {
    if (!record || !isFollowed(record, clockMs) || this.#isOther(record)) this.#ahead = undefined
    else if (record.state.refilledAtMs > this.at(clockMs)) {
      const {incarnation, state} = record
      const boundaryMs = nextBoundary(state, clockMs) ?? Number.POSITIVE_INFINITY
      this.#ahead = {bucketMs: state.refilledAtMs, clockMs, steadyMs: performance.now(), boundaryMs, incarnation}
    }
  }

  /** One that was reset or created anew begins with the time of its writer: what it was ahead by would be credited again. */
  #isOther({incarnation, state}: BucketRecord): boolean {
    if (!this.#ahead) return false
    return incarnation !== this.#ahead.incarnation || state.refilledAtMs < this.#ahead.bucketMs
  }
}

/** What a bucket that is ahead has been brought back by an instant, in ms since the epoch. */
function returnedBy(clockMs: number): number {
  const minutes = Math.floor(clockMs / MINUTE_MS)
  const inReturnMs = Math.max(0, clockMs - minutes * MINUTE_MS - (MINUTE_MS - RETURN_MS))
  return Math.ceil((minutes * RETURN_MS + inReturnMs) / 2)
}

/** Sessions, softness and bypasses have instants of their own, which are compared with clocks. */
function isFollowed({state, bypassUntilMs}: BucketRecord, clockMs: number): boolean {
  if (state.refilledAtMs > clockMs + MOST_AHEAD_MS || bypassUntilMs !== undefined) return false
  return !hasOwnInstants(state)
}

function hasOwnInstants({limits}: BucketState): boolean {
  for (const {kind} of limits.values()) if (kind?.quota?.session || kind?.softUntilMs !== undefined) return true
  return false
}
