import {type Item, isoSeconds, n, readNumber, readString, s} from './attribute-value.js'
import {attributes} from './attributes.js'
import {keys, parseItemKey, wireKey} from './keys.js'
import {registryIndexKeys} from './registry-records.js'

/** Exists while a manifest is applied. Clients of zae-limiter ignore it. */
export interface LockRecord {
  readonly namespace: string
  readonly runId: string
  readonly owner: string
  /** ISO 8601. */
  readonly since: string
  /** Epoch ms; then another run may take it. */
  readonly leaseUntilMs: number
}

/** Then the table deletes a lock that nobody has released or taken over. */
const KEPT_SECONDS = 86_400

const names = attributes.lease

export function encodeLock({namespace, runId, owner, since, leaseUntilMs}: LockRecord): Item {
  return {
    ...wireKey(keys.applyLock(namespace)),
    ...registryIndexKeys(namespace),
    [names.runId]: s(runId),
    [names.owner]: s(owner),
    [names.startedAt]: s(since),
    [names.leaseUntil]: n(leaseUntilMs),
    [names.expiresAt]: n(Math.ceil(leaseUntilMs / 1000) + KEPT_SECONDS),
  }
}

export function decodeLock(item: Item): LockRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'apply-lock') return undefined
  return {
    namespace: key.namespace,
    runId: readString(item, names.runId) ?? '',
    owner: readString(item, names.owner) ?? '',
    since: readString(item, names.startedAt) ?? isoSeconds(0),
    leaseUntilMs: readNumber(item, names.leaseUntil) ?? 0,
  }
}
