import {type Item, s} from '../../schema/attribute-value.js'
import {itemBytes} from '../../schema/item-size.js'
import {
  type CopyMark,
  decodeCopyMark,
  encodeCopyMark,
  MIGRATION_MARK,
  readMigrationMark,
} from '../../schema/migration-marks.js'
import type {OldRecordType} from './classify.js'
import {contentOf, digest, putAbsent, replaceSeen, setMark} from './conditional.js'
import type {MigrationContext, MigrationFinding} from './finding.js'

/** What DynamoDB takes; a copy has longer keys than the old item, and a mark. */
const MAX_ITEM_BYTES = 400 * 1024

/** A record that is copied as a whole. */
export interface Copy {
  readonly type: OldRecordType
  /** The old items it is made of. */
  readonly sources: readonly Item[]
  /** The new item as it should be. */
  readonly copy: Item
  /** The new item as it is. */
  readonly current: Item | undefined
  /** Whether an item that somebody else wrote says the same; by default when all attributes agree. */
  readonly saysTheSame?: (current: Item) => boolean
  /** How a first copy is written; by default where there is no item. */
  readonly create?: (marked: Item) => Promise<boolean>
}

/**
 * Compares a copy with what there is. The new item follows the old one for as long as nobody else has changed it; when
 * both were changed, somebody has to choose.
 */
export function compareCopy(
  stage: MigrationContext,
  {type, sources, copy, current, saysTheSame, create}: Copy,
): MigrationFinding {
  const markOf = (content: Item) => s(encodeCopyMark({source: digest(sources), copy: digest([content])}))
  const marked = {...copy, [MIGRATION_MARK]: markOf(copy)}
  const behind = (says: string, write: () => Promise<boolean>): MigrationFinding => {
    const bytes = itemBytes(marked)
    if (bytes <= MAX_ITEM_BYTES) return {type, sources, state: 'behind', says, write}
    const tooLarge = `cannot be moved: it would have ${bytes} bytes, and DynamoDB takes ${MAX_ITEM_BYTES}`
    return {type, sources, state: 'unmovable', says: tooLarge}
  }
  if (!current) {
    const write = () => (create ? create(marked) : putAbsent(stage, marked))
    return {...behind('is not there yet', write), isAbsent: true}
  }
  const content = contentOf(current)
  const mark: CopyMark | undefined = decodeCopyMark(readMigrationMark(current))
  const isKnown = mark
    ? mark.source === digest(sources)
    : (saysTheSame?.(current) ?? digest([content]) === digest([copy]))
  if (isKnown) return {type, sources, state: 'same'}
  const follow = () => replaceSeen(stage, current, marked)
  if (mark?.copy === digest([content])) return behind('was changed in the old place', follow)
  const says = mark
    ? 'was changed in the old place and in the new one'
    : 'is in the new place already, with other content'
  const settle = {old: follow, new: () => setMark(stage, current, markOf(content))}
  return {type, sources, state: 'conflict', says, settle}
}
