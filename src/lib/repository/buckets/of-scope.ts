import {type ConfigScope, levelOf} from '../../schema/config-record.js'
import type {Buckets, ShardedBucket} from './buckets.js'

/** The buckets that limits of a scope may apply to: also those that have limits of a more specific level. */
export async function* bucketsOfScope(
  buckets: Buckets,
  scope: ConfigScope,
  signal?: AbortSignal,
): AsyncGenerator<ShardedBucket, void> {
  if (scope.level === 'system') yield* buckets.ofNamespace({signal})
  else if (scope.level === 'resource') yield* buckets.ofResource(scope.resource, {signal})
  else if (levelOf(scope) === 'entity_default') yield* buckets.ofEntity(scope.entity, {signal})
  else {
    const bucket = await buckets.find(scope.entity, scope.resource, {signal})
    if (bucket) yield bucket
  }
}
