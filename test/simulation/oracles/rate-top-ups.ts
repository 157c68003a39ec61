import {decodeOperation} from '../../../src/lib/repository/operations/record.js'
import type {ShardChange, TableWrite} from '../world/table-writes.js'
import type {Verdicts} from './verdicts.js'

/** Millitokens that a top-up added to one limit. */
export interface ToppedUp {
  readonly bucket: string
  readonly name: string
  readonly milli: bigint
}

/**
 * S6 of top-ups of rates: each key adds its amount once, however often it is repeated and whichever responses are lost.
 * It never adds more, and adds exactly what the operation's record says.
 */
export class RateTopUps {
  readonly #verdicts: Verdicts
  /** Requested millitokens, by bucket, key and limit. */
  readonly #asked = new Map<string, bigint>()
  readonly #done = new Set<string>()
  readonly #made = new Set<string>()

  constructor(verdicts: Verdicts) {
    this.#verdicts = verdicts
  }

  noteAsked(bucket: string, key: string, name: string, tokens: number): void {
    this.#asked.set(`${bucket} ${key} ${name}`, BigInt(tokens) * 1000n)
  }

  noteDone(bucket: string, key: string, name: string): void {
    this.#done.add(`${bucket} ${key} ${name}`)
  }

  /** The amount a write added, if it is a top-up of this run. */
  observe({changes, shards}: TableWrite): ToppedUp[] {
    const records = changes.flatMap(({after}) => (after && decodeOperation(after)) || [])
    return records.flatMap(({operation, entity, resource, namespace, id, amounts}) => {
      const bucket = `${namespace}/${entity}/${resource}`
      return [...amounts].flatMap(([name, tokens]) => {
        const key = `${bucket} ${id} ${name}`
        const asked = this.#asked.get(key)
        if (operation !== 'top_up' || asked === undefined) return []
        const milli = BigInt(Math.round(tokens * 1000))
        this.#judge(
          key,
          milli,
          asked,
          shards.filter(change => change.bucket === bucket),
          name,
        )
        return {bucket, name, milli}
      })
    })
  }

  /** Compares, once nothing is in progress. */
  check(): void {
    for (const key of this.#done)
      if (!this.#made.has(key)) this.#verdicts.report('S6-topped-up', key, 'is said to have been made, and was not')
  }

  #judge(key: string, milli: bigint, asked: bigint, shards: readonly ShardChange[], name: string): void {
    if (this.#made.has(key)) this.#verdicts.report('S6-topped-up-twice', key, 'was made a second time')
    this.#made.add(key)
    if (milli > asked || milli < 0n)
      this.#verdicts.report('S6-topped-up', key, `${milli} millitokens were added, ${asked} were asked for`)
    // A bucket created by the top-up is full.
    if (shards.some(({before}) => before?.refilledAt === undefined)) return
    let [credit, most] = [0n, milli]
    for (const {before, after} of shards) {
      const [then, now] = [before?.limits.get(name), after?.limits.get(name)]
      if (!before || !after || !then || !now) return
      credit += now.tokens + now.consumed - then.tokens - then.consumed
      const elapsed = (after.refilledAt ?? 0n) - (before.refilledAt ?? 0n)
      const share = then.amount / BigInt(before.shardCount) + 1n
      most += (share * (elapsed > 0n ? elapsed : 0n) + then.remainder) / then.period + 1n
    }
    if (credit >= milli && credit <= most) return
    const message = `${credit} millitokens were credited, ${milli} to ${most} are right`
    this.#verdicts.report('S6-topped-up', key, message)
  }
}
