import {batchGet, keyId} from '../../dynamo/batch.js'
import {keyOf} from '../../repository/table/query.js'
import {type Item, type Key, s} from '../../schema/attribute-value.js'
import {decodeEntity, encodeEntity} from '../../schema/entity-record.js'
import {keys} from '../../schema/keys.js'
import {modernise} from '../../schema/legacy/modernise.js'
import {readString} from '../../schema/read.js'
import {decodeVersion} from '../../schema/version-record.js'
import {isOldBucketExpired} from '../buckets/old-bucket.js'
import {isAccepted} from './accepted-version.js'
import {classifyItem, LITERAL_DEFAULT, targetKey} from './classify.js'
import {digest} from './conditional.js'
import {compareCopy} from './copy.js'
import {
  type Found,
  homeOf,
  LITERAL_PREFIX,
  type MigrationContext,
  type MigrationFinding,
  oldPrefixes,
} from './finding.js'

const PREFIXED = ['PK', 'GSI1PK', 'GSI2PK', 'GSI3PK'] as const

/** Of an entity: its parent's children, and all of its namespace. */
const INDEX_KEYS = ['GSI1PK', 'GSI1SK', 'GSI4PK', 'GSI4SK'] as const

/** Reads items of the table, all of one moment or later, by `keyId`. */
export function readItems({table, signal}: MigrationContext, wanted: Iterable<Key>): Promise<Map<string, Item>> {
  return batchGet(table.transport, table.name, wanted, {backoff: table.backoff, consistent: true, signal})
}

/** An old item as today's would be spelled in a namespace, wherever it lay before. */
export function spelledIn(home: string, item: Item): Item {
  const bare = {...item}
  for (const name of PREFIXED) {
    const value = readString(item, name)
    if (value?.startsWith(`${LITERAL_DEFAULT}/`)) bare[name] = s(value.slice(LITERAL_DEFAULT.length + 1))
  }
  return modernise(bare, home)
}

/** Entities. */
export async function lookAtEntities(
  stage: MigrationContext,
  found: readonly Found<'entity'>[],
): Promise<MigrationFinding[]> {
  const twins = await literalTwins(stage, found)
  const spell = (home: string, item: Item) => {
    const modern = spelledIn(home, item)
    const record = decodeEntity(modern)
    return record ? {...encodeEntity(record), ...modern} : modern
  }
  // Where there are two of one entity they are dealt with together, at the older one.
  const isFirst = ({item, record}: Found) => record.namespace === undefined || !twins.has(keyId(keyOf(item)))
  const twinOf = (item: Item) => twins.get(keyId(keyOf(item)))
  return lookAtCopies(stage, found.filter(isFirst), {spell, twinOf, saysTheSame: sameEntity})
}

/** Whether two items mean the same entity: what one of them leaves out may be what the other spells out. */
function sameEntity(current: Item, copy: Item): boolean {
  const [there, wanted] = [decodeEntity(current), decodeEntity(copy)].map(record => record && encodeEntity(record))
  if (!there || !wanted || digest([there]) !== digest([wanted])) return false
  // Without its index keys it would be found by its id only.
  return INDEX_KEYS.every(name => readString(current, name) === readString(wanted, name))
}

/** What the provisioner of the Python system remembers. */
export function lookAtSettings(
  stage: MigrationContext,
  found: readonly Found<'settings'>[],
): Promise<MigrationFinding[]> {
  return lookAtCopies(stage, found, {spell: spelledIn})
}

/** Audit events never change: one that is there is the same. */
export async function lookAtAudit(
  stage: MigrationContext,
  found: readonly Found<'audit'>[],
): Promise<MigrationFinding[]> {
  const nowMs = stage.table.clock()
  const alive = found.filter(({item}) => !isOldBucketExpired(item, nowMs))
  const expired = found.filter(({item}) => isOldBucketExpired(item, nowMs))
  const findings = await lookAtCopies(stage, alive, {spell: spelledIn, saysTheSame: () => true})
  return [
    ...findings,
    ...expired.map(({item}): MigrationFinding => ({type: 'audit', sources: [item], state: 'expired'})),
  ]
}

/** Registries are not copied: each configuration enters today's when it is written. */
export async function lookAtRegistries(
  _stage: MigrationContext,
  found: readonly Found<'registry'>[],
): Promise<MigrationFinding[]> {
  return found.map(({item}) => ({type: 'registry', sources: [item], state: 'same'}))
}

/** The old version record has had its day when there is one in the new place that current clients accept. */
export async function lookAtVersions(
  stage: MigrationContext,
  found: readonly Found<'version'>[],
): Promise<MigrationFinding[]> {
  if (found.length === 0) return []
  const item = (await readItems(stage, [keys.version()])).get(keyId(keys.version()))
  const state = isAccepted(item && decodeVersion(item)) ? 'same' : 'behind'
  return found.map(old => ({type: 'version', sources: [old.item], state, says: 'is not moved yet'}))
}

interface HowToCopy {
  readonly spell: (home: string, item: Item) => Item
  /** A newer old item of the same record, which counts instead. */
  readonly twinOf?: (item: Item) => Item | undefined
  readonly saysTheSame?: (current: Item, copy: Item) => boolean
}

async function lookAtCopies(
  stage: MigrationContext,
  found: readonly Found[],
  {spell, twinOf, saysTheSame}: HowToCopy,
): Promise<MigrationFinding[]> {
  const targets = found.map(({record}) => targetKey(record, homeOf(stage, record)))
  const current = await readItems(stage, targets)
  return found.map(({item, record}, at) => {
    const twin = twinOf?.(item)
    const origin = twin ?? item
    const copy = spell(homeOf(stage, record), origin)
    const there = current.get(keyId(targets[at] as Key))
    const same = saysTheSame && {saysTheSame: (item: Item) => saysTheSame(item, copy)}
    const finding = compareCopy(stage, {type: record.type, sources: [origin], copy, current: there, ...same})
    return {...finding, sources: twin ? [item, twin] : [item]}
  })
}

/** Entities without namespace that newer clients put under the literal id as well, and the other way round. */
async function literalTwins(stage: MigrationContext, found: readonly Found<'entity'>[]): Promise<Map<string, Item>> {
  const {literalDefaultMoves, defaultNamespace} = stage
  if (!literalDefaultMoves || defaultNamespace === undefined) return new Map()
  const prefixes = oldPrefixes(stage, 'entity', defaultNamespace)
  if (!prefixes.includes('') || !prefixes.includes(LITERAL_PREFIX)) return new Map()
  const ours = found.filter(({record}) => record.namespace === undefined || record.namespace === LITERAL_DEFAULT)
  const keyOfTwin = ({record: {namespace, entity}}: Found<'entity'>): Key => {
    const literal = keys.entity(LITERAL_DEFAULT, entity)
    return namespace === undefined ? literal : {...literal, PK: literal.PK.slice(LITERAL_DEFAULT.length + 1)}
  }
  const items = await readItems(stage, ours.map(keyOfTwin))
  const pairs = ours.flatMap(each => {
    const twin = items.get(keyId(keyOfTwin(each)))
    return twin && classifyItem(twin, stage).kind === 'old' ? [[keyId(keyOf(each.item)), twin] as const] : []
  })
  return new Map(pairs)
}
