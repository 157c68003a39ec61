import {InvalidInput, ZaelError} from '../core/errors.js'
import {groupBy} from '../core/group-by.js'
import type {Table} from '../repository/table/table.js'
import type {Key} from '../schema/attribute-value.js'
import {keyId, keyOf, parseSpelledKey, partitionOf, spellKey} from '../schema/keys.js'
import {legacyKeys, legacySortKeys, withPrefix} from '../schema/legacy-key.js'
import {openLimiterTable} from './limiter-table.js'
import {classifyPage} from './records/classified-page.js'
import {oldItemOf, queryOldItems, readItems} from './records/conditional.js'
import {
  findingKey,
  type MigrationContext,
  type MigrationFinding,
  type OldItem,
  oldPrefixes,
  targetNamespace,
} from './records/finding.js'
import {compareAgain, compareGroup} from './walk/reconcile.js'
import {MigrationReport, type RecordDifference, type Sample} from './walk/report.js'
import {tablePages} from './walk/scan.js'

export type Side = 'old' | 'new'

export interface ResolveConflictOptions {
  readonly ourVersion: string
  readonly signal?: AbortSignal | undefined
}

export type MigrationConflict = MigrationFinding & {readonly keep: NonNullable<MigrationFinding['keep']>}

const ATTEMPTS = 5

/** `old` replaces the new record. `new` ignores the change of the old record. */
export async function resolveConflict(
  table: Table,
  spelled: string,
  keep: Side,
  {ourVersion, signal}: ResolveConflictOptions,
): Promise<{key: string; reason: string}> {
  const context = await openLimiterTable(table, {ourVersion, signal})
  const conflict = await findConflict(context, spelled)
  if (await keepSide(context, conflict, keep)) return {key: findingKey(conflict), reason: conflict.reason ?? ''}
  const message = `Other clients keep changing ${spelled}; the conflict is not resolved.`
  throw new ZaelError('conflict', 'migrate.contended', message, {hint: 'Try again in a moment.'})
}

/** True: resolved, by this call or by another client. False: other clients keep changing the record. */
async function keepSide(context: MigrationContext, first: MigrationConflict, side: Side): Promise<boolean> {
  let conflict: MigrationFinding | undefined = first
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (!isConflict(conflict)) return true
    if (await conflict.keep[side]()) return true
    conflict = await compareAgain(context, conflict)
  }
  return false
}

const isConflict = (finding: MigrationFinding | undefined): finding is MigrationConflict =>
  finding?.state === 'conflict' && finding.keep !== undefined

async function findConflict(context: MigrationContext, spelled: string): Promise<MigrationConflict> {
  const items = [...(await readItems(context, parseKey(spelled))).values()]
  if (items.length === 0) throw noConflict(spelled, 'The item does not exist.')
  const named = items.flatMap(item => oldItemOf(context, item) ?? [])
  if (named.length === 0) throw noConflict(spelled, 'It is not a record of an older layout.')
  for (const one of named) {
    // Any item of a record can name it.
    const isSource = ({item}: OldItem) => keyId(keyOf(item)) === keyId(keyOf(one.item))
    const related = groupBy(await readRelated(context, one), ({record}) => record.type)
    for (const [type, old] of related) {
      const conflicts = (await compareGroup(context, type, old)).filter(isConflict)
      const conflict = conflicts.find(({sources}) => sources.some(isSource))
      if (conflict) return conflict
    }
  }
  throw noConflict(spelled, 'The old and the new record do not conflict.')
}

/** Includes items of its partition and under other namespace prefixes. */
async function readRelated(context: MigrationContext, old: OldItem): Promise<OldItem[]> {
  const {type} = old.record
  if (type !== 'entity' && type !== 'limits' && type !== 'settings') return [old]
  const found = new Map([[keyId(keyOf(old.item)), old]])
  const kind = type === 'entity' ? 'entity' : 'limits'
  for (const prefix of oldPrefixes(context, kind, targetNamespace(context, old.record))) {
    for (const sortKey of legacySortKeys.ofRecord[type]) {
      const stretch = {partition: withPrefix(prefix, partitionOf(keyOf(old.item))), prefix: sortKey}
      for await (const each of queryOldItems(context, stretch)) found.set(keyId(keyOf(each.item)), each)
    }
  }
  return [...found.values()]
}

function parseKey(spelled: string): Key[] {
  const candidates = parseSpelledKey(spelled)
  if (candidates.length > 0) return candidates
  const example = spellKey(legacyKeys.entity('', 'user-1'))
  const message = `"${spelled}" is not a key. A key has two parts, and the second begins with #.`
  throw new InvalidInput('migrate.key', message, {
    hint: `Copy the key from \`zael migrate verify\`, in quotes: zael migrate resolve '${example}' --keep new`,
  })
}

function noConflict(spelled: string, why: string): ZaelError {
  return new ZaelError('notFound', 'migrate.no-conflict', `No conflict at ${spelled}: ${why}`, {
    hint: 'List the conflicts: `zael migrate verify --all`.',
    details: {key: spelled},
  })
}

export interface ResolveAllOptions extends ResolveConflictOptions {
  readonly confirm: (conflicts: Sample<RecordDifference>) => Promise<void>
  readonly onProgress?: ((conflicts: number) => void) | undefined
}

export interface ResolveAllResult {
  readonly settled: number
  /** Other clients kept changing these records. */
  readonly left: Sample<RecordDifference>
}

export async function resolveAll(table: Table, side: Side, options: ResolveAllOptions): Promise<ResolveAllResult> {
  const context = await openLimiterTable(table, options)
  const found = new MigrationReport()
  for await (const conflicts of conflictsByPage(context)) {
    for (const conflict of conflicts) found.addFinding(conflict)
    options.onProgress?.(found.differences.count)
  }
  if (found.differences.count === 0) return {settled: 0, left: found.differences}
  await options.confirm(found.differences)
  const left = new MigrationReport()
  let settled = 0
  for await (const conflicts of conflictsByPage(context)) {
    for (const conflict of conflicts) {
      if (await keepSide(context, conflict, side)) settled++
      else left.addFinding(conflict)
    }
    options.onProgress?.(settled)
  }
  return {settled, left: left.differences}
}

async function* conflictsByPage(context: MigrationContext): AsyncGenerator<MigrationConflict[]> {
  for await (const {items} of tablePages(context)) {
    const conflicts: MigrationConflict[] = []
    for (const [type, old] of classifyPage(context, items).old) {
      conflicts.push(...(await compareGroup(context, type, old)).filter(isConflict))
    }
    yield conflicts
  }
}
