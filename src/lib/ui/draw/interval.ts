import {formatShortSpan} from '../../core/text.js'

/** Times between polls that `+` and `-` step through. */
const STEPS_MS: readonly number[] = [1000, 2000, 5000, 10_000, 30_000, 60_000]

/** The next longer or shorter time between polls; the ends stay. */
export function changedInterval(intervalMs: number, step: 1 | -1): number {
  if (step === 1) return STEPS_MS.find(each => each > intervalMs) ?? intervalMs
  return STEPS_MS.findLast(each => each < intervalMs) ?? intervalMs
}

/** Exactly how often: `2s`, `1.5s`, `1m30s`. */
export const intervalText = (intervalMs: number): string =>
  intervalMs % 1000 === 0 ? formatShortSpan(intervalMs) : `${intervalMs / 1000}s`
