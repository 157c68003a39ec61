import type {LimitState} from '../../../src/lib/core/limits/limit-state.js'
import type {ResourceDisabled} from '../../../src/lib/limiter/refusal/errors.js'
import {bucketId, refusedBy, type TableWrite} from '../world/table-writes.js'
import type {Verdicts} from './verdicts.js'

/** What callers were told, or what buckets have counted, by `bucket what`. */
type Counts = Map<string, bigint>

/**
 * L6: the refusals that buckets have counted are those that callers were told, and never more. Less only by what a
 * process still had with it when it was killed, by writes whose outcome it never learned, and by buckets that are gone:
 * `uncounted`, by its own account.
 */
export class Refusals {
  readonly #told: Counts = new Map()
  readonly #counted: Counts = new Map()
  readonly #verdicts: Verdicts

  constructor(verdicts: Verdicts) {
    this.#verdicts = verdicts
  }

  /** What the buckets have counted, by `bucket what`: `requests`, `by parent`, `requests of rpm`, `tokens of rpm`. */
  get counted(): ReadonlyMap<string, bigint> {
    return this.#counted
  }

  /** A caller was told that a request of an entity is refused. */
  told(namespace: string, entity: string, {statuses}: {readonly statuses: readonly LimitState[]}): void {
    // No limit refuses a contended request, so no bucket counts it.
    const misfits = statuses.filter(({exceeded}) => exceeded)
    const refusing = new Set(misfits.map(idOf))
    for (const bucket of refusing) add(this.#told, `${bucket} requests`, 1n)
    for (const status of misfits) {
      add(this.#told, `${idOf(status)} requests of ${status.name}`, 1n)
      add(this.#told, `${idOf(status)} tokens of ${status.name}`, BigInt(status.requested))
    }
    for (const resource of new Set(statuses.map(status => status.resource))) {
      const own = bucketId(namespace, entity, resource)
      const byOthers = statuses.some(status => status.resource === resource && refusing.has(idOf(status)))
      if (byOthers && !refusing.has(own)) add(this.#told, `${own} by parent`, 1n)
    }

    function idOf({entity: refusingEntity, resource}: LimitState): string {
      return bucketId(namespace, refusingEntity, resource)
    }
  }

  /** A caller was told that a switch refuses a request of an entity, at a bucket that exists. */
  toldDisabled(namespace: string, entity: string, disabled: Pick<ResourceDisabled, 'entity' | 'resource'>): void {
    add(this.#told, `${bucketId(namespace, disabled.entity, disabled.resource)} requests`, 1n)
    if (disabled.entity !== entity) add(this.#told, `${bucketId(namespace, entity, disabled.resource)} by parent`, 1n)
  }

  observe({shards}: TableWrite): void {
    for (const change of shards) {
      for (const [what, count] of refusedBy(change)) add(this.#counted, `${change.bucket} ${what}`, count)
    }
  }

  check(uncounted: number): void {
    let missing = 0n
    for (const key of new Set([...this.#told.keys(), ...this.#counted.keys()])) {
      const [told, counted] = [this.#told.get(key) ?? 0n, this.#counted.get(key) ?? 0n]
      const message = `${counted} are counted, callers were told ${told}`
      if (counted > told) this.#verdicts.report('L6-refused-more', key, message)
      if (counted < told && uncounted === 0) this.#verdicts.report('L6-refused-less', key, message)
      if (key.endsWith(' requests') || key.endsWith(' by parent')) missing += told - counted
    }
    if (missing > BigInt(uncounted))
      this.#verdicts.report('L6-refused-lost', 'all buckets', `${missing} are missing, ${uncounted} are accounted for`)
  }
}

const add = (counts: Counts, key: string, count: bigint): void => {
  counts.set(key, (counts.get(key) ?? 0n) + count)
}
