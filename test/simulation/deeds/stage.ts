import type {Oracles} from '../oracles/oracles.js'
import type {World} from '../world/world.js'

/** An operation, for what never ends and for what happens at the same time. Times in ms since the start. */
export interface Operation {
  /** Number of its process; others have none. */
  readonly by: number
  readonly what: string
  readonly startedAtMs: number
  endedAtMs: number | undefined
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

  begin(by: number, what: string): Operation {
    const operation = {by, what, startedAtMs: this.world.time.elapsedMs, endedAtMs: undefined}
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
