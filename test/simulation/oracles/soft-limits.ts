import type {Scenario, Tokens} from '../scenario.js'
import type {StoredShard, TableWrite} from '../world/table-writes.js'
import type {Verdicts} from './verdicts.js'

/** A write that admitted requests, and the limits it left in debt. */
interface Admission {
  readonly process: number
  /** Epoch ms. */
  readonly atMs: number
  readonly inDebt: ReadonlySet<string>
  /** A transaction over several shards returns no state: its lease reports the read before. */
  readonly isOfSeveral: boolean
}

/** A request of a process, and the charged buckets. */
interface AskedOfSoft {
  readonly process: number
  readonly buckets: readonly string[]
  /** Epoch ms. */
  readonly startedMs: number
}

/** S1, L6 of limits that are always soft: they refuse nothing, and leases name those in debt. */
export class SoftLimits {
  readonly #verdicts: Verdicts
  readonly #soft: ReadonlySet<string>
  readonly #admissions = new Map<string, Admission[]>()
  /** When a limit was last in debt on a shard, in epoch ms, by `bucket limit`. */
  readonly #lastDebtMs = new Map<string, number>()

  constructor({configs, steps}: Scenario, verdicts: Verdicts) {
    this.#verdicts = verdicts
    const sets = [...configs, ...steps.flatMap(({event}) => ('limits' in event ? [event] : []))]
    const limits = sets.flatMap(each => each.limits)
    const hard = new Set(limits.filter(({soft}) => !soft).map(({name}) => name))
    this.#soft = new Set(limits.map(({name}) => name).filter(name => !hard.has(name)))
  }

  observe({atMs, writer: {process}, shards}: TableWrite): void {
    if (this.#soft.size === 0) return
    for (const {bucket, before, after} of shards) {
      const inDebt = debtsOf(after)
      for (const name of [...debtsOf(before), ...inDebt]) this.#lastDebtMs.set(`${bucket} ${name}`, atMs)
      if (!after || after.requests <= (before?.requests ?? 0)) continue
      const known = this.#admissions.get(bucket)
      const admission = {process, atMs, inDebt, isOfSeveral: shards.length > 1}
      if (known) known.push(admission)
      else this.#admissions.set(bucket, [admission])
    }
  }

  /** A request for only soft limits must not be refused. */
  refused(entity: string, consume: Tokens): void {
    if (this.#soft.size === 0 || !Object.keys(consume).every(name => this.#soft.has(name))) return
    this.#verdicts.report('S1-soft', `${entity} ${JSON.stringify(consume)}`, 'soft limits have refused')
  }

  /** A lease names the overdrawn limits, by the writes that may have charged it. */
  admitted({process, buckets, startedMs}: AskedOfSoft, overdrawn: readonly string[]): void {
    if (this.#soft.size === 0) return
    const writes = buckets.map(
      bucket => this.#admissions.get(bucket)?.filter(each => each.process === process && each.atMs >= startedMs) ?? [],
    )
    // The charging write is unknown.
    if (writes.some(each => each.length === 0)) return
    for (const name of this.#soft) {
      const isTold = overdrawn.includes(name)
      const wasInDebt = buckets.some(bucket => (this.#lastDebtMs.get(`${bucket} ${name}`) ?? 0) >= startedMs)
      const isPossible = writes.some(each =>
        each.some(({inDebt, isOfSeveral}) => inDebt.has(name) || (isOfSeveral && wasInDebt)),
      )
      const isCertain = writes.some(each => each.every(({inDebt}) => inDebt.has(name)))
      if (isTold ? isPossible : !isCertain) continue
      const message = isTold ? 'is said to be overdrawn, and is not' : 'is overdrawn, and the lease does not say so'
      this.#verdicts.report('L6-overdrawn', `${buckets.join(' + ')} ${name}`, message)
    }
  }
}

function debtsOf(shard: StoredShard | undefined): ReadonlySet<string> {
  return new Set([...(shard?.limits ?? [])].flatMap(([name, {tokens}]) => (tokens < 0n ? [name] : [])))
}
