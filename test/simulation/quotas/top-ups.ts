import type {Verdicts} from '../oracles/verdicts.js'
import type {Scenario} from '../scenario.js'
import type {TableWrite} from '../world/table-writes.js'
import {quotaChanges, windowOf} from './stored-quota.js'

/**
 * S6 of top-ups of quotas: each key adds its amount once, however often it is repeated and whichever responses are
 * lost.
 */
export class TopUps {
  readonly #verdicts: Verdicts
  /** Millitokens by bucket and key. */
  readonly #asked = new Map<string, Map<string, bigint>>()
  readonly #done = new Set<string>()
  readonly #added = new Map<string, bigint>()
  /** After its entity is deleted, a bucket may get the same top-up again. */
  readonly #deleted = new Set<string>()

  /** Top-ups are not marked while the limit is a rate. */
  readonly #isComparable: boolean

  constructor({configs, steps}: Scenario, verdicts: Verdicts) {
    this.#verdicts = verdicts
    const limits = [...configs, ...steps.flatMap(({event}) => ('limits' in event ? [event] : []))].flatMap(
      each => each.limits,
    )
    this.#isComparable = limits.every(({name, reset}) => name !== 'q' || reset)
  }

  noteAsked(bucket: string, key: string, tokens: number): void {
    const asked = this.#asked.get(bucket) ?? new Map<string, bigint>()
    this.#asked.set(bucket, asked.set(key, BigInt(tokens) * 1000n))
  }

  noteDone(bucket: string, key: string): void {
    this.#done.add(`${bucket} ${key}`)
  }

  observe({changes, writer}: TableWrite): void {
    for (const {bucket, before, after} of changes.flatMap(quotaChanges)) {
      if (writer.event === 'delete-entity' || writer.event === 'purge') this.#deleted.add(bucket)
      if (writer.event !== 'top-up' || !after) continue
      // A top-up of an earlier period ended with it: by the current resets, which the same write may have set.
      const isSameKind = (before?.resets === '') === (after.resets === '')
      const {resets, windows, zone} = after
      const isSame = before && isSameKind && windowOf({...before, resets, windows, zone}) === windowOf(after)
      const added = after.topUp - (isSame ? before.topUp : 0n)
      this.#added.set(bucket, (this.#added.get(bucket) ?? 0n) + added)
    }
  }

  /** Compares, once nothing is in progress. */
  check(): void {
    if (!this.#isComparable) return
    for (const [bucket, asked] of this.#asked) {
      if (this.#deleted.has(bucket)) continue
      const added = this.#added.get(bucket) ?? 0n
      const most = [...asked.values()].reduce((a, b) => a + b, 0n)
      const least = [...asked].reduce(
        (sum, [key, milli]) => (this.#done.has(`${bucket} ${key}`) ? sum + milli : sum),
        0n,
      )
      if (added < least || added > most)
        this.#verdicts.report('S6-topped-up', bucket, `${added} millitokens were added, ${least} to ${most} are right`)
    }
  }
}
