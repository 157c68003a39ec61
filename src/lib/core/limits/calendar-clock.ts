import type {Rate} from '../token-math.js'

/** Instants at which a quota is restored; the calendar that names them is not known here. Epoch milliseconds. */
export interface ResetClock {
  /** The last reset at or before an instant; `undefined` when there was none. */
  lastMs(atMs: number): number | undefined
  /** The first reset after an instant; `undefined` when there will be none. */
  nextMs(atMs: number): number | undefined
}

export interface RateSchedule {
  /** What is in force at an instant, for the whole limit, and the first instant at which another answer may hold. */
  at(atMs: number, base: Rate): {readonly rate: Rate; readonly untilMs: number | undefined}
}
