import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded, RequestTooLarge} from '../../src/lib/limiter/refusal/errors.js'
import type {AcquireRequest} from '../../src/lib/limiter/request/options.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import type {Scene} from '../helpers/limiter.js'

/** The request of most scenarios. */
export const request = (consume: Record<string, number>, entity = 'user-1'): AcquireRequest => ({
  entity,
  resource: 'gpt-4',
  consume,
})

type TemporaryRefusal = RateLimitExceeded & {readonly retryAfterMs: number}

/** Waiting helps. */
export const isTemporary = (error: unknown): error is TemporaryRefusal =>
  error instanceof RateLimitExceeded && error.retryAfterMs !== null

/** The refusal that an attempt must end in. */
export async function refusal(attempt: Promise<unknown>): Promise<TemporaryRefusal> {
  const error = await failure(attempt)
  if (isTemporary(error)) return error
  throw error
}

/** The error that an attempt must end in. */
export async function failure(attempt: Promise<unknown>): Promise<unknown> {
  return attempt.then(
    () => new Error('expected a failure'),
    (error: unknown) => error,
  )
}

/** Whether a request was admitted; errors other than "not now" and "never" are thrown. */
export async function isAdmitted(attempt: Promise<unknown>): Promise<boolean> {
  return attempt.then(
    () => true,
    error => {
      if (error instanceof RateLimitExceeded || error instanceof RequestTooLarge) return false
      throw error
    },
  )
}

/** How many of `most` equal successive requests are admitted before the first refusal. */
export async function admittedUntilRefused(
  limiter: RateLimiter,
  consume: Record<string, number>,
  most: number,
  entity = 'user-1',
): Promise<number> {
  for (let admitted = 0; admitted < most; admitted++) {
    if (!(await isAdmitted(limiter.acquire(request(consume, entity))))) return admitted
  }
  return most
}

/** Tokens of limit q that a new process gets, one at a time. */
export async function given(scene: Scene, most: number): Promise<number> {
  await using limiter = scene.limiter({denyCacheMs: 0})
  const admitted = await admittedUntilRefused(limiter, {q: 1}, most)
  await limiter.settled()
  return admitted
}

/** Splits a bucket until it has `count` shards, as write pressure would. */
export async function splitInto(scene: Scene, count: number, entity = 'user-1', resource = 'gpt-4'): Promise<void> {
  for (let shards = 1; shards < count; shards *= 2) await splitBucket(scene.tenant, entity, resource, shards)
}

/** The process's warnings while `work` runs, and for one turn of the event loop after it. */
export async function warningsOf(work: () => Promise<unknown>): Promise<Array<Error & {code?: string}>> {
  const warnings: Array<Error & {code?: string}> = []
  const listen = (warning: Error) => warnings.push(warning)
  process.on('warning', listen)
  try {
    await work()
    await new Promise(resolve => setImmediate(resolve))
  } finally {
    process.off('warning', listen)
  }
  return warnings
}
