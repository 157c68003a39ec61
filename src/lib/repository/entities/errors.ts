import {InvalidInput, ZaelError} from '../../core/errors.js'

const NAMED_CHILDREN = 5

export function entityMissing(entity: string): ZaelError {
  return new ZaelError('notFound', 'entity.missing', `There is no entity ${JSON.stringify(entity)}.`, {
    hint: 'Check the spelling, or create it.',
    details: {entity},
  })
}

export function entityExists(entity: string): ZaelError {
  return new ZaelError('conflict', 'entity.exists', `Entity ${JSON.stringify(entity)} exists already.`, {
    hint: 'Update it instead.',
    details: {entity},
  })
}

export function entityChanged(entity: string, expected: number, version: number): ZaelError {
  const reason = `Entity ${JSON.stringify(entity)} has version ${version}, not ${expected}: someone else changed it.`
  return new ZaelError('conflict', 'entity.version', reason, {
    hint: 'Read it again, then try again.',
    details: {entity, expected, version},
  })
}

export function parentMissing(entity: string, parent: string): ZaelError {
  const reason = `Entity ${JSON.stringify(entity)} cannot have the parent ${JSON.stringify(parent)}: it does not exist.`
  return new ZaelError('notFound', 'entity.parent-missing', reason, {
    hint: 'Create it first.',
    details: {entity, parent},
  })
}

export function selfParent(entity: string): InvalidInput {
  return new InvalidInput('entity.self-parent', `Entity ${JSON.stringify(entity)} cannot be its own parent.`, {
    details: {entity},
  })
}

/** `path` starts and ends with the same entity. */
export function parentCycle(entity: string, path: readonly string[]): ZaelError {
  const reason = `Entity ${JSON.stringify(entity)} cannot have that parent: the parents would form a cycle`
  return new ZaelError('conflict', 'entity.cycle', `${reason} (${path.join(' → ')}).`, {
    hint: 'Choose another parent, or remove the parent of one of them.',
    details: {entity, path},
  })
}

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

export function hasChildren(entity: string, children: readonly string[]): ZaelError {
  const more = children.length - NAMED_CHILDREN
  const names = children.slice(0, NAMED_CHILDREN).join(', ') + (more > 0 ? ` and ${more} more` : '')
  return new ZaelError(
    'conflict',
    'entity.has-children',
    `Entity ${JSON.stringify(entity)} is the parent of ${names}.`,
    {
      hint: 'Delete them first, or give them another parent.',
      details: {entity, children},
    },
  )
}
