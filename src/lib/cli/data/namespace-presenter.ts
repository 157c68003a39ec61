import type {Registration} from '../../repository/namespaces/namespaces.js'
import type {Namespace} from '../../repository/namespaces/states.js'
import type {CountsByKind} from '../../repository/table/kind-counter.js'
import {factLines} from '../output/facts.js'
import type {Listing, ListingColumn} from '../output/listing.js'
import {type KindCounts, kindCounts, kindLines} from './kind-counts.js'

/** A namespace for programs. */
export function namespaceJson({name, id, status, halfDeleted, createdAt, deletedAt}: Namespace) {
  return {name, id, status, halfDeleted, createdAt, deletedAt: deletedAt ?? null}
}

/** How people call it. */
export function namespaceTitle({name, id}: Pick<Namespace, 'name' | 'id'>): string {
  return `namespace "${name}" (${id})`
}

/** Tells which names are new. */
export function createdLines(registrations: readonly Registration[]): string[] {
  return registrations.map(({namespace, created}) =>
    created ? `Created ${namespaceTitle(namespace)}` : `${capital(namespaceTitle(namespace))} existed already`,
  )
}

const COLUMNS = {
  name: {name: 'name', value: ({name}) => name},
  id: {name: 'id', fit: 'whole', value: ({id}) => id},
  status: {name: 'status', value: statusOf},
  created: {name: 'created', fit: 'spare', value: ({createdAt}) => createdAt},
  deleted: {name: 'deleted', fit: 'whole', value: ({deletedAt}) => deletedAt},
} as const satisfies Record<string, ListingColumn<Namespace>>

/** Active namespaces. */
export function namespaceListing(rows: readonly Namespace[]): Listing<Namespace> {
  const {name, id, status, created} = COLUMNS
  return {rows, columns: [name, id, created, status], empty: 'There are no namespaces'}
}

/** Namespaces without a name. */
export function orphanListing(rows: readonly Namespace[]): Listing<Namespace> {
  const {name, id, status, created, deleted} = COLUMNS
  const columns = [name, id, deleted, status, {...created, isExtra: true}]
  return {rows, columns, empty: 'There are no deleted namespaces'}
}

/** One namespace; with counts if they were asked for. */
export function showLines(namespace: Namespace, counts: KindCounts | undefined): string[] {
  const facts = factLines(`Namespace "${namespace.name}"`, {
    id: namespace.id,
    status: statusOf(namespace),
    created: namespace.createdAt,
    deleted: namespace.deletedAt,
  })
  return counts ? [...facts, '', 'Items, as the index over the namespace knows them:', ...countLines(counts)] : facts
}

/** What a deletion leaves, and how to take it back. */
export function namespaceDeletedLines(namespace: Namespace): string[] {
  return [
    `Deleted ${namespaceTitle(namespace)}; its data stays`,
    `  get it back:          zael namespace recover ${namespace.id}`,
    `  delete the data too:  zael namespace purge ${namespace.id}`,
  ]
}

/** What a purge would do. */
export function purgePlanLines(namespace: Namespace, counts: KindCounts): string[] {
  return [
    `A purge of ${namespaceTitle(namespace)} deletes these items for good:`,
    ...countLines(counts),
    'It reads the whole table once; every item costs a write, in the table and in',
    'each index that has it.',
  ]
}

/** What a purge did. */
export function purgedLines(namespace: Namespace, counts: KindCounts): string[] {
  return [`Purged ${namespaceTitle(namespace)}; deleted:`, ...countLines(counts)]
}

/** The result of a purge, done or planned, for programs. */
export function purgeJson({name, id}: Namespace, dryRun: boolean, byKind: CountsByKind) {
  return {name, id, dryRun, counts: kindCounts(byKind)}
}

function countLines(counts: KindCounts): string[] {
  return counts.total === 0 ? ['  nothing'] : kindLines(counts)
}

function statusOf({status, halfDeleted}: Namespace): string {
  return halfDeleted ? 'half deleted' : status
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}
