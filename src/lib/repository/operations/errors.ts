import {ZaelError} from '../../core/errors.js'

interface Whose {
  readonly entity: string
  readonly resource: string
}

export function bucketMissing(entity: string, resource: string): ZaelError {
  return new ZaelError('notFound', 'bucket.missing', `Entity "${entity}" has no bucket for resource "${resource}".`, {
    hint: 'It was never used, or it has expired: the next request starts with a full bucket.',
    details: {entity, resource},
  })
}

export function bucketContended({entity, resource}: Whose): ZaelError {
  return new ZaelError(
    'conflict',
    'bucket.contended',
    `The bucket of "${entity}" for "${resource}" is written too often to be changed as a whole.`,
    {hint: 'Nothing was changed. Try again in a moment.', details: {entity, resource}},
  )
}

export function tooManyShards({entity, resource}: Whose, shards: number, most: number): ZaelError {
  return new ZaelError(
    'conflict',
    'bucket.too-many-shards',
    `The bucket of "${entity}" for "${resource}" has ${shards} shards; at most ${most} can be changed at once.`,
    {
      hint: 'Nothing was changed. Use the bucket with a limiter of zael once: it repairs a number that is too large.',
      details: {entity, resource, shards, most},
    },
  )
}

export function bucketDisabled({entity, resource}: Whose): ZaelError {
  return new ZaelError(
    'conflict',
    'bucket.disabled',
    `"${entity}" has no bucket for "${resource}" yet, and every request is refused: there is nothing to top up.`,
    {hint: 'Enable it first.', details: {entity, resource}},
  )
}

export function unknownOutcome({entity, resource}: Whose, idempotencyKey: string, cause: unknown): ZaelError {
  const reason = cause instanceof Error ? `: ${cause.message}` : ''
  return new ZaelError(
    'failed',
    'bucket.unknown-outcome',
    `The bucket of "${entity}" for "${resource}" may or may not have been changed${reason}`,
    {
      hint: `Repeat it with the idempotency key ${idempotencyKey}: then it is applied once, whatever has happened.`,
      details: {entity, resource, idempotencyKey},
      cause,
    },
  )
}
