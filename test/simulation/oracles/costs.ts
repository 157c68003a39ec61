import {consumedBy, type StoredShard, type TableRequest, type TableWrite} from '../world/table-writes.js'
import type {Verdicts} from './verdicts.js'

/** A decision that nothing else of its process can have had a part in; times in ms since the start. */
export interface QuietDecision {
  readonly what: string
  readonly process: number
  readonly fromMs: number
  readonly untilMs: number
  readonly as: 'admitted' | 'refused' | 'looked'
  readonly buckets: readonly string[]
}

/** With so many limits a bucket is well below a kilobyte, which one unit pays for. */
const MOST_IN_A_KILOBYTE = 4

/**
 * Reads of a process that knows nothing: the namespace, the layout and the migration of the table, then the limits and the
 * entity of each bucket.
 */
const mostReads = (buckets: number): number => 3 + 4 * buckets

/**
 * L7, S4, L8: what decisions and looks cost, by the table of docs/library.md. Of a decision that stood alone: one write
 * for each bucket, at most one that is refused before it; none for a refusal; nothing but reads for a look. Where one of
 * two buckets refuses, the charge of the other and its return are two writes as well. One allowance: limits of the bucket
 * that refuses which another client has changed without updating it are brought in line (decision 25), by a write of its own.
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
    // The first write of a bucket pays for its index entries too, and a transaction, which repairs shards, pays twice.
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
    // Limits that were changed without it are brought in line by any request.
    const inLine = as === 'refused' && mine.some(changesLimits) ? 1 : 0
    // With a parent, a charge is taken back.
    if (as === 'refused' && buckets.length === 1 && applied > inLine)
      this.#verdicts.report('S4-refusal', buckets.join(), spent)
    // A cache that holds less than a decision needs has it read again.
    const mostTimes = this.#isAllCached ? 1 : 2
    const mayRead = mostTimes * mostReads(buckets.length)
    const isDear = applied - inLine > buckets.length || refused > buckets.length || reads > mayRead
    if (isDear) this.#verdicts.report('L7-calls', buckets.join(' + '), spent)
  }
}

/** Whether a request has changed limits of a bucket, and nothing else. */
function changesLimits({kind, shards: [change]}: TableRequest): boolean {
  if (kind !== 'applied' || !change || consumedBy(change).size > 0) return false
  const limitsOf = (shard: StoredShard | undefined) =>
    [...(shard?.limits ?? [])].map(([name, {capacity, amount, period}]) => [name, capacity, amount, period].join())
  return limitsOf(change.before).sort().join(' ') !== limitsOf(change.after).sort().join(' ')
}
