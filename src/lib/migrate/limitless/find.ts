import {DEFAULT_RESOURCE} from '../../core/names.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import {untilAborted} from '../../repository/table/table.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {decodeBucket} from '../../schema/bucket-record.js'
import {limitAttributesIn} from '../../schema/config-limits.js'
import {type ConfigScope, configKey, decodeConfig} from '../../schema/config-record.js'
import {keyId, keys} from '../../schema/keys.js'
import {PLACEHOLDER_NAMESPACE} from '../../schema/legacy-key.js'
import {hasLimitFeature} from '../../schema/peer-features.js'
import {gatherBuckets} from '../buckets/compare.js'
import {readOldBucket} from '../buckets/old-bucket.js'
import type {ClassifiedPage} from '../records/classified-page.js'
import {isOfType, readItems} from '../records/conditional.js'
import {type MigrationContext, mapConcurrently} from '../records/finding.js'
import {hasOldLimits} from '../records/limits.js'
import {type FoundBucket, type LimitlessBucket, limitsInBucket} from './tally.js'

interface FinderOptions {
  readonly oldBuckets?: boolean
  /** Limits that are not copied yet count as configured. */
  readonly oldLimits?: boolean
}

const MOST_REMEMBERED = 10_000

/** Finds buckets without limits at any level: their requests fail. Releases up to 0.6 kept limits only in buckets. */
export class LimitlessFinder {
  readonly #options: FinderOptions
  readonly #shared = new Set<string>()
  #active: Promise<ReadonlyMap<string, string>> | undefined

  constructor(options: FinderOptions = {}) {
    this.#options = options
  }

  async find(context: MigrationContext, page: ClassifiedPage): Promise<FoundBucket[]> {
    const all = [...currentBuckets(context, page), ...(this.#options.oldBuckets ? await oldBuckets(context, page) : [])]
    const noSystem = await this.#lacking(context, all, () => [{level: 'system'}])
    const noResource = await this.#lacking(context, noSystem, ({resource}) => [{level: 'resource', resource}])
    const found = await this.#lacking(context, noResource, ({entity, resource}) => [
      {level: 'entity', entity, resource},
      {level: 'entity', entity, resource: DEFAULT_RESOURCE},
    ])
    if (found.length === 0) return []
    // Nothing is configured for a deleted namespace.
    const active = await this.#activeNamespaces(context)
    return found.flatMap(bucket => {
      const namespaceName = active.get(bucket.namespace)
      return namespaceName === undefined ? [] : [{...bucket, namespaceName}]
    })
  }

  async #lacking(
    context: MigrationContext,
    buckets: readonly LimitlessBucket[],
    scopesOf: (bucket: LimitlessBucket) => readonly ConfigScope[],
  ): Promise<LimitlessBucket[]> {
    const keysOf = (bucket: LimitlessBucket) => scopesOf(bucket).map(scope => configKey(bucket.namespace, scope))
    const isKnown = (bucket: LimitlessBucket) => keysOf(bucket).some(key => this.#shared.has(keyId(key)))
    const open = buckets.filter(bucket => !isKnown(bucket))
    const wanted = new Map(open.filter(isRegistered).flatMap(bucket => keysOf(bucket).map(key => [keyId(key), key])))
    const items = wanted.size === 0 ? new Map<string, Item>() : await readItems(context, wanted.values())
    const lacking: LimitlessBucket[] = []
    for (const bucket of open) {
      const defining = keysOf(bucket).find(key => definesLimits(items.get(keyId(key))))
      if (!defining) lacking.push(bucket)
      else if (scopesOf(bucket).every(({level}) => level !== 'entity')) this.#remember(defining)
    }
    return this.#options.oldLimits ? this.#lackingOld(context, lacking, scopesOf) : lacking
  }

  async #lackingOld(
    context: MigrationContext,
    buckets: readonly LimitlessBucket[],
    scopesOf: (bucket: LimitlessBucket) => readonly ConfigScope[],
  ): Promise<LimitlessBucket[]> {
    const answers = new Map<string, Promise<boolean>>()
    const hasLimits = (namespace: string, scope: ConfigScope) => {
      const id = keyId(configKey(namespace, scope))
      const answer = answers.get(id) ?? hasOldLimits(context, namespace, scope)
      answers.set(id, answer)
      return answer
    }
    const found = await mapConcurrently(buckets, async ({namespace, ...bucket}) => {
      for (const scope of scopesOf({namespace, ...bucket})) {
        if (!(await hasLimits(namespace, scope))) continue
        if (scope.level !== 'entity') this.#remember(configKey(namespace, scope))
        return true
      }
      return false
    })
    return buckets.filter((_, at) => !found[at])
  }

  #remember(key: Key): void {
    if (this.#shared.size < MOST_REMEMBERED) this.#shared.add(keyId(key))
  }

  #activeNamespaces({table, signal, defaultNamespace}: MigrationContext): Promise<ReadonlyMap<string, string>> {
    this.#active ??= new Namespaces(signal ? untilAborted(table, signal) : table)
      .list()
      .then(active => new Map(active.map(({id, name}) => [id, name])))
    // The namespace `default` may be registered meanwhile, or will be.
    const later = [defaultNamespace ?? PLACEHOLDER_NAMESPACE, DEFAULT_NAMESPACE] as const
    return this.#active.then(names => new Map([...names, later]))
  }
}

const isRegistered = ({namespace}: LimitlessBucket): boolean => namespace !== PLACEHOLDER_NAMESPACE

/** Limits, readable or not, or a switch that refuses every request. */
export function definesLimits(item: Item | undefined): boolean {
  if (!item) return false
  if (limitAttributesIn(item).length > 0) return true
  const {access, unsupported} = decodeConfig(item, () => []) ?? {}
  return access === 'disabled' || hasLimitFeature(unsupported)
}

function currentBuckets({table}: MigrationContext, {all}: ClassifiedPage): LimitlessBucket[] {
  const nowSeconds = Math.floor(table.clock() / 1000)
  return all.flatMap(({item, record}): LimitlessBucket[] => {
    if (record.kind !== 'current' || record.type !== 'bucket') return []
    const stored = decodeBucket(item)
    if (stored?.kind !== 'bucket' || stored.record.shard > 0) return []
    const {namespace, entity, resource, ttlSeconds = Infinity, state} = stored.record
    if (ttlSeconds <= nowSeconds) return []
    return [{namespace, entity, resource, limits: limitsInBucket({entity, resource}, state.limits)}]
  })
}

async function oldBuckets(context: MigrationContext, {old}: ClassifiedPage): Promise<LimitlessBucket[]> {
  const gathered = await gatherBuckets(context, (old.get('bucket') ?? []).filter(isOfType('bucket')))
  const targetOf = ({namespace, entity, resource}: LimitlessBucket): Key => keys.bucket(namespace, entity, resource, 0)
  const buckets = gathered.flatMap(({namespace, entity, resource, sources}): LimitlessBucket[] => {
    const bucket = readOldBucket(sources, context.table.clock())
    if (bucket === 'expired' || bucket === 'unreadable' || bucket.limits.size === 0) return []
    const rates = [...bucket.limits].map(([name, {whole}]) => [name, whole] as const)
    return [{namespace, entity, resource, limits: limitsInBucket({entity, resource}, rates)}]
  })
  const copies = await readItems(context, buckets.filter(isRegistered).map(targetOf))
  return buckets.filter(bucket => {
    const copy = copies.get(keyId(targetOf(bucket)))
    return copy === undefined || decodeBucket(copy)?.kind !== 'bucket'
  })
}
