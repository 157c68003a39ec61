import {keyId} from '../../dynamo/batch.js'
import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import {keyOf} from '../../repository/table/query.js'
import type {Table} from '../../repository/table/table.js'
import type {TransactItem} from '../../repository/table/transact.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {LITERAL_DEFAULT, type OldRecord, type OldRecordType} from './classify.js'
import type {OldPlaces, ScatteredKind} from './old-places.js'

/** Records that are looked at side by side. */
const CONCURRENT_LOOKS = 16

/** What every look at the table needs to know. */
export interface MigrationContext {
  readonly table: Table
  readonly signal: AbortSignal | undefined
  /** Id of the namespace `default`, where everything without a namespace belongs; `undefined` until it is registered. */
  readonly defaultNamespace: string | undefined
  /** Whether what lies under the literal id `default` belongs there too. */
  readonly literalDefaultMoves: boolean
  /** Where old items lie, for somebody who may have gone through the whole table before; without it, anywhere. */
  readonly places?: OldPlaces | undefined
}

/** An old item and what it is. */
export interface Found<T extends OldRecordType = OldRecordType> {
  readonly item: Item
  readonly record: OldRecord & {readonly type: T}
}

/**
 * What was decided about old items that do not say enough: a midnight record of usage was taken apart or kept as it
 * labels itself (D-11); of a bucket that lies in several places the one used last counts.
 */
export type MigrationDecision = 'untangled' | 'kept as labelled' | 'superseded'

/** How an old record, or several that become one, compares with what there is in the new place. */
export interface MigrationFinding {
  readonly type: OldRecordType
  /** The old items, as they were seen. */
  readonly sources: readonly Item[]
  /**
   * `behind`: the new item has to be written; `expired`: nothing has to be moved any more; `unknown`: what it holds cannot
   * be read, so it is left alone like an item of no known shape; `unmovable`: today's layout cannot hold it.
   */
  readonly state: 'same' | 'behind' | 'conflict' | 'expired' | 'unknown' | 'unmovable'
  /** What differs, for people. */
  readonly says?: string | undefined
  readonly decision?: MigrationDecision | undefined
  /** Whether nothing of it is in the new place. */
  readonly isAbsent?: boolean
  /** Brings the new place up to date. `false`: somebody came in between, so it has to be looked at again. */
  readonly write?: () => Promise<boolean>
  /** What becomes of the new items when the old ones are deleted. */
  readonly onDelete?: readonly TransactItem[]
  /** What a conflict could be settled with. */
  readonly settle?: {readonly [side in 'old' | 'new']: () => Promise<boolean>}
}

/** Stands for a namespace that is not registered yet: nothing lies there, and nothing may be put there. */
export const NOWHERE = '?'

/** The namespace in which an old record belongs today. */
export function homeOf(stage: MigrationContext, {namespace}: Pick<OldRecord, 'namespace'>): string {
  const isDefault = namespace === undefined || (namespace === LITERAL_DEFAULT && stage.literalDefaultMoves)
  return isDefault ? (stage.defaultNamespace ?? NOWHERE) : namespace
}

/** What the partition keys begin with that may hold old records of a kind and namespace; the newest spelling last. */
export function oldPrefixes(stage: MigrationContext, kind: ScatteredKind, home: string): string[] {
  if (home !== (stage.defaultNamespace ?? NOWHERE)) return [`${home}/`]
  const literal = stage.literalDefaultMoves ? [LITERAL_PREFIX] : []
  const all = ['', ...(home === NOWHERE ? [] : [`${home}/`]), ...literal]
  return all.filter(prefix => stage.places?.mayHold(kind, prefix) ?? true)
}

export const LITERAL_PREFIX = `${LITERAL_DEFAULT}/`

/** Whether every old record of that kind and namespace is known to be one item, the one that was found. */
export function isOneItem(stage: MigrationContext, kind: ScatteredKind, home: string): boolean {
  return stage.places?.mayBeParted(kind) === false && oldPrefixes(stage, kind, home).length === 1
}

/** Whether old items that belong together begin among those found: so they are dealt with once, on whatever page. */
export function beginningIn(found: readonly Found[]): (sources: readonly Item[]) => boolean {
  const known = new Set(found.map(({item}) => keyId(keyOf(item))))
  return ([first]) => first !== undefined && known.has(keyId(keyOf(first)))
}

/** What becomes of each element, several at a time, in the order given. */
export async function eachOf<T, R>(elements: readonly T[], work: (element: T) => Promise<R>): Promise<R[]> {
  const results = new Map<T, R>()
  await forEachConcurrently(chunksOf(elements, 1), CONCURRENT_LOOKS, async chunk => {
    for (const element of chunk) results.set(element, await work(element))
  })
  return elements.map(element => results.get(element) as R)
}

/** A key for people, and for `zael migrate resolve`. */
export const spellKey = ({PK, SK}: Key): string => `${PK} ${SK}`
