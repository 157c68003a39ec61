import {InvalidInput, ZaelError} from '../../core/errors.js'

// Enough to recognise them by.
const NAMED_CHILDREN = 5

/** No record of the entity, and nothing else of it either. */
export function entityMissing(entity: string): ZaelError {
  return new ZaelError('notFound', 'entity.missing', `There is no entity ${JSON.stringify(entity)}.`, {
    hint: 'See `zael entity list`.',
    details: {entity},
  })
}

/** The id is in use. */
export function entityExists(entity: string): ZaelError {
  return new ZaelError('conflict', 'entity.exists', `Entity ${JSON.stringify(entity)} exists already.`, {
    hint: `Change it with \`zael entity update ${entity}\`.`,
    details: {entity},
  })
}

/** The entity is not in the version that was to be changed; nothing was written. */
export function entityChanged(entity: string, expected: number, version: number): ZaelError {
  const said = `Entity ${JSON.stringify(entity)} has version ${version}, not ${expected}: someone else changed it`
  return new ZaelError('conflict', 'entity.version', `${said}.`, {
    hint: `Look at it with \`zael entity show ${entity}\`, then decide anew.`,
    details: {entity, expected, version},
  })
}

/** Without the record of the parent nobody could tell that it is one. */
export function parentMissing(entity: string, parent: string): ZaelError {
  const said = `Entity ${JSON.stringify(entity)} cannot have the parent ${JSON.stringify(parent)}: it does not exist.`
  return new ZaelError('notFound', 'entity.parent-missing', said, {
    hint: `Create it first with \`zael entity create ${parent}\`.`,
    details: {entity, parent},
  })
}

/** An entity cannot be charged for itself. */
export function selfParent(entity: string): InvalidInput {
  return new InvalidInput('entity.self-parent', `Entity ${JSON.stringify(entity)} cannot be its own parent.`, {
    details: {entity},
  })
}

/** Going up from the parent leads in a circle; `path` starts and ends with the same entity. */
export function parentCycle(entity: string, path: readonly string[]): ZaelError {
  const said = `Entity ${JSON.stringify(entity)} cannot have that parent: the parents would form a circle`
  return new ZaelError('conflict', 'entity.cycle', `${said} (${path.join(' → ')}).`, {
    hint: 'Choose another parent, or take the parent away from one of them.',
    details: {entity, path},
  })
}

/** More levels than anyone means to have. */
export function tooDeep(entity: string, levels: number): ZaelError {
  return new ZaelError(
    'conflict',
    'entity.too-deep',
    `${JSON.stringify(entity)} would have over ${levels} ancestors.`,
    {
      hint: 'Only the parent itself is ever charged; give the entity a parent closer to the top.',
      details: {entity, levels},
    },
  )
}

/** Children would be left with a parent that does not exist. */
export function hasChildren(entity: string, children: readonly string[]): ZaelError {
  const more = children.length - NAMED_CHILDREN
  const names = children.slice(0, NAMED_CHILDREN).join(', ') + (more > 0 ? ` and ${more} more` : '')
  return new ZaelError(
    'conflict',
    'entity.has-children',
    `Entity ${JSON.stringify(entity)} is the parent of ${names}.`,
    {
      hint: 'Delete them first, or give them another parent with `zael entity update`.',
      details: {entity, children},
    },
  )
}
