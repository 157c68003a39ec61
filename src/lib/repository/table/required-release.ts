import {ZaelError} from '../../core/errors.js'
import {ConditionFailed, Denied} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {pause} from '../../dynamo/retry.js'
import {s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keys} from '../../schema/keys.js'
import {PEER_FEATURES, type PeerFeature} from '../../schema/peer-features.js'
import {decodeVersion} from '../../schema/version-record.js'
import {getItem, type Table} from './table.js'
import {updateVersion} from './version.js'
import {isOlderRelease} from './version-compatibility.js'

const names = attributes.version

/** Features whose records older Python clients misread; zae-limiter raises no minimum for others either. */
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
  const reason = `The aggregator of the stack is of zae-limiter ${lambdaVersion}, which cannot keep a record that ${what}; ${needed} or newer can.`
  return new ZaelError('conflict', 'aggregator.too-old', reason, {
    hint: 'Upgrade it with zae-limiter, or hand the stack over to zael: see docs/operations.md.',
    details: {lambdaVersion, feature, needed},
  })
}
