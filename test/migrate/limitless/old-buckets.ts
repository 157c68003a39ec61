import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {perLimitBucketItems, perLimitConfigItems} from '../fixtures/flat-items.js'

const DAY_SECONDS = 86_400

/** A bucket as releases up to 0.6 stored it, half empty: one item per limit. */
export function bucketItems(
  entity: string,
  resource: string,
  limits: readonly string[],
  {nowMs, isExpired = false}: {nowMs: number; isExpired?: boolean},
): Item[] {
  return perLimitBucketItems({
    entity,
    resource,
    limits: limits.map(text => {
      const limit = parseLimit(text)
      const half = BigInt(limit.capacity) * 500n
      return {...limit, burst: limit.capacity, tokensMilli: half, consumedMilli: half, refilledAtMs: nowMs}
    }),
    ttlSeconds: Math.floor(nowMs / 1000) + (isExpired ? -DAY_SECONDS : DAY_SECONDS),
    expired: isExpired,
    own: false,
  })
}

/** Limits of an entity as releases up to 0.7 stored them; `_default_` stands for all its resources. */
function configItems(entity: string, resource: string, limits: readonly string[]): Item[] {
  return perLimitConfigItems({
    scope: {level: 'entity', entity, resource},
    limits: limits.map(text => ({...parseLimit(text), burst: parseLimit(text).capacity})),
  })
}

export const versionItem: Item = {PK: s('SYSTEM#'), SK: s('#VERSION'), schema_version: s('1.0.0')}

/** Twelve buckets: eight with the same limits, others with others, and some that are configured or expired. */
export function limitlessItems({nowMs}: {nowMs: number}): Item[] {
  const bucket = (entity: string, resource: string, ...limits: string[]) =>
    bucketItems(entity, resource, limits, {nowMs})
  return [
    versionItem,
    ...[1, 2, 3, 4, 5].flatMap(at => bucket(`user-${at}`, 'gpt-4', 'rpm=100/min', 'tpm=10000/min')),
    // Of one limit the bucket has expired.
    ...bucket('partly', 'gpt-4', 'rpm=100/min'),
    ...bucket('vip', 'gpt-4', 'rpm=900/min', 'tpm=90000/min'),
    ...bucket('user-1', 'db.read', 'rps=10/s'),
    ...bucket('user-2', 'db.read', 'rps=20/s'),
    ...bucketItems('gone', 'gpt-4', ['rpm=7/min'], {nowMs, isExpired: true}),
    // These have limits already, which differ from the bucket.
    ...bucket('own', 'gpt-4', 'rpm=50/min'),
    ...configItems('own', 'gpt-4', ['rpm=60/min']),
    ...bucket('own-default', 'gpt-4', 'rpm=50/min'),
    ...configItems('own-default', '_default_', ['rpm=70/min']),
    // A fraction of a token cannot be configured.
    ...bucket('odd', 'gpt-4', 'rpm=100/min').map(item => ({...item, burst_milli: n(100_500)})),
  ]
}
