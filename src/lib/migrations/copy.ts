import {type Item, s} from '../schema/attribute-value.js'
import {
  type CopyMark,
  decodeCopyMark,
  encodeCopyMark,
  MIGRATION_MARK,
  readMigrationMark,
} from '../schema/migration-marks.js'
import type {OldRecordType} from './classify.js'
import {contentOf, digest, putAbsent, replaceSeen, setMark} from './conditional.js'
import type {Finding, Stage} from './finding.js'

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
export function compareCopy(stage: Stage, {type, sources, copy, current, saysTheSame, create}: Copy): Finding {
  const markOf = (content: Item) => s(encodeCopyMark({source: digest(sources), copy: digest([content])}))
  const marked = {...copy, [MIGRATION_MARK]: markOf(copy)}
  if (!current) {
    const write = () => (create ? create(marked) : putAbsent(stage, marked))
    return {type, sources, state: 'behind', says: 'is not there yet', write}
  }
  const content = contentOf(current)
  const mark: CopyMark | undefined = decodeCopyMark(readMigrationMark(current))
  const isKnown = mark
    ? mark.source === digest(sources)
    : (saysTheSame?.(current) ?? digest([content]) === digest([copy]))
  if (isKnown) return {type, sources, state: 'same'}
  const follow = () => replaceSeen(stage, current, marked)
  if (mark?.copy === digest([content])) {
    return {type, sources, state: 'behind', says: 'was changed in the old place', write: follow}
  }
  const says = mark
    ? 'was changed in the old place and in the new one'
    : 'is in the new place already, with other content'
  const settle = {old: follow, new: () => setMark(stage, current, markOf(content))}
  return {type, sources, state: 'conflict', says, settle}
}
