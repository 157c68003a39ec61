import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import type {Table} from '../../repository/table/table.js'
import type {TransactItem} from '../../repository/table/transact.js'
import type {Item} from '../../schema/attribute-value.js'
import {keyId, keyOf, spellKey} from '../../schema/keys.js'
import {LITERAL_DEFAULT, PLACEHOLDER_NAMESPACE, partitionPrefix} from '../../schema/legacy-key.js'
import type {ClassifiedRecord, OldRecord, OldRecordType} from './classify.js'
import type {OldLocations, ScatteredKind} from './old-locations.js'

const CONCURRENT_COMPARISONS = 16

export interface MigrationContext {
  readonly table: Table
  readonly signal: AbortSignal | undefined
  /** Id of the namespace `default`, the target of everything without a namespace; `undefined` until it is registered. */
  readonly defaultNamespace: string | undefined
  readonly literalDefaultMoves: boolean
  /** Called once for each item read; the result stays with the item as an {@link OldItem}. */
  readonly classify: (item: Item) => ClassifiedRecord
  /** Where old items are, known after a pass over the whole table; without it they may be anywhere. */
  readonly locations?: OldLocations | undefined
}

export interface OldItem<T extends OldRecordType = OldRecordType> {
  readonly item: Item
  readonly record: OldRecord & {readonly type: T}
  readonly isPartitionOnPage?: boolean
}

/**
 * Decisions about ambiguous old items. `split`: a midnight usage record was split into hour and day; `kept as labelled`: it
 * could not be (D-11). `superseded`: of a bucket stored in several locations, the one used last counts.
 */
type MigrationDecision = 'split' | 'kept as labelled' | 'superseded'

/** How an old record compares with its copy. Several old items may become one record. */
export interface MigrationFinding {
  readonly type: OldRecordType
  readonly sources: readonly OldItem[]
  /**
   * `behind`: the copy has to be written; `expired`: the record need not be copied any more; `unknown`: its content cannot be
   * read, so it is left alone like an item of unknown shape; `unmovable`: the current layout cannot hold it.
   */
  readonly state: 'same' | 'behind' | 'conflict' | 'expired' | 'unknown' | 'unmovable'
  readonly reason?: string | undefined
  readonly decision?: MigrationDecision | undefined
  readonly isAbsent?: boolean
  readonly firstCopy?: Item
  /** Brings the copy up to date. `false`: another client changed an item meanwhile, so it has to be compared again. */
  readonly write?: () => Promise<boolean>
  /** Changes to the copy when the old items are deleted. */
  readonly onDelete?: readonly TransactItem[]
  readonly keep?: {readonly [side in 'old' | 'new']: () => Promise<boolean>}
}

/** Key of the first old item of a record, as `zael migrate resolve` accepts it. */
export const findingKey = ({sources}: Pick<MigrationFinding, 'sources'>): string =>
  spellKey(keyOf((sources[0] as OldItem).item))

/** Namespace of an old record in the current layout; the placeholder while `default` is not registered. */
export function targetNamespace(context: MigrationContext, {namespace}: Pick<OldRecord, 'namespace'>): string {
  const isDefault = namespace === undefined || (namespace === LITERAL_DEFAULT && context.literalDefaultMoves)
  return isDefault ? (context.defaultNamespace ?? PLACEHOLDER_NAMESPACE) : namespace
}

/** Prefixes of the partition keys that may hold old records of a kind that move to `namespace`; the newest one last. */
export function oldPrefixes(context: MigrationContext, kind: ScatteredKind, namespace: string): string[] {
  const own = partitionPrefix(namespace)
  if (namespace !== (context.defaultNamespace ?? PLACEHOLDER_NAMESPACE)) return [own]
  const literal = context.literalDefaultMoves ? [LITERAL_PREFIX] : []
  const all = ['', ...(namespace === PLACEHOLDER_NAMESPACE ? [] : [own]), ...literal]
  return all.filter(prefix => context.locations?.mayHold(kind, prefix) ?? true)
}

export const LITERAL_PREFIX = partitionPrefix(LITERAL_DEFAULT)

export function isSingleItem(context: MigrationContext, kind: ScatteredKind, namespace: string): boolean {
  return context.locations?.mayHaveParts(kind) === false && oldPrefixes(context, kind, namespace).length === 1
}

/** Tells which records start on a page. One that is spread over several pages is handled once, where its first item is. */
export function startsAmong(page: readonly OldItem[]): (sources: readonly OldItem[]) => boolean {
  const onPage = new Set(page.map(({item}) => keyId(keyOf(item))))
  return ([first]) => first !== undefined && onPage.has(keyId(keyOf(first.item)))
}

export async function mapConcurrently<T, R>(elements: readonly T[], work: (element: T) => Promise<R>): Promise<R[]> {
  const results = new Map<T, R>()
  await forEachConcurrently(chunksOf(elements, 1), CONCURRENT_COMPARISONS, async chunk => {
    for (const element of chunk) results.set(element, await work(element))
  })
  return elements.map(element => results.get(element) as R)
}
