import {InvalidInput, ZaelError} from '../core/errors.js'
import {keyId} from '../dynamo/batch.js'
import {keyOf} from '../repository/table/query.js'
import type {Table} from '../repository/table/table.js'
import type {Item, Key} from '../schema/attribute-value.js'
import {companionsOf} from './companions.js'
import {openLimiterTable} from './limiter-table.js'
import {readItems} from './records/copied-records.js'
import {type MigrationContext, type MigrationFinding, spellKey} from './records/finding.js'
import {compareGroup, lookAgain, sortPage} from './walk/reconcile.js'

/** Which of two records that differ is to be kept. */
export type Side = 'old' | 'new'

export interface ResolveConflictOptions {
  readonly ourVersion: string
  readonly signal?: AbortSignal | undefined
}

/** A record that was changed in both places. */
export type MigrationConflict = MigrationFinding & {readonly settle: NonNullable<MigrationFinding['settle']>}

const ATTEMPTS = 5

/** Settles a conflict: `old` takes the place of the new record, with `new` the change of the old one is passed over. */
export async function resolveConflict(
  table: Table,
  spelled: string,
  keep: Side,
  {ourVersion, signal}: ResolveConflictOptions,
): Promise<{key: string; says: string}> {
  const stage = await openLimiterTable(table, {ourVersion, signal})
  const conflict = await conflictAt(stage, spelled)
  if (await settleConflict(stage, conflict, keep)) return {key: keyOfConflict(conflict), says: conflict.says ?? ''}
  throw new ZaelError('conflict', 'migrate.contended', `Others keep changing ${spelled}; nothing was settled.`, {
    hint: 'Try again in a moment.',
  })
}

/** As lists of conflicts show it. */
export const keyOfConflict = ({sources}: MigrationFinding): string => spellKey(keyOf(sources[0] as Item))

/** Whether it is settled now, by whomever; `false` when others keep changing it. */
export async function settleConflict(stage: MigrationContext, first: MigrationConflict, keep: Side): Promise<boolean> {
  let conflict: MigrationFinding | undefined = first
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (!isConflict(conflict)) return true
    if (await conflict.settle[keep]()) return true
    conflict = await lookAgain(stage, conflict)
  }
  return false
}

export const isConflict = (finding: MigrationFinding | undefined): finding is MigrationConflict =>
  finding?.state === 'conflict' && finding.settle !== undefined

async function conflictAt(stage: MigrationContext, spelled: string): Promise<MigrationConflict> {
  const items = [...(await readItems(stage, parseKey(spelled))).values()]
  if (items.length === 0) throw missing(spelled, 'There is no such item.')
  const named = [...sortPage(stage, items).old.values()].flat()
  if (named.length === 0) throw missing(spelled, 'It is not a record of an older layout.')
  for (const one of named) {
    // Any item of a record that has several stands for it.
    const isPart = ({sources}: MigrationFinding) =>
      sources.some(source => keyId(keyOf(source)) === keyId(keyOf(one.item)))
    for (const [type, found] of sortPage(stage, await companionsOf(stage, one)).old) {
      const conflict = (await compareGroup(stage, type, found)).filter(isConflict).find(isPart)
      if (conflict) return conflict
    }
  }
  throw missing(spelled, 'Old and new do not contradict each other.')
}

/** A sort key begins with `#`; names may hold a space, so there may be several places where it could begin. */
function parseKey(spelled: string): Key[] {
  const candidates = [...spelled.matchAll(/ (?=#)/g)]
    .filter(({index}) => index > 0)
    .map(({index}) => ({PK: spelled.slice(0, index), SK: spelled.slice(index + 1)}))
  if (candidates.length === 0) {
    throw new InvalidInput(
      'migrate.key',
      `"${spelled}" is not a key: it has two parts, and the second begins with #.`,
      {
        hint: "Copy it from `zael migrate verify`, in quotes: zael migrate resolve 'ENTITY#user-1 #META' --keep new",
      },
    )
  }
  return candidates
}

function missing(spelled: string, why: string): ZaelError {
  return new ZaelError('notFound', 'migrate.no-conflict', `No conflict at ${spelled}: ${why}`, {
    hint: '`zael migrate verify --all` lists the conflicts.',
    details: {key: spelled},
  })
}
