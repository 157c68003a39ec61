import {LEVELS} from '../../core/limits/limit.js'
import {type ConfigScope, configKey} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import {addressOf} from '../buckets/buckets.js'
import type {CountedShard} from '../buckets/pages.js'
import {planBucket} from '../buckets/plan.js'
import {plannedRecord} from '../buckets/rewrite.js'
import type {NamespaceTable} from '../table/table.js'
import {allBoosts} from './boost-records.js'
import {ConfigCache} from './cache.js'
import {ConfigResolver, scopesOf} from './resolver.js'

/** Scopes whose copied limits have expired. Shows their buckets as the next request will find them, not as stored. */
export class EndedCopies {
  readonly #table: NamespaceTable
  readonly #scopes: ReadonlySet<string>
  readonly #resolver: ConfigResolver

  private constructor(table: NamespaceTable, scopes: readonly ConfigScope[]) {
    this.#table = table
    this.#scopes = new Set(scopes.map(scope => keyId(configKey(table.namespace, scope))))
    this.#resolver = new ConfigResolver(table, new ConfigCache({clock: table.clock}))
  }

  static async read(table: NamespaceTable): Promise<EndedCopies> {
    const nowMs = table.clock()
    const records = (await allBoosts(table)).filter(
      ({boosts}) => boosts.size > 0 && [...boosts.values()].every(each => each.untilMs <= nowMs),
    )
    return new EndedCopies(
      table,
      records.map(({scope}) => scope),
    )
  }

  /** Applies current limits to at most `mostBuckets` buckets; others are returned as stored. Writes nothing. */
  async inForce(shards: readonly CountedShard[], mostBuckets: number): Promise<CountedShard[]> {
    if (this.#scopes.size === 0) return [...shards]
    const looked = new Set<string>()
    const found: CountedShard[] = []
    for (const shard of shards) {
      const {entity, resource} = addressOf(shard)
      const id = `${entity}#${resource}`
      const isShown = shard.kind === 'ghost' || !this.#isConcerned(entity, resource)
      if (isShown || (!looked.has(id) && looked.size >= mostBuckets)) {
        found.push(shard)
        continue
      }
      looked.add(id)
      const {limits} = await this.#resolver.resolve({entity, resource})
      const nowMs = Math.max(this.#table.clock(), shard.record.state.refilledAtMs)
      const record = limits.length === 0 ? shard.record : plannedRecord(planBucket(shard, nowMs, limits))
      found.push({...shard, record})
    }
    return found
  }

  #isConcerned(entity: string, resource: string): boolean {
    const scopes = scopesOf(entity, resource)
    return LEVELS.some(level => this.#scopes.has(keyId(configKey(this.#table.namespace, scopes[level]))))
  }
}
