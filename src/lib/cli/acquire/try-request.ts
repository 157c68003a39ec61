import {ZaelError} from '../../core/errors.js'
import type {AcquireAttempt, AttemptOptions} from '../../inspect/attempt.js'
import type {AcquireRequest} from '../../limiter/options.js'
import type {StackContext} from '../base/context.js'
import {interruptible} from '../output/interrupt.js'

/** A first request may have to find credentials before it is sent, so more than a service would grant. */
const TIMEOUT_MS = 15_000

/** Tries a request as a service would, with a limiter of its own. Ctrl-C gives up and returns what was taken. */
export async function tryRequest(
  {stack, table: {transport, clock, backoff}}: StackContext,
  namespace: string,
  request: AcquireRequest,
  options: Omit<AttemptOptions, 'clock' | 'sleep'>,
): Promise<AcquireAttempt> {
  const [{RateLimiter}, {attemptAcquire}] = await Promise.all([
    import('../../limiter/rate-limiter.js'),
    import('../../inspect/attempt.js'),
  ])
  const limiter = new RateLimiter({stack, namespace, transport, clock, timeoutMs: TIMEOUT_MS})
  try {
    return await interruptible(
      signal => attemptAcquire(limiter, {...request, signal}, {...options, clock, sleep: backoff.sleep}),
      () => new ZaelError('interrupted', 'acquire.interrupted', 'stopped before the request was admitted'),
    )
  } finally {
    await limiter.close()
  }
}
