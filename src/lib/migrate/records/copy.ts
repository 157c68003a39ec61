import {type Item, s} from '../../schema/attribute-value.js'
import {itemBytes, MAX_ITEM_BYTES} from '../../schema/item-size.js'
import {encodeCopyMark, MIGRATION_MARK} from '../../schema/migration-marks.js'
import type {OldRecordType} from './classify.js'
import {contentOf, digest, putAbsent, replaceSeen, setMark} from './conditional.js'
import type {MigrationContext, MigrationFinding, OldItem} from './finding.js'
import {copyMarkOf} from './marks.js'

interface RecordCopy {
  readonly type: OldRecordType
  readonly sources: readonly OldItem[]
  readonly copy: Item
  readonly current: Item | undefined
  /** Whether a new item that the migration did not write is equivalent; by default if all attributes are equal. */
  readonly isEquivalent?: (current: Item) => boolean
  /** Writes a first copy; by default a put where there is no item. */
  readonly create?: (marked: Item) => Promise<boolean>
}

/**
 * Compares a copy with the item in its place. The new item follows the old one until another client changes it; if both
 * were changed, it is a conflict that a person has to resolve.
 */
export function compareCopy(
  context: MigrationContext,
  {type, sources, copy, current, isEquivalent, create}: RecordCopy,
): MigrationFinding {
  const source = digest(sources.map(({item}) => item))
  const markOf = (content: Item) => s(encodeCopyMark({source, copy: digest([content])}))
  const marked = () => ({...copy, [MIGRATION_MARK]: markOf(copy)})
  const behind = (reason: string, write: (item: Item) => Promise<boolean>): MigrationFinding => {
    const item = marked()
    const bytes = itemBytes(item)
    // A copy has longer keys than the old item, and a mark.
    if (bytes <= MAX_ITEM_BYTES) {
      const firstCopy = current || create ? {} : {firstCopy: item}
      return {type, sources, state: 'behind', reason, ...firstCopy, write: () => write(item)}
    }
    const tooLarge = `cannot be moved: the copy would have ${bytes} bytes, and DynamoDB allows ${MAX_ITEM_BYTES}`
    return {type, sources, state: 'unmovable', reason: tooLarge}
  }
  if (!current) {
    const write = (item: Item) => (create ? create(item) : putAbsent(context, item))
    return {...behind('is not copied yet', write), isAbsent: true}
  }
  const content = contentOf(current)
  const mark = copyMarkOf(current)
  const isUpToDate = mark ? mark.source === source : (isEquivalent?.(current) ?? digest([content]) === digest([copy]))
  if (isUpToDate) return {type, sources, state: 'same'}
  const overwrite = (item: Item) => replaceSeen(context, current, item)
  if (mark?.copy === digest([content])) return behind('was changed in the old place', overwrite)
  const reason = mark
    ? 'was changed in the old place and in the new one'
    : 'exists in the new place already, with different content'
  const keep = {old: () => overwrite(marked()), new: () => setMark(context, current, markOf(content))}
  return {type, sources, state: 'conflict', reason, keep}
}
