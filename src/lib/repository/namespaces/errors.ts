import {ZaelError} from '../../core/errors.js'
import type {NamespaceRecord} from '../../schema/namespace-record.js'

const label = ({name, id}: NamespaceRecord): string => `Namespace ${JSON.stringify(name)} (${id})`

export function namespaceMissing(nameOrId: string): ZaelError {
  return new ZaelError('notFound', 'namespace.missing', `Namespace ${JSON.stringify(nameOrId)} does not exist.`, {
    hint: 'Check the spelling, or register it.',
    details: {namespace: nameOrId},
  })
}

export function namespaceAmbiguous(
  name: string,
  active: NamespaceRecord | undefined,
  others: readonly NamespaceRecord[],
): ZaelError {
  const ids = others.map(({id}) => id)
  const list = [...(active ? [`${active.id} (active)`] : []), ...ids].join(', ')
  const message = `Several namespaces are or were called ${JSON.stringify(name)}: ${list}.`
  return new ZaelError('conflict', 'namespace.ambiguous', message, {
    hint: 'Use the id instead of the name.',
    details: {name, active: active?.id ?? null, ids},
  })
}

export function nameIsId(name: string): ZaelError {
  const reason = `${JSON.stringify(name)} is the id of another namespace, so it cannot be a name.`
  return new ZaelError('conflict', 'namespace.name-is-id', reason, {
    hint: 'Choose another name.',
    details: {name},
  })
}

const REMEDIES = {
  delete: 'Delete it first.',
  purge: 'Purge it to delete its data too.',
  'finish purge': 'Finish the purge.',
  recover: 'Recover it first.',
  none: 'Nothing to recover.',
} as const

export function namespaceState(record: NamespaceRecord, why: string, remedy: keyof typeof REMEDIES): ZaelError {
  const {id, name, status} = record
  return new ZaelError('conflict', 'namespace.state', `${label(record)} ${why}.`, {
    hint: REMEDIES[remedy],
    details: {id, name, status, remedy},
  })
}

/** Otherwise the next client to open the table would get a new, empty `default`, and orphan all data (C-5). */
export function namespaceProtected(record: NamespaceRecord): ZaelError {
  const why = 'cannot be deleted: clients use it by default'
  return new ZaelError('conflict', 'namespace.protected', `${label(record)} ${why}.`, {
    hint: 'Delete its entities and limits instead.',
    details: {id: record.id, name: record.name},
  })
}

export function namespaceNameTaken(record: NamespaceRecord, takenBy: string | undefined): ZaelError {
  const why = `cannot be recovered: its name now belongs to ${takenBy ?? 'another namespace'}`
  return new ZaelError('conflict', 'namespace.name-taken', `${label(record)} ${why}.`, {
    hint: 'Delete the namespace that now has the name, then recover this one.',
    details: {id: record.id, name: record.name, takenBy},
  })
}

export function namespaceChanged(record: NamespaceRecord, cause: unknown): ZaelError {
  const message = `Another client changed ${label(record)} meanwhile.`
  return new ZaelError('conflict', 'namespace.changed', message, {
    hint: 'Read it again, then try again.',
    details: {id: record.id, name: record.name},
    cause,
  })
}
