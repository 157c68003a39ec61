import {forEachConcurrently} from '../../dynamo/concurrency.js'
import type {Table} from '../../repository/table/table.js'
import type {TransactItem} from '../../repository/table/transact.js'
import type {Item} from '../../schema/attribute-value.js'
import {keyId, keyOf, spellKey} from '../../schema/keys.js'
import {LITERAL_DEFAULT, PLACEHOLDER_NAMESPACE, partitionPrefix} from '../../schema/legacy-key.js'
import type {ClassifiedRecord, OldRecord, OldRecordType} from './classify.js'

const CONCURRENT_COMPARISONS = 16

export interface MigrationContext {
  readonly table: Table
  readonly signal: AbortSignal | undefined
  /** The id of `default`, the target of data without a namespace. `undefined`: not registered yet. */
  readonly defaultNamespace: string | undefined
  readonly literalDefaultMoves: boolean
  /** Called once per item read. {@link OldItem} keeps the result. */
  readonly classify: (item: Item) => ClassifiedRecord
  /** Known after a pass over the whole table. Without it, old items may be anywhere. */
  readonly locations?: OldLocations | undefined
}

export interface OldItem<T extends OldRecordType = OldRecordType> {
  readonly item: Item
  readonly record: OldRecord & {readonly type: T}
  readonly isPartitionOnPage?: boolean
}

/** Midnight usage: `split` into hour and day or `kept as labelled` (D-11). `superseded`: the bucket used last wins. */
type MigrationDecision = 'split' | 'kept as labelled' | 'superseded'

/** Several old items may become one record. */
export interface MigrationFinding {
  readonly type: OldRecordType
  readonly sources: readonly OldItem[]
  /** `behind`: needs a write. `expired`: not copied. `unknown`: unreadable, skipped. `unmovable`: does not fit. */
  readonly state: 'same' | 'behind' | 'conflict' | 'expired' | 'unknown' | 'unmovable'
  readonly reason?: string | undefined
  readonly decision?: MigrationDecision | undefined
  readonly isAbsent?: boolean
  readonly firstCopy?: Item
  /** `false`: another client changed an item meanwhile, so compare again. */
  readonly write?: () => Promise<boolean>
  /** Changes to the copy when the old items are deleted. */
  readonly onDelete?: readonly TransactItem[]
  readonly keep?: {readonly [side in 'old' | 'new']: () => Promise<boolean>}
}

export type Compare<T extends OldRecordType = OldRecordType> = (
  context: MigrationContext,
  items: readonly OldItem<T>[],
) => Promise<MigrationFinding[]>

/** As `zael migrate resolve` accepts it. */
export const findingKey = ({sources}: Pick<MigrationFinding, 'sources'>): string =>
  spellKey(keyOf((sources[0] as OldItem).item))

export function targetNamespace(context: MigrationContext, {namespace}: Pick<OldRecord, 'namespace'>): string {
  const isDefault = namespace === undefined || (namespace === LITERAL_DEFAULT && context.literalDefaultMoves)
  return isDefault ? (context.defaultNamespace ?? PLACEHOLDER_NAMESPACE) : namespace
}

/** Partition key prefixes that may hold old records of a kind, newest last. */
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

/** A record that spans pages is handled once, on the page of its first item. */
export function startsAmong(page: readonly OldItem[]): (sources: readonly OldItem[]) => boolean {
  const onPage = new Set(page.map(({item}) => keyId(keyOf(item))))
  return ([first]) => first !== undefined && onPage.has(keyId(keyOf(first.item)))
}

export async function mapConcurrently<T, R>(elements: readonly T[], work: (element: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  await forEachConcurrently(elements.entries(), CONCURRENT_COMPARISONS, async ([at, element]) => {
    results[at] = await work(element)
  })
  return results
}

/** Kinds whose old items may be in several locations. `limits` includes settings. */
export type ScatteredKind = 'entity' | 'limits' | 'bucket'

/** After a pass over the whole table only known locations are queried. Querying all would cost more than a pass. */
export class OldLocations {
  readonly #prefixes = new Set<string>()
  readonly #kindsWithParts = new Set<ScatteredKind>()
  #isComplete = false
  #lateDiscoveries = 0

  /** Must be called before the record is compared. Only `default` has several spellings. */
  add(record: OldRecord, isInDefault: boolean): void {
    const kind = scatteredKindOf(record)
    if (!kind) return
    const entry = entryOf(kind, partitionPrefix(record.namespace))
    if (isInDefault && !this.#prefixes.has(entry)) {
      this.#prefixes.add(entry)
      this.#discovered()
    }
    if (isPart(record) && !this.#kindsWithParts.has(kind)) {
      this.#kindsWithParts.add(kind)
      this.#discovered()
    }
  }

  markComplete(): void {
    this.#isComplete = true
  }

  /** Items classified as current may be old from now on. */
  markIncomplete(): void {
    this.#isComplete = false
  }

  /** Found after `markComplete`. They require another pass. */
  get lateDiscoveries(): number {
    return this.#lateDiscoveries
  }

  mayHold(kind: ScatteredKind, prefix: string): boolean {
    return !this.#isComplete || this.#prefixes.has(entryOf(kind, prefix))
  }

  mayHaveParts(kind: ScatteredKind): boolean {
    return !this.#isComplete || this.#kindsWithParts.has(kind)
  }

  #discovered(): void {
    if (this.#isComplete) this.#lateDiscoveries++
  }
}

const entryOf = (kind: ScatteredKind, prefix: string): string => `${kind} ${prefix}`

function scatteredKindOf({type}: OldRecord): ScatteredKind | undefined {
  if (type === 'entity' || type === 'limits' || type === 'bucket') return type
  return type === 'settings' ? 'limits' : undefined
}

function isPart(record: OldRecord): boolean {
  if (record.type === 'limits') return record.limit !== undefined
  return record.type === 'bucket' && (record.limit !== undefined || record.shard !== undefined)
}
