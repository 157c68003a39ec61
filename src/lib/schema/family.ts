import {type Item, n, readNumber, readString, s} from './attribute-value.js'
import {attributes} from './attributes.js'

const names = attributes.bucket

/** Counts moves of an entity to another parent, within one creation of the entity. */
export interface ParentGeneration {
  /** Starts at the creation instant (epoch ms), or at 0 if the creating client does not count. */
  readonly moves: number
  /** Identifies the creation. Counts of different creations cannot be compared. */
  readonly incarnation: string | undefined
}

export interface Family {
  readonly cascade: boolean
  readonly parent: string | undefined
  readonly parentGeneration?: ParentGeneration | undefined
}

interface FamilyMember extends Family {
  readonly createdAt: string
}

const UNKNOWN_INCARNATION = '-'

/**
 * `policy` comes from the configuration and overrides the entity's setting. An entity without a record has no parent.
 */
export function familyOf(entity: FamilyMember | undefined, policy: boolean | undefined): Family {
  if (!entity) return {cascade: false, parent: undefined}
  const {parent, cascade, createdAt, parentGeneration} = entity
  const moves = parentGeneration?.moves ?? 0
  const incarnation = parentGeneration?.incarnation ?? (createdAt || UNKNOWN_INCARNATION)
  return {
    cascade: parent !== undefined && (policy ?? cascade),
    parent,
    parentGeneration: {moves, incarnation},
  }
}

export function chargedParent(family: Family | undefined): string | undefined {
  return family?.cascade ? family.parent : undefined
}

/**
 * Also true if the stored family is of a later move, which is never replaced. Without a record, the wanted family has no
 * generation: `wanted` must be read after `stored`, or the entity may have been created in between.
 */
export function isSameFamily(stored: Family, wanted: Family): boolean {
  if (isOlderGeneration(wanted.parentGeneration, stored.parentGeneration)) return true
  return stored.parent === wanted.parent && chargedParent(stored) === chargedParent(wanted)
}

export function isOlderGeneration(one: ParentGeneration | undefined, other: ParentGeneration | undefined): boolean {
  return one !== undefined && other !== undefined && one.incarnation === other.incarnation && one.moves < other.moves
}

export function generationAttributes({moves, incarnation}: ParentGeneration): Item {
  const item: Item = {[names.parentGeneration]: n(moves)}
  if (incarnation !== undefined) item[names.parentIncarnation] = s(incarnation)
  return item
}

export function readGeneration(item: Item): ParentGeneration | undefined {
  const moves = readNumber(item, names.parentGeneration)
  const incarnation = readString(item, names.parentIncarnation)
  return moves === undefined && incarnation === undefined ? undefined : {moves: moves ?? 0, incarnation}
}
