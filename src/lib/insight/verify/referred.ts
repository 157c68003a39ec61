import {batchGet} from '../../dynamo/batch.js'
import {ConfigCache} from '../../repository/limits/cache.js'
import {
  ConfigResolver,
  type KnownResolutions,
  type Resolution,
  type ResolvedPair,
} from '../../repository/limits/resolver.js'
import type {Table} from '../../repository/table/table.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {type BucketRecord, decodeBucket} from '../../schema/bucket-record.js'
import {decodeEntity, type EntityRecord} from '../../schema/entity-record.js'
import {keyId, keys} from '../../schema/keys.js'

interface JudgedBy {
  /** By id. Records of other namespaces are not judged. */
  readonly namespaces: ReadonlyMap<string, unknown>
  readonly sinceMs: number
  readonly nowMs: number
  readonly signal: AbortSignal | undefined
}

export class Referred {
  readonly #entities: ReadonlyMap<string, Item>
  readonly #limits: ReadonlyMap<string, KnownResolutions>

  private constructor(entities: ReadonlyMap<string, Item>, limits: ReadonlyMap<string, KnownResolutions>) {
    this.#entities = entities
    this.#limits = limits
  }

  static async by(items: readonly Item[], table: Table, judgedBy: JudgedBy): Promise<Referred> {
    const {namespaces, sinceMs, nowMs, signal} = judgedBy
    const entities: Key[] = []
    const pairs = new Map<string, ResolvedPair[]>()
    for (const item of items) {
      // Undecodable records are findings of their own.
      const [stored, child] = [unlessMalformed(() => decodeBucket(item)), unlessMalformed(() => decodeEntity(item))]
      if (stored?.kind === 'bucket' && isJudged(stored.record, sinceMs, nowMs)) {
        const {namespace, entity, resource} = stored.record
        if (!namespaces.has(namespace)) continue
        entities.push(keys.entity(namespace, entity))
        const wanted = pairs.get(namespace) ?? []
        pairs.set(namespace, wanted)
        wanted.push({entity, resource})
      }
      if (child?.parent !== undefined && namespaces.has(child.namespace))
        entities.push(keys.entity(child.namespace, child.parent))
    }
    const limits = new Map<string, KnownResolutions>()
    for (const [namespace, wanted] of pairs) {
      const resolver = new ConfigResolver({...table, namespace}, new ConfigCache({clock: table.clock, ttlMs: 0}))
      limits.set(namespace, await resolver.resolveMany(wanted, {signal}))
    }
    const {transport, name, backoff} = table
    return new Referred(await batchGet(transport, name, entities, {backoff, consistent: true, signal}), limits)
  }

  entity(namespace: string, entity: string): EntityRecord | undefined {
    const item = this.#entities.get(keyId(keys.entity(namespace, entity)))
    return item && decodeEntity(item)
  }

  limits({namespace, entity, resource}: Pick<BucketRecord, 'namespace' | 'entity' | 'resource'>): Resolution {
    const known = this.#limits.get(namespace)
    if (!known) throw new Error(`no limits of namespace ${namespace} were read`)
    return known({entity, resource})
  }
}

function unlessMalformed<T>(decode: () => T): T | undefined {
  try {
    return decode()
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** Skips expired buckets: the table may delete them, and their shards, at any time. */
export function isJudged({ttlSeconds, state}: BucketRecord, sinceMs: number, nowMs: number): boolean {
  const isExpired = ttlSeconds !== undefined && ttlSeconds * 1000 <= nowMs
  return !isExpired && state.refilledAtMs >= sinceMs
}
