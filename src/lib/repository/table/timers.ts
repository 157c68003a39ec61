/** A monotonic clock and its timers. */
export interface SteadyTimers {
  /** In ms, from any start. */
  now(): number
  /** Returns a function that cancels it. Does not keep the process running. */
  after(ms: number, run: () => void): () => void
}

export const SYSTEM_TIMERS: SteadyTimers = {
  now: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    timer.unref?.()
    return () => clearTimeout(timer)
  },
}
