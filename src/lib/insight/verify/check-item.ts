import {decodeOperation, encodeOperation} from '../../repository/operations/record.js'
import {getItem} from '../../repository/table/table.js'
import {type Item, texts} from '../../schema/attribute-value.js'
import {indexes, keyNames} from '../../schema/attributes.js'
import {decodeAudit, encodeAudit} from '../../schema/audit-record.js'
import {bucketIndexKeys, decodeBucket} from '../../schema/bucket-record.js'
import {decodeConfig, encodeConfig} from '../../schema/config-record.js'
import {decodeEntity, encodeEntity} from '../../schema/entity-record.js'
import {indexKeys, keyId, keyOf, keys, type ParsedKey, parseItemKey, spellKey} from '../../schema/keys.js'
import {parseLegacyKey} from '../../schema/legacy-key.js'
import {decodeNamespace, encodeNamespaceById, encodeNamespaceByName} from '../../schema/namespace-record.js'
import {decodeProvisioner, encodeProvisioner} from '../../schema/provisioner-record.js'
import {registryIndexKeys} from '../../schema/registry-records.js'
import {decodeRun, runIndexKeys} from '../../schema/run-record.js'
import {decodeUsage, encodeUsage} from '../../schema/usage-record.js'
import {decodeVersion, encodeVersion} from '../../schema/version-record.js'
import {checkBucket} from './check-bucket.js'
import {checkBoosts, checkConfig, checkRegistry} from './check-config.js'
import {checkReservation} from './check-holders.js'
import {checkUsage} from './check-usage.js'
import {repairAttributes, type VerifyContext} from './context.js'
import type {Finding, ItemFinding} from './finding.js'

export const isOldItem = (item: Item): boolean => !parseItemKey(item) && parseLegacyKey(keyOf(item)) !== undefined

export async function checkItem(context: VerifyContext, item: Item): Promise<Finding[]> {
  const key = parseItemKey(item)
  const {namespace, entity, resource} = {namespace: undefined, entity: undefined, resource: undefined, ...key}
  const found = await readableFindings(context, item, key)
  return found.map(each => ({key: spellKey(keyOf(item)), namespace, entity, resource, since: undefined, ...each}))
}

async function readableFindings(
  context: VerifyContext,
  item: Item,
  key: ParsedKey | undefined,
): Promise<readonly ItemFinding[]> {
  try {
    return await compareItem(context, item, key)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    const reason = `The item, or a related record, cannot be read: ${error.message}.`
    return [{kind: 'malformed', subject: '', reason}]
  }
}

async function compareItem(context: VerifyContext, item: Item, key: ParsedKey | undefined): Promise<ItemFinding[]> {
  if (!key) {
    const isKnown = keyId(keyOf(item)) === keyId(keys.migration())
    return isKnown ? [] : [{kind: 'unknown', subject: '', reason: 'Its key matches no known record.'}]
  }
  if ('namespace' in key && !context.namespaces.has(key.namespace)) {
    const reason = `No namespace has the id ${key.namespace}.`
    return [{kind: 'orphan', subject: '', reason, entity: undefined, resource: undefined}]
  }
  return [...ofIndexes(context, item, key), ...(await ofRecord(context, item, key))]
}

/** Without index keys, listings and the purge of its namespace miss an item. */
function ofIndexes({table}: VerifyContext, item: Item, key: ParsedKey): ItemFinding[] {
  const wrong = wrongIndexKeys(item, key)
  const names = Object.keys(wrong)
  // A ghost is not in an index and has its own finding.
  if (names.length === 0 || decodeBucket(item)?.kind === 'ghost') return []
  return [
    {
      kind: 'index',
      subject: names.join(' '),
      reason: `${names.join(', ')} ${names.length === 1 ? 'is' : 'are'} missing or wrong: listings omit the record.`,
      repair: () => repairAttributes(table, item, wrong),
    },
  ]
}

async function ofRecord(context: VerifyContext, item: Item, key: ParsedKey): Promise<ItemFinding[]> {
  switch (key.record) {
    case 'bucket':
      return checkBucket(context, item)
    case 'boost':
      return checkBoosts(context, item)
    case 'usage':
      return checkUsage(context, item)
    case 'entity-config':
    case 'resource-config':
    case 'system-config':
      return checkConfig(context, item, key)
    case 'resource-registry':
    case 'entity-config-registry':
      return checkRegistry(context, item, key)
    case 'reservation':
      return checkReservation(context, item)
    case 'entity':
      return checkEntity(context, item)
    case 'namespace-by-name':
    case 'namespace-by-id':
      return checkNamespace(context, item, key)
    default:
      return []
  }
}

function checkEntity({referred}: VerifyContext, item: Item): ItemFinding[] {
  const record = decodeEntity(item)
  if (record?.parent === undefined || referred.entity(record.namespace, record.parent)) return []
  const charged = record.cascade ? 'requests are charged to a parent without a record' : 'it has no effect'
  const reason = `Its parent ${record.parent} does not exist: ${charged}.`
  return [{kind: 'parent', subject: record.parent, reason}]
}

async function checkNamespace(context: VerifyContext, item: Item, key: ParsedKey): Promise<ItemFinding[]> {
  const record = decodeNamespace(item)
  if (record?.status !== 'active') return []
  const isByName = key.record === 'namespace-by-name'
  const other = isByName ? keys.namespaceById(record.id) : keys.namespaceByName(record.name)
  const found = await getItem(context.table, other, {signal: context.signal})
  const paired = found && decodeNamespace(found)
  if (paired?.id === record.id && paired.name === record.name && paired.status === 'active') return []
  const state = paired ? `says ${paired.name}, ${paired.id}, ${paired.status}` : 'is missing'
  const reason = `${record.name} is active with the id ${record.id}; its record by ${isByName ? 'id' : 'name'} ${state}.`
  return [{kind: 'namespace', subject: '', reason}]
}

const INDEX_KEYS = Object.values(indexes).flatMap(index => keyNames(index))

/** Index keys that differ, with their right values. `undefined`: must be absent. */
function wrongIndexKeys(item: Item, key: ParsedKey): {[name: string]: Item[string] | undefined} {
  const expected = encoded(item, key)
  const differing = INDEX_KEYS.filter(name => textOf(item, name) !== textOf(expected, name))
  return Object.fromEntries(differing.map(name => [name, expected[name]]))
}

function encoded(item: Item, key: ParsedKey): Item {
  switch (key.record) {
    case 'entity':
      return again(item, decodeEntity, encodeEntity)
    case 'entity-config': {
      const run = decodeRun(item)
      return run ? runIndexKeys(run) : again(item, decodeConfig, encodeConfig)
    }
    case 'resource-config':
    case 'system-config':
      return again(item, decodeConfig, encodeConfig)
    case 'usage':
      return again(item, decodeUsage, encodeUsage)
    case 'audit':
      return again(item, decodeAudit, encodeAudit)
    case 'provisioner':
      return again(item, decodeProvisioner, encodeProvisioner)
    case 'version':
      return again(item, decodeVersion, encodeVersion)
    case 'namespace-by-name':
      return again(item, decodeNamespace, encodeNamespaceByName)
    case 'namespace-by-id':
      return again(item, decodeNamespace, encodeNamespaceById)
    case 'bucket':
      return bucketIndexKeys(key)
    case 'holder':
      return texts(indexKeys.holderInNamespace(key.namespace, key.id))
    case 'operation':
      return again(item, decodeOperation, encodeOperation)
    case 'pending-apply':
    case 'rollups':
    case 'rollup-agenda':
    case 'reservation':
      return item
    default:
      return registryIndexKeys(key.namespace)
  }
}

function again<T>(item: Item, decode: (item: Item) => T | undefined, encode: (record: T) => Item): Item {
  const record = decode(item)
  return record === undefined ? item : encode(record)
}

function textOf(item: Item, name: string): string | undefined {
  const value = item[name]
  return (value && (('S' in value && value.S) || JSON.stringify(value))) || undefined
}
