import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import type {Oracles} from '../oracles/oracles.js'
import type {SimulatedProcess} from '../world/process.js'
import type {World} from '../world/world.js'

/** An operation, for what never ends and for what happens at the same time. Times in ms since the start. */
export interface Operation {
  /** Number of its process; others have none. */
  readonly by: number
  readonly what: string
  readonly startedAtMs: number
  endedAtMs: number | undefined
  /** How a request was decided, and the buckets that it asked. */
  decided?: {readonly as: 'admitted' | 'refused' | 'looked'; readonly buckets: readonly string[]}
}

/** What all deeds of a run share. */
export class Stage {
  readonly operations: Operation[] = []
  /** Called at the end, when it is known what was disturbed. */
  readonly atEnd: (() => void)[] = []

  constructor(
    readonly world: World,
    readonly oracles: Oracles,
  ) {}

  /** Corrections that limiters have accepted, and neither written nor given up. */
  readonly #accepted = new Map<RateLimiter, number>()

  /** Counts a correction that was accepted, until what is returned is called. */
  noteAccepted(limiter: RateLimiter): () => void {
    this.#accepted.set(limiter, this.acceptedBy(limiter) + 1)
    return () => this.#accepted.set(limiter, this.acceptedBy(limiter) - 1)
  }

  acceptedBy(limiter: RateLimiter): number {
    return this.#accepted.get(limiter) ?? 0
  }

  /** Buckets of which a process has decided something since it was started, as `process.generation bucket`. */
  readonly #decided = new Set<string>()

  /** Whether a process has decided something of a bucket and caches it; an answer to an earlier request is taken for that. */
  hasDecided({number, generation}: SimulatedProcess, bucket: string): boolean {
    return this.world.isAllCached && this.#decided.has(`${number}.${generation} ${bucket}`)
  }

  noteDecided(number: number, generation: number, bucket: string): void {
    this.#decided.add(`${number}.${generation} ${bucket}`)
  }

  /** A refusal is a decision on the first bucket; one that was not asked because of the other is not known to have decided. */
  noteRefused(number: number, generation: number, buckets: readonly string[]): void {
    const [own, parent] = buckets as [string, string?]
    this.noteDecided(number, generation, own)
    if (parent === undefined) this.oracles.refills.noteRefused(number, generation, own)
  }

  begin(by: number, what: string): Operation {
    const operation: Operation = {by, what, startedAtMs: this.world.time.elapsedMs, endedAtMs: undefined}
    this.operations.push(operation)
    return operation
  }

  end(operation: Operation): void {
    operation.endedAtMs = this.world.time.elapsedMs
  }

  /** Whether a process had other operations under way in a span of time. */
  hasOthers(mine: Operation, fromMs: number, untilMs: number): boolean {
    return this.operations.some(
      ({by, startedAtMs, endedAtMs = Number.POSITIVE_INFINITY}, at) =>
        this.operations[at] !== mine && by === mine.by && startedAtMs <= untilMs && endedAtMs >= fromMs,
    )
  }
}
