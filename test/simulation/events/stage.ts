import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import type {Oracles} from '../oracles/oracles.js'
import type {SimulatedProcess} from '../world/process.js'
import type {World} from '../world/world.js'

/** An operation, to detect hangs and overlaps. Times in ms since the start. */
export interface Operation {
  /** Number of its process, if any. */
  readonly by: number
  readonly what: string
  readonly startedAtMs: number
  endedAtMs: number | undefined
  /** The decision, and the buckets it used. */
  decided?: {readonly as: 'admitted' | 'refused' | 'looked'; readonly buckets: readonly string[]}
}

/** State shared by all actions of a run. */
export class Stage {
  readonly operations: Operation[] = []
  /** Called at the end, when all faults are known. */
  readonly atEnd: (() => void)[] = []

  constructor(
    readonly world: World,
    readonly oracles: Oracles,
  ) {}

  /** Accepted settlements that are neither written nor failed. */
  readonly #accepted = new Map<RateLimiter, number>()

  /** Counts an accepted settlement until the returned function is called. */
  noteAccepted(limiter: RateLimiter): () => void {
    this.#accepted.set(limiter, this.acceptedBy(limiter) + 1)
    return () => this.#accepted.set(limiter, this.acceptedBy(limiter) - 1)
  }

  acceptedBy(limiter: RateLimiter): number {
    return this.#accepted.get(limiter) ?? 0
  }

  /** Buckets that a process has decided on since it started, as `process.generation bucket`. */
  readonly #decided = new Set<string>()

  /** Whether a process has decided on a bucket and caches it. The response to an earlier request counts. */
  hasDecided({number, generation}: SimulatedProcess, bucket: string): boolean {
    return this.world.isAllCached && this.#decided.has(`${number}.${generation} ${bucket}`)
  }

  noteDecided(number: number, generation: number, bucket: string): void {
    this.#decided.add(`${number}.${generation} ${bucket}`)
  }

  /** A refusal is a decision on the first bucket. Another bucket may not have been asked. */
  noteRefused(number: number, generation: number, buckets: readonly string[]): void {
    const [own, parent] = buckets as [string, string?]
    this.noteDecided(number, generation, own)
    if (parent === undefined) this.oracles.refills.noteRefused(number, generation, own)
  }

  /** Whether caches are too small for a chain of parents: a refusal may then miss those above the refusing one. */
  get forgetsLevels(): boolean {
    const {isAllCached, scenario} = this.world
    return scenario.levels === 'all' && !isAllCached
  }

  begin(by: number, what: string): Operation {
    const operation: Operation = {by, what, startedAtMs: this.world.time.elapsedMs, endedAtMs: undefined}
    this.operations.push(operation)
    return operation
  }

  end(operation: Operation): void {
    operation.endedAtMs = this.world.time.elapsedMs
  }

  /** Whether a process had other operations in progress during a time span. */
  hasOthers(mine: Operation, fromMs: number, untilMs: number): boolean {
    return this.operations.some(
      ({by, startedAtMs, endedAtMs = Number.POSITIVE_INFINITY}, at) =>
        this.operations[at] !== mine && by === mine.by && startedAtMs <= untilMs && endedAtMs >= fromMs,
    )
  }
}
