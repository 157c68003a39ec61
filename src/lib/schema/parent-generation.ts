import {type Item, n, s} from './attribute-value.js'
import {attributes} from './attributes.js'
import {readNumber, readString} from './read.js'

const names = attributes.bucket

/** How often an entity was moved to another parent, within one creation of the entity. */
export interface ParentGeneration {
  readonly moves: number
  readonly incarnation: string | undefined
}

/** The generation of parent and cascade as attributes. */
export function generationAttributes({moves, incarnation}: ParentGeneration): Item {
  const item: Item = {[names.parentGeneration]: n(moves)}
  if (incarnation !== undefined) item[names.parentIncarnation] = s(incarnation)
  return item
}

/** The generation in a bucket or in the record of an entity. */
export function readGeneration(item: Item): ParentGeneration | undefined {
  const moves = readNumber(item, names.parentGeneration)
  return moves === undefined ? undefined : {moves, incarnation: readString(item, names.parentIncarnation)}
}

/** Whether a bucket has its parent from a later move than the record of its entity that was read. */
export function isLaterGeneration(stored: ParentGeneration | undefined, read: ParentGeneration | undefined): boolean {
  if (!stored || stored.moves <= (read?.moves ?? 0)) return false
  return !read || stored.incarnation === read.incarnation
}
