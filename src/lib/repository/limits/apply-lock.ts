import {ZaelError} from '../../core/errors.js'
import {ConditionFailed} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keys, wireKey} from '../../schema/keys.js'
import {decodeLock, encodeLock, type LockRecord} from '../../schema/lock-record.js'
import {RecordLease} from '../table/lease.js'
import {getItem, type NamespaceTable, sendRepeatable} from '../table/table.js'

/** How long the lock of a dead run stays. A live run renews it three times as often. */
const LEASE_MS = 30_000

const POLL_MS = 500

interface LockOptions {
  /** Shown to others. */
  readonly owner: string
  /** How long to wait for another run. @default 0 */
  readonly waitMs?: number | undefined
  readonly onWait?: ((holder: LockRecord) => void) | undefined
  readonly signal?: AbortSignal | undefined
  readonly leaseMs?: number | undefined
}

/** Held by at most one run that applies a manifest to the namespace. Clients of zae-limiter do not know it. */
export class ApplyLock {
  readonly #table: NamespaceTable

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  /** Also returns a lock that has expired. */
  async get(signal?: AbortSignal): Promise<LockRecord | undefined> {
    const item = await getItem(this.#table, keys.applyLock(this.#table.namespace), {signal})
    return item && decodeLock(item)
  }

  async take({owner, waitMs = 0, onWait, signal, leaseMs = LEASE_MS}: LockOptions): Promise<RecordLease<LockRecord>> {
    const {namespace, clock, backoff} = this.#table
    const kind = {
      key: keys.applyLock(namespace),
      leaseMs,
      isKept: false,
      encode: encodeLock,
      read: (aborted?: AbortSignal) => this.get(aborted),
      held: lockHeld,
      lost: lockLost,
    }
    const untilMs = clock() + waitMs
    for (;;) {
      try {
        return await RecordLease.take<LockRecord>(this.#table, kind, {
          signal,
          next: (_, lease, nowMs) => ({...lease, namespace, owner, since: isoSeconds(nowMs)}),
        })
      } catch (error) {
        if (!(error instanceof LockHeld) || clock() >= untilMs) throw error
        onWait?.(error.holder)
      }
      await backoff.sleep(Math.max(1, Math.min(POLL_MS, untilMs - clock())), signal)
    }
  }

  /** Throws if another run has taken the lock since. */
  async remove({runId}: LockRecord): Promise<void> {
    const condition = new ExpressionBuilder().require(attributes.lease.runId, runId).write()
    const {name: TableName, namespace} = this.#table
    const request = {TableName, Key: wireKey(keys.applyLock(namespace)), ...condition}
    try {
      await sendRepeatable(this.#table, 'DeleteItem', request)
    } catch (error) {
      if (!(error instanceof ConditionFailed)) throw error
      const now = await this.get()
      if (now) throw lockHeld(now, this.#table.clock())
    }
  }
}

class LockHeld extends ZaelError {
  constructor(
    readonly holder: LockRecord,
    nowMs: number,
  ) {
    const {owner, since, leaseUntilMs} = holder
    const seconds = Math.max(1, Math.ceil((leaseUntilMs - nowMs) / 1000))
    super('conflict', 'manifest.locked', `${owner} has been applying a manifest to this namespace since ${since}.`, {
      hint: `Nothing was changed. Wait for that run. If it has crashed, its lock expires in ${seconds} s.`,
      details: {holder: owner, since, expires: new Date(leaseUntilMs).toISOString(), seconds},
    })
  }
}

const lockHeld = (holder: LockRecord, nowMs: number): ZaelError => new LockHeld(holder, nowMs)

function lockLost(now: LockRecord | undefined): ZaelError {
  const how = now ? `${now.owner} took it` : 'it expired or was removed'
  return new ZaelError('conflict', 'manifest.lock-lost', `This run lost its lock: ${how}.`, {
    details: {holder: now?.owner ?? null},
  })
}
