import {ZaelError} from '../../core/errors.js'
import {formatCount, formatSpan} from '../../core/text/text.js'
import type {Namespaces, Registration} from '../../repository/namespaces/namespaces.js'
import type {Namespace} from '../../repository/namespaces/purge.js'
import type {CountsByKind, Removed} from '../../repository/table/kind-counter.js'
import {confirmByName} from '../output/confirm.js'
import {type KindCounts, kindCounts, kindLines} from '../output/kind-counts.js'
import type {Listing, ListingColumn} from '../output/listing.js'
import {withProgress} from '../output/progress.js'
import {factLines} from '../output/text-table.js'
import type {NamespaceJson, NamespaceOrphansResult, NamespacePurgeResult} from './results.js'

export function namespaceJson(namespace: Namespace): NamespaceJson {
  const {name, id, status, halfDeleted, createdAt, deletedAt, levels = 'parent'} = namespace
  return {name, id, status, halfDeleted, createdAt, deletedAt: deletedAt ?? null, levels}
}

export function orphanJson(namespace: Namespace): NamespaceOrphansResult['namespaces'][number] {
  return {...namespaceJson(namespace), registered: !namespace.isUnregistered}
}

export function namespaceTitle({name, id}: Pick<Namespace, 'name' | 'id'>): string {
  return name === '' ? `the unregistered namespace ${id}` : `namespace "${name}" (${id})`
}

export function createdLines(registrations: readonly Registration[]): string[] {
  return registrations.map(({namespace, created}) =>
    created ? `Created ${namespaceTitle(namespace)}` : `${capital(namespaceTitle(namespace))} already exists`,
  )
}

const COLUMNS = {
  name: {name: 'name', value: ({name}) => name},
  id: {name: 'id', fit: 'whole', value: ({id}) => id},
  status: {name: 'status', value: statusOf},
  created: {name: 'created', fit: 'spare', value: ({createdAt}) => createdAt},
  deleted: {name: 'deleted', fit: 'whole', value: ({deletedAt}) => deletedAt},
} as const satisfies Record<string, ListingColumn<Namespace>>

export function namespaceListing(rows: readonly Namespace[]): Listing<Namespace> {
  const {name, id, status, created} = COLUMNS
  return {rows, columns: [name, id, created, status], empty: 'No namespaces'}
}

export function orphanListing(rows: readonly Namespace[]): Listing<Namespace> {
  const {name, id, status, created, deleted} = COLUMNS
  const columns = [name, id, deleted, status, {...created, isExtra: true}]
  return {rows, columns, empty: 'No deleted namespaces'}
}

export function showLines(namespace: Namespace, counts: KindCounts | undefined): string[] {
  const facts = factLines(`Namespace "${namespace.name}"`, {
    id: namespace.id,
    status: statusOf(namespace),
    created: namespace.createdAt,
    deleted: namespace.deletedAt,
    charges: chargesText(namespace.levels),
  })
  return counts ? [...facts, '', 'Items in the index of the namespace:', ...countLines(counts)] : facts
}

const chargesText = (levels: Namespace['levels']): string =>
  levels === 'all' ? 'the entity and all parents, up to eight levels' : 'the entity and its direct parent'

export function namespaceSetLines(namespace: Namespace): string[] {
  return [
    `Requests in ${namespaceTitle(namespace)} charge ${chargesText(namespace.levels)}. Limiters follow within 30 seconds.`,
    ...(namespace.levels === 'all' ? ['Other clients, such as zae-limiter, still charge only the direct parent.'] : []),
  ]
}

export function namespaceDeletedLines(namespace: Namespace): string[] {
  return [
    `Deleted ${namespaceTitle(namespace)}; its data is kept`,
    '  its clients get an error within a minute',
    `  to recover it:        zael namespace recover ${namespace.id}`,
    `  to delete the data:   zael namespace purge ${namespace.id}`,
  ]
}

export function purgePlanLines(namespace: Namespace, counts: KindCounts): string[] {
  return [
    `Purging ${namespaceTitle(namespace)} would permanently delete:`,
    ...countLines(counts),
    'A purge reads the whole table once. Each deleted item costs one write in the',
    'table and one in each index that contains it.',
  ]
}

export function purgedLines(namespace: Namespace, counts: KindCounts): string[] {
  return [`Purged ${namespaceTitle(namespace)}. Deleted:`, ...countLines(counts)]
}

export function purgeJson({name, id}: Namespace, dryRun: boolean, byKind: CountsByKind): NamespacePurgeResult {
  return {name, id, dryRun, counts: kindCounts(byKind)}
}

function countLines(counts: KindCounts): string[] {
  return counts.total === 0 ? ['  nothing'] : kindLines(counts)
}

function statusOf({status, halfDeleted, isUnregistered}: Namespace): string {
  if (isUnregistered) return 'unregistered'
  return halfDeleted ? 'half deleted' : status
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}

export async function purgeWithProgress(
  namespaces: Namespaces,
  namespace: Namespace,
  consent: {readonly confirm?: string | undefined},
): Promise<Removed> {
  const label = namespace.name || namespace.id
  // May be a little low: an exact count would read the whole table.
  const {total} = kindCounts(await namespaces.countIndexed(namespace.id))
  const what = `This permanently deletes ${formatCount(total)} items of ${namespaceTitle(namespace)}`
  await confirmByName(what, label, {confirm: consent.confirm})

  let removed: Removed = {deleted: 0, byKind: {}}
  return withProgress(
    (line, signal) => {
      const onProgress = (sofar: Removed) => {
        removed = sofar
        line.bar(`Purging "${label}"`, sofar.deleted, total)
      }
      const onWait = (ms: number) => {
        const text = `Waiting ${formatSpan(ms)} until all clients have noticed the deletion`
        line.draw(columns => text.slice(0, columns - 1))
      }
      return namespaces.purge(namespace.id, {signal, onProgress, onWait})
    },
    () => purgeInterrupted(namespace, removed),
  )
}

export function purgeInterrupted(namespace: Namespace, {deleted, byKind}: Removed): ZaelError {
  const {id, name} = namespace
  const message = `Interrupted: at least ${formatCount(deleted)} items of ${namespaceTitle(namespace)} are deleted, the rest remains.`
  return new ZaelError('interrupted', 'namespace.purge-interrupted', message, {
    hint: `Run it again to continue: zael namespace purge ${id} --confirm ${name || id}`,
    details: {id, name, counts: kindCounts(byKind)},
  })
}
