import {ZaelError} from '../../core/errors.js'
import {ConditionFailed, Denied} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {pause} from '../../dynamo/retry.js'
import {isoSeconds, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keyId, keys, wireKey} from '../../schema/keys.js'
import {legacyVersionKey} from '../../schema/legacy-key.js'
import {PEER_FEATURES, type PeerFeature} from '../../schema/peer-features.js'
import {decodeVersion, encodeVersion, type VersionRecord} from '../../schema/version-record.js'
import {getItem, getItems, sendRepeatable, type Table} from './table.js'
import {putNew} from './transact.js'
import {AGGREGATOR_MARK, isOlderRelease, needsMigration, SCHEMA_VERSION} from './version-compatibility.js'

export interface StoredVersion {
  readonly record: VersionRecord | undefined
  /** A record exists under the key of tables without namespaces. */
  readonly hasLegacyRecord: boolean
}

export async function readVersion(table: Table): Promise<StoredVersion> {
  const current = keys.version()
  const items = await getItems(table, [current, legacyVersionKey])
  const item = items.get(keyId(current))
  return {record: item && decodeVersion(item), hasLegacyRecord: items.has(keyId(legacyVersionKey))}
}

/** Never changes an existing record or an old layout. A new table has zael's aggregator. `by`: `zael:{version}`. */
export async function ensureVersion(table: Table, {by}: {by: string}): Promise<VersionRecord> {
  const {record, hasLegacyRecord} = await readVersion(table)
  if (record) return record
  if (hasLegacyRecord) throw needsMigration(undefined)
  const first: VersionRecord = {
    schemaVersion: SCHEMA_VERSION,
    lambdaVersion: AGGREGATOR_MARK,
    clientMinVersion: '0.0.0',
    updatedAt: isoSeconds(table.clock()),
    updatedBy: by,
  }
  const {Put} = putNew(table, encodeVersion(first))
  try {
    await sendRepeatable(table, 'PutItem', Put)
    return first
  } catch (error) {
    if (!(error instanceof ConditionFailed)) throw error
    return (error.oldItem && decodeVersion(error.oldItem)) ?? first
  }
}

/** Records that zael's aggregator processes the stream; older zael versions left no mark. False: not written. */
export async function markAggregator(table: Table): Promise<boolean> {
  const {record} = await readVersion(table)
  if (!record || record.lambdaVersion === AGGREGATOR_MARK) return false
  await updateVersion(table, new ExpressionBuilder().set(attributes.version.lambda, s(AGGREGATOR_MARK)))
  return true
}

async function updateVersion(table: Table, e: ExpressionBuilder): Promise<void> {
  e.exists()
  const request = {TableName: table.name, Key: wireKey(keys.version()), ...e.update()}
  await sendRepeatable(table, 'UpdateItem', request)
}

const names = attributes.version

/** Features whose records older Python clients misread. zae-limiter raises no minimum for other features either. */
export type MarkedFeature = Extract<
  PeerFeature,
  'session-quota' | 'cascade-policy' | 'bypass' | 'soft' | 'top-up' | 'parent-generation'
>

const ATTEMPTS = 10

/**
 * Call before writing the first record with such a feature: raises the minimum release of Python clients, if permitted.
 * Throws if zae-limiter's aggregator is too old: it would grant new shards of a quota their own allowance.
 */
export async function requireReaders(table: Table, features: readonly MarkedFeature[]): Promise<void> {
  const newest = features
    .map(feature => ({feature, release: `${PEER_FEATURES[feature].since}.0`}))
    .sort(byRelease)
    .at(-1)
  if (!newest) return
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    // No batch: permissions for one namespace do not allow it.
    const item = await getItem(table, keys.version())
    const record = item && decodeVersion(item)
    if (!record) return
    if (record.lambdaVersion !== undefined && isOlderRelease(record.lambdaVersion, newest.release))
      throw aggregatorTooOld(record.lambdaVersion, newest.feature, newest.release)
    if (!isOlderRelease(record.clientMinVersion, newest.release)) return
    const e = new ExpressionBuilder().set(names.clientMin, s(newest.release))
    const least = e.name(names.clientMin)
    // A record without a minimum is read as the lowest.
    e.condition(`attribute_not_exists(${least}) OR ${least} = ${e.value(s(record.clientMinVersion))}`)
    try {
      return await updateVersion(table, e)
    } catch (error) {
      if (error instanceof Denied) return
      if (!(error instanceof ConditionFailed)) throw error
    }
    await pause(attempt, table.backoff)
  }
}

function byRelease(one: {release: string}, other: {release: string}): number {
  return isOlderRelease(one.release, other.release) ? -1 : 1
}

function aggregatorTooOld(lambdaVersion: string, feature: MarkedFeature, needed: string): ZaelError {
  const {what} = PEER_FEATURES[feature]
  const reason = `The stack runs the aggregator of zae-limiter ${lambdaVersion}. A record that ${what} needs ${needed} or newer.`
  return new ZaelError('conflict', 'aggregator.too-old', reason, {
    hint: 'Upgrade the aggregator with zae-limiter, or let zael adopt the stack: see docs/operations.md.',
    details: {lambdaVersion, feature, needed},
  })
}
