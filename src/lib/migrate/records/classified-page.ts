import {groupBy} from '../../core/group-by.js'
import type {Item} from '../../schema/attribute-value.js'
import {keyOf, partitionOf} from '../../schema/keys.js'
import type {MigrationContext, OldItem} from './finding.js'

export type ClassifiedPage = Readonly<ReturnType<typeof classifyPage>>

/** `isWhole`: whether `items` has all items of a partition. Default: unknown, so false. */
export function classifyPage(
  context: MigrationContext,
  items: Iterable<Item>,
  isWhole: (partition: string) => boolean = () => false,
) {
  const all = [...items].map(item => ({item, record: context.classify(item)}))
  const old = all.flatMap(({item, record}): OldItem[] =>
    record.kind === 'old' ? [{item, record, isPartitionOnPage: isWhole(partitionOf(keyOf(item)))}] : [],
  )
  return {
    all,
    old: groupBy(old, ({record}) => record.type),
    unknown: all.flatMap(({record}) => (record.kind === 'unknown' ? [record.key] : [])),
  }
}

/** The version record alone does not count as data. */
export function hasUnprefixed({old}: ClassifiedPage): boolean {
  const data = [...old.values()].flat().filter(({record}) => record.type !== 'version')
  return data.some(({record}) => record.namespace === undefined)
}
