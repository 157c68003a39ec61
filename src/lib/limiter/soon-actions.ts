import type {Amounts} from '../core/buckets/bucket.js'

/** How a lease changes what it holds without its caller waiting for the write. */
export interface SoonActions<Holding> {
  /** As `correct` of the lease, but the write waits a moment for others, and is tried as often as that of a refund. */
  correct(holding: Holding, deltas: Amounts): Promise<void>
  /** Has what waits for the buckets of these holdings written now. */
  hurry(holdings: readonly Holding[]): void
  /** Resolves at once; closing waits for the work, and a warning tells of its failure. While closing, it waits itself. */
  accept(work: Promise<void>): Promise<void>
}

interface SoonOptions<Holding> {
  readonly queues: {
    correctSoon(holding: Holding, deltas: Amounts): Promise<void>
    hurry(holdings: readonly Holding[]): void
    run(work: Promise<unknown>): Promise<void>
  }
  /** Aborted when the limiter is being closed. */
  readonly closing: AbortSignal
  readonly warning: SettleWarning
  /** As for a correction that its caller waits for. */
  readonly handleFailure: (error: unknown) => Promise<void>
}

/** The actions of leases that are settled soon. */
export function soonActions<Holding>({
  queues,
  closing,
  warning,
  handleFailure,
}: SoonOptions<Holding>): SoonActions<Holding> {
  return {
    correct: (holding, deltas) => queues.correctSoon(holding, deltas),
    hurry: holdings => queues.hurry(holdings),
    accept: async work => {
      if (closing.aborted) await work.catch(handleFailure)
      else void queues.run(work.catch(error => warning.tell(error)))
    },
  }
}

/** Tells of corrections that were accepted and could not be written. */
export class SettleWarning {
  #hasWarned = false

  /** Once per limiter: a table that cannot be reached fails every correction. */
  tell(error: unknown): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    const why = error instanceof Error ? error.message : String(error)
    process.emitWarning(
      `A correction that was to be written soon may not have been written, so its lease stays charged as before. Said once per limiter: ${why}`,
      {type: 'ZaelWarning', code: 'ZAEL_SETTLE'},
    )
  }
}
