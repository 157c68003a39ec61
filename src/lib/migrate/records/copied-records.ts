import {incompatibility} from '../../repository/table/version-compatibility.js'
import {type Item, type Key, readString, s} from '../../schema/attribute-value.js'
import {decodeEntity, ENTITY_INDEX_KEYS, encodeEntity} from '../../schema/entity-record.js'
import {itemBytes, MAX_ITEM_BYTES} from '../../schema/item-size.js'
import {keyId, keyOf, keys} from '../../schema/keys.js'
import {isExpiredItem, moderniseInto} from '../../schema/legacy-item.js'
import {LITERAL_DEFAULT, legacyKeys} from '../../schema/legacy-key.js'
import {encodeCopyMark, MIGRATION_MARK} from '../../schema/migration-marks.js'
import {decodeVersion, type VersionRecord} from '../../schema/version-record.js'
import {type OldRecordType, targetKey} from './classify.js'
import {contentOf, digest, oldItemOf, putAbsent, readItems, readMarks, replaceSeen, setMark} from './conditional.js'
import {
  type Compare,
  LITERAL_PREFIX,
  type MigrationContext,
  type MigrationFinding,
  type OldItem,
  oldPrefixes,
  targetNamespace,
} from './finding.js'
import {copyMarkOf} from './marks.js'

export const compareEntities: Compare<'entity'> = async (context, entities) => {
  const duplicates = await readDuplicates(context, entities)
  const duplicateOf = ({item}: OldItem) => duplicates.get(keyId(keyOf(item)))
  const modernEntity = (namespace: string, item: Item) => {
    const modern = moderniseInto(namespace, item)
    const record = decodeEntity(modern)
    return record ? {...encodeEntity(record), ...modern} : modern
  }
  // Two old items of one entity are handled together, with the older one.
  const isFirst = (old: OldItem) => old.record.namespace === undefined || !duplicateOf(old)
  return compareCopies(context, entities.filter(isFirst), {
    convert: modernEntity,
    newerItemOf: duplicateOf,
    isEquivalent: isSameEntity,
  })
}

/** One of them may omit attributes that have a default. */
function isSameEntity(current: Item, copy: Item): boolean {
  const [existing, wanted] = [decodeEntity(current), decodeEntity(copy)].map(record => record && encodeEntity(record))
  if (!existing || !wanted || digest([existing]) !== digest([wanted])) return false
  // Without its index keys the entity would not appear in listings.
  return ENTITY_INDEX_KEYS.every(name => readString(current, name) === readString(wanted, name))
}

export const compareProvisioner: Compare<'settings'> = (context, settings) =>
  compareCopies(context, settings, {convert: moderniseInto})

/** Events never change, so an existing copy is up to date. */
export const compareAudit: Compare<'audit'> = async (context, events) => {
  const nowMs = context.table.clock()
  const live = events.filter(({item}) => !isExpiredItem(item, nowMs))
  const expired = events.filter(({item}) => isExpiredItem(item, nowMs))
  const findings = await compareCopies(context, live, {convert: moderniseInto, isEquivalent: () => true})
  return [...findings, ...expired.map((old): MigrationFinding => ({type: 'audit', sources: [old], state: 'expired'}))]
}

/** Not copied: each configuration is registered when it is written. */
export const compareRegistries: Compare<'registry'> = async (_, registries) =>
  registries.map(old => ({type: 'registry', sources: [old], state: 'same'}))

/** Obsolete once there is a new record that current clients accept. */
export const compareVersions: Compare<'version'> = async (context, versions) => {
  if (versions.length === 0) return []
  const item = (await readItems(context, [keys.version()])).get(keyId(keys.version()))
  const state = isAcceptedVersion(item && decodeVersion(item)) ? 'same' : 'behind'
  return versions.map(old => ({type: 'version', sources: [old], state, reason: 'is not replaced yet'}))
}

export const isAcceptedVersion = (record: VersionRecord | undefined): boolean =>
  record !== undefined && incompatibility(record, '', false) === undefined

interface CopyRules {
  readonly convert: (namespace: string, item: Item) => Item
  /** A newer old item of the same record, which is copied instead. */
  readonly newerItemOf?: (old: OldItem) => OldItem | undefined
  readonly isEquivalent?: (current: Item, copy: Item) => boolean
}

async function compareCopies(
  context: MigrationContext,
  olds: readonly OldItem[],
  {convert, newerItemOf, isEquivalent}: CopyRules,
): Promise<MigrationFinding[]> {
  const records = olds.map(old => {
    const newer = newerItemOf?.(old)
    const namespace = targetNamespace(context, old.record)
    const sources = newer ? [old, newer] : [old]
    return {type: old.record.type, source: newer ?? old, sources, namespace, target: targetKey(old.record, namespace)}
  })
  type Record = (typeof records)[number]
  const marks = await readMarks(
    context,
    records.map(({target}) => target),
  )
  const isUpToDate = ({target, source}: Record) =>
    copyMarkOf(marks.get(keyId(target)))?.source === digest([source.item])
  const differing = new Set(records.filter(record => marks.has(keyId(record.target)) && !isUpToDate(record)))
  const existing = await readItems(
    context,
    [...differing].map(({target}) => target),
  )
  return records.map((record): MigrationFinding => {
    const {type, source, sources, namespace, target} = record
    if (marks.has(keyId(target)) && !differing.has(record)) return {type, sources, state: 'same'}
    const copy = convert(namespace, source.item)
    const rules = isEquivalent && {isEquivalent: (item: Item) => isEquivalent(item, copy)}
    const current = existing.get(keyId(target))
    return {...compareCopy(context, {type, sources: [source], copy, current, ...rules}), sources}
  })
}

/** Entities stored both without a namespace and under the literal id `default`: for each, the other item. */
async function readDuplicates(
  context: MigrationContext,
  entities: readonly OldItem<'entity'>[],
): Promise<Map<string, OldItem>> {
  const {literalDefaultMoves, defaultNamespace} = context
  if (!literalDefaultMoves || defaultNamespace === undefined) return new Map()
  const prefixes = oldPrefixes(context, 'entity', defaultNamespace)
  if (!prefixes.includes('') || !prefixes.includes(LITERAL_PREFIX)) return new Map()
  const inDefault = entities.filter(({record: {namespace}}) => namespace === undefined || namespace === LITERAL_DEFAULT)
  const otherKey = ({record: {namespace, entity}}: OldItem<'entity'>): Key =>
    legacyKeys.entity(namespace === undefined ? LITERAL_PREFIX : '', entity)
  const items = await readItems(context, inDefault.map(otherKey))
  const pairs = inDefault.flatMap(entity => {
    const item = items.get(keyId(otherKey(entity)))
    const other = item && oldItemOf(context, item)
    return other ? [[keyId(keyOf(entity.item)), other] as const] : []
  })
  return new Map(pairs)
}

interface RecordCopy {
  readonly type: OldRecordType
  readonly sources: readonly OldItem[]
  readonly copy: Item
  readonly current: Item | undefined
  /** For a new item that the migration did not write. Default: all attributes are equal. */
  readonly isEquivalent?: (current: Item) => boolean
  readonly create?: (marked: Item) => Promise<boolean>
}

/**
 * The copy follows the old item until another client changes it. If both changed, the user must resolve the conflict.
 */
export function compareCopy(
  context: MigrationContext,
  {type, sources, copy, current, isEquivalent, create}: RecordCopy,
): MigrationFinding {
  const source = digest(sources.map(({item}) => item))
  const markOf = (content: Item) => s(encodeCopyMark({source, copy: digest([content])}))
  const marked = () => ({...copy, [MIGRATION_MARK]: markOf(copy)})
  const behind = (reason: string, write: (item: Item) => Promise<boolean>): MigrationFinding => {
    const item = marked()
    const bytes = itemBytes(item)
    // A copy has longer keys than the old item, and a mark.
    if (bytes <= MAX_ITEM_BYTES) {
      const firstCopy = current || create ? {} : {firstCopy: item}
      return {type, sources, state: 'behind', reason, ...firstCopy, write: () => write(item)}
    }
    const tooLarge = `cannot be moved: the copy would have ${bytes} bytes, and DynamoDB allows ${MAX_ITEM_BYTES}`
    return {type, sources, state: 'unmovable', reason: tooLarge}
  }
  if (!current) {
    const write = (item: Item) => (create ? create(item) : putAbsent(context, item))
    return {...behind('is not copied yet', write), isAbsent: true}
  }
  const content = contentOf(current)
  const mark = copyMarkOf(current)
  const isUpToDate = mark ? mark.source === source : (isEquivalent?.(current) ?? digest([content]) === digest([copy]))
  if (isUpToDate) return {type, sources, state: 'same'}
  const overwrite = (item: Item) => replaceSeen(context, current, item)
  if (mark?.copy === digest([content])) return behind('changed in the old layout', overwrite)
  const reason = mark ? 'changed in both layouts' : 'already exists in the new layout with different content'
  const keep = {old: () => overwrite(marked()), new: () => setMark(context, current, markOf(content))}
  return {type, sources, state: 'conflict', reason, keep}
}
