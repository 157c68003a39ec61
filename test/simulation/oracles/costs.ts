import {consumedBy, type StoredShard, type TableRequest, type TableWrite} from '../world/table-writes.js'
import type {Verdicts} from './verdicts.js'

/** An isolated decision of a process; times in ms since the start. */
export interface QuietDecision {
  readonly what: string
  readonly process: number
  readonly fromMs: number
  readonly untilMs: number
  readonly as: 'admitted' | 'refused' | 'looked'
  readonly buckets: readonly string[]
}

/** With this many limits, a bucket stays below one kilobyte, which costs one unit. */
const MOST_IN_A_KILOBYTE = 4

/**
 * Reads of a process with empty caches: the namespace, the layout and migration of the table, then limits and entity of
 * each bucket.
 */
const mostReads = (buckets: number): number => 3 + 4 * buckets

/**
 * L7, S4, L8: costs of isolated decisions and reads, by the table in docs/library.md. A decision takes one write per
 * bucket, after at most one refused write. A refusal takes none; a read-only operation only reads. If one of several
 * buckets refuses, the charge of each other and its refund are two more writes. One exception: if another client changed
 * limits without updating the refusing bucket, one more write updates them (decision 25).
 */
export class Costs {
  readonly #verdicts: Verdicts
  readonly #isAllCached: boolean
  readonly #requests = new Map<number, TableRequest[]>()
  readonly #writes = new Map<string, {readonly atMs: number; readonly process: number}[]>()
  readonly #sharded = new Set<string>()

  constructor(verdicts: Verdicts, isAllCached = true) {
    this.#verdicts = verdicts
    this.#isAllCached = isAllCached
  }

  observe({atMs, writer, shards}: TableWrite, startMs: number): void {
    for (const {bucket, before, after} of shards) {
      if (Math.max(before?.shardCount ?? 1, after?.shardCount ?? 1) > 1) this.#sharded.add(bucket)
      const known = this.#writes.get(bucket)
      const write = {atMs: atMs - startMs, process: writer.process}
      if (known) known.push(write)
      else this.#writes.set(bucket, [write])
    }
  }

  observeRequest(request: TableRequest): void {
    const known = this.#requests.get(request.process)
    if (known) known.push(request)
    else this.#requests.set(request.process, [request])
    const {operation, kind, tableUnits, indexUnits, shards} = request
    const [shard] = shards
    // The first write of a bucket also pays for its index entries. A transaction, which repairs shards, costs double.
    if (operation !== 'UpdateItem' || kind !== 'applied' || shard?.before?.refilledAt === undefined || !shard.after)
      return
    if (tableUnits + indexUnits <= 1 || shard.after.limits.size > MOST_IN_A_KILOBYTE) return
    const message = `a write cost ${tableUnits} units in the table and ${indexUnits} in indexes`
    this.#verdicts.report('L7-units', `${shard.bucket} shard ${shard.shard}`, message)
  }

  judge({what, process, fromMs, untilMs, as, buckets}: QuietDecision): void {
    const isDuring = ({atMs}: {readonly atMs: number}) => atMs >= fromMs && atMs <= untilMs
    const isOpen = buckets.some(
      bucket =>
        this.#sharded.has(bucket) ||
        this.#writes.get(bucket)?.some(write => write.process !== process && isDuring(write)),
    )
    if (isOpen) return
    const mine = this.#requests.get(process)?.filter(isDuring) ?? []
    const count = (kind: TableRequest['kind']) => mine.filter(each => each.kind === kind).length
    const [reads, applied, refused] = [count('read'), count('applied'), count('refused')]
    const spent = `p${process} ${what}: ${as} with ${reads} reads, ${applied} writes, ${refused} refused ones`
    if (as === 'looked' && applied + refused > 0) this.#verdicts.report('L8-wrote', buckets.join(' + '), spent)
    // Any request updates limits that were changed without updating the bucket.
    const inLine = as === 'refused' && mine.some(changesLimits) ? 1 : 0
    // With a parent, a charge may be refunded.
    if (as === 'refused' && buckets.length === 1 && applied > inLine)
      this.#verdicts.report('S4-refusal', buckets.join(), spent)
    // With a cache smaller than a decision needs, it reads again.
    const mostTimes = this.#isAllCached ? 1 : 2
    const mayRead = mostTimes * mostReads(buckets.length)
    const mostApplied = Math.max(buckets.length, as === 'refused' ? 2 * (buckets.length - 1) : 0)
    const isDear = applied - inLine > mostApplied || refused > buckets.length || reads > mayRead
    if (isDear) this.#verdicts.report('L7-calls', buckets.join(' + '), spent)
  }
}

/** Whether a request only changed the limits of a bucket. */
function changesLimits({kind, shards: [change]}: TableRequest): boolean {
  if (kind !== 'applied' || !change || consumedBy(change).size > 0) return false
  const limitsOf = (shard: StoredShard | undefined) =>
    [...(shard?.limits ?? [])].map(([name, {capacity, amount, period}]) => [name, capacity, amount, period].join())
  return limitsOf(change.before).sort().join(' ') !== limitsOf(change.after).sort().join(' ')
}
