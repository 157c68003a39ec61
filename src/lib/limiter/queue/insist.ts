import {isRetryable} from '../../dynamo/errors.js'
import {type Backoff, retrying} from '../../dynamo/retry.js'
import {mayHaveBeenApplied} from '../../repository/buckets/marked-write.js'

/** Tries to make a correction that nobody waits for, the first included. */
const ATTEMPTS = 10

/** Repeats a correction that has certainly not been made; throws the last error. */
export function insist(attempt: () => Promise<void>, backoff: Backoff): Promise<void> {
  const retryable = (error: unknown) => isRetryable(error) && !mayHaveBeenApplied(error)
  return retrying(attempt, {...backoff, attempts: ATTEMPTS, retryable})
}
