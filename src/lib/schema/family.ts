import {type Item, n, s} from './attribute-value.js'
import {attributes} from './attributes.js'
import {readNumber, readString} from './read.js'

const names = attributes.bucket

/** How often an entity was moved to another parent, within one creation of the entity. */
export interface ParentGeneration {
  /** Counts on from the instant of the creation, in epoch ms; from 0 where the client that created it does not count. */
  readonly moves: number
  /** Names the creation: counts of different creations do not compare. */
  readonly incarnation: string | undefined
}

export interface Family {
  /** Whether every request is charged to the parent too; never without one. */
  readonly cascade: boolean
  readonly parent: string | undefined
  /** The generation of the parent; absent where no client counts moves. */
  readonly parentGeneration?: ParentGeneration | undefined
}

interface FamilyMember extends Family {
  readonly createdAt: string
}

/** Stands for the creation of an entity that says nothing about it. */
const UNKNOWN_INCARNATION = '-'

/**
 * The family that the buckets of an entity have for a resource; `policy` is that of the configuration, before which the
 * entity's own setting does not count. An entity without a record has no parent.
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

/** Whether a bucket needs no other family; one of a later move is never replaced. */
export function isSameFamily(stored: Family, wanted: Family): boolean {
  if (isLaterGeneration(stored.parentGeneration, wanted.parentGeneration)) return true
  return stored.parent === wanted.parent && chargedParent(stored) === chargedParent(wanted)
}

/** Whether a bucket has its parent from a later move than the record of its entity that was read, or there is no record. */
function isLaterGeneration(stored: ParentGeneration | undefined, read: ParentGeneration | undefined): boolean {
  return stored !== undefined && (read === undefined || isOlderGeneration(read, stored))
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
