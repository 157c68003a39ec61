import {InvalidInput, ZaelError} from '../errors.js'
import {keyOf} from '../repository/query.js'
import {getItem, type Table} from '../repository/table.js'
import type {Item, Key} from '../schema/attribute-value.js'
import {type Finding, type Stage, spellKey} from './finding.js'
import {lookAt, sortPage} from './reconcile.js'
import {openStage} from './stage.js'

/** Which of two records that differ is to be kept. */
export type Side = 'old' | 'new'

const ATTEMPTS = 5

/** Settles a conflict: `old` takes the place of the new record, with `new` the change of the old one is passed over. */
export async function resolveConflict(table: Table, spelled: string, keep: Side): Promise<{key: string; says: string}> {
  const stage = await openStage(table)
  const key = parseKey(spelled)
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const {settle, says = '', sources} = await conflictAt(stage, key)
    if (await settle[keep]()) return {key: spellKey(keyOf(sources[0] as Item)), says}
  }
  throw new ZaelError('conflict', 'migrate.contended', `Others keep changing ${spelled}; nothing was settled.`, {
    hint: 'Try again in a moment.',
  })
}

async function conflictAt(stage: Stage, key: Key): Promise<Finding & {settle: NonNullable<Finding['settle']>}> {
  const item = await getItem(stage.table, key)
  if (!item) throw missing(key, 'There is no such item.')
  const {old} = sortPage(stage, [item])
  for (const [type, found] of old) {
    for (const finding of await lookAt(stage, type, found)) {
      if (finding.state === 'conflict' && finding.settle) return {...finding, settle: finding.settle}
    }
  }
  throw missing(
    key,
    old.size === 0 ? 'It is not a record of an older layout.' : 'Old and new do not contradict each other.',
  )
}

function parseKey(spelled: string): Key {
  const space = spelled.indexOf(' ')
  if (space < 1) {
    throw new InvalidInput('migrate.key', `"${spelled}" is not a key: it has two parts with a space between them.`, {
      hint: "Copy it from `zael migrate verify`, in quotes: zael migrate resolve 'ENTITY#user-1 #META' --keep new",
    })
  }
  return {PK: spelled.slice(0, space), SK: spelled.slice(space + 1)}
}

function missing(key: Key, why: string): ZaelError {
  return new ZaelError('notFound', 'migrate.no-conflict', `No conflict at ${spellKey(key)}: ${why}`, {
    hint: '`zael migrate verify` lists the conflicts.',
    details: {key: spellKey(key)},
  })
}
