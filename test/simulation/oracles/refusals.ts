import type {LimitState} from '../../../src/lib/core/limits/limit-state.js'
import type {ResourceDisabled} from '../../../src/lib/limiter/refusal/errors.js'
import {bucketId, refusedBy, type TableWrite} from '../world/table-writes.js'
import type {Verdicts} from './verdicts.js'

/** Refusals by `bucket what`: reported to callers, or counted by buckets. */
type Counts = Map<string, bigint>

/**
 * L6: buckets count exactly the refusals reported to callers, never more. Fewer only by `uncounted`, the limiter's own
 * count of refusals it lost: in a killed process, in writes with unknown outcomes, and in deleted buckets.
 */
export class Refusals {
  readonly #reported: Counts = new Map()
  readonly #counted: Counts = new Map()
  readonly #verdicts: Verdicts

  constructor(verdicts: Verdicts) {
    this.#verdicts = verdicts
  }

  /** Refusals counted by buckets, by `bucket what`: `requests`, `by parent`, `requests of rpm`, `tokens of rpm`. */
  get counted(): ReadonlyMap<string, bigint> {
    return this.#counted
  }

  /** A caller got a refusal for an entity. */
  noteReported(namespace: string, entity: string, {statuses}: {readonly statuses: readonly LimitState[]}): void {
    // No limit refuses a contended request, so no bucket counts it.
    const misfits = statuses.filter(({exceeded}) => exceeded)
    const refusing = new Set(misfits.map(idOf))
    for (const bucket of refusing) add(this.#reported, `${bucket} requests`, 1n)
    for (const status of misfits) {
      add(this.#reported, `${idOf(status)} requests of ${status.name}`, 1n)
      add(this.#reported, `${idOf(status)} tokens of ${status.name}`, BigInt(status.requested))
    }
    for (const resource of new Set(statuses.map(status => status.resource))) {
      const own = bucketId(namespace, entity, resource)
      const byOthers = statuses.some(status => status.resource === resource && refusing.has(idOf(status)))
      if (byOthers && !refusing.has(own)) add(this.#reported, `${own} by parent`, 1n)
    }

    function idOf({entity: refusingEntity, resource}: LimitState): string {
      return bucketId(namespace, refusingEntity, resource)
    }
  }

  /** A caller got a refusal by a switch, at a bucket that exists. */
  noteDisabled(namespace: string, entity: string, disabled: Pick<ResourceDisabled, 'entity' | 'resource'>): void {
    add(this.#reported, `${bucketId(namespace, disabled.entity, disabled.resource)} requests`, 1n)
    if (disabled.entity !== entity)
      add(this.#reported, `${bucketId(namespace, entity, disabled.resource)} by parent`, 1n)
  }

  observe({shards}: TableWrite): void {
    for (const change of shards) {
      for (const [what, count] of refusedBy(change)) add(this.#counted, `${change.bucket} ${what}`, count)
    }
  }

  check(uncounted: number): void {
    let missing = 0n
    for (const key of new Set([...this.#reported.keys(), ...this.#counted.keys()])) {
      const [reported, counted] = [this.#reported.get(key) ?? 0n, this.#counted.get(key) ?? 0n]
      const message = `${counted} are counted, ${reported} were reported to callers`
      if (counted > reported) this.#verdicts.report('L6-refused-more', key, message)
      if (counted < reported && uncounted === 0) this.#verdicts.report('L6-refused-less', key, message)
      if (key.endsWith(' requests') || key.endsWith(' by parent')) missing += reported - counted
    }
    if (missing > BigInt(uncounted))
      this.#verdicts.report('L6-refused-lost', 'all buckets', `${missing} are missing, ${uncounted} are accounted for`)
  }
}

const add = (counts: Counts, key: string, count: bigint): void => {
  counts.set(key, (counts.get(key) ?? 0n) + count)
}
