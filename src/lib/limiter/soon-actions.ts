import type {Amounts} from '../core/buckets/bucket.js'

export interface SoonActions<Holding> {
  /** As `correct` of the lease, but the write waits a moment for others, and is tried as often as that of a refund. */
  correct(holding: Holding, deltas: Amounts): Promise<void>
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
  readonly closing: AbortSignal
  readonly warning: SettleWarning
  readonly handleFailure: (error: unknown) => Promise<void>
}

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
