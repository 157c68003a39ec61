import {formatShortSpan} from '../../core/text/text.js'

/** An exact interval: `2s`, `1.5s`, `1m30s`. */
export const intervalText = (intervalMs: number): string =>
  intervalMs % 1000 === 0 ? formatShortSpan(intervalMs) : `${intervalMs / 1000}s`
