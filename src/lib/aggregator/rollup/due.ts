import {type CoarseWindow, type Window, windowEndMs, windowStart} from '../../core/window.js'

/**
 * When a window is swept, in ms after its end. What is counted in it after `LATE_MS` is rolled up by whoever counted it. The
 * time between the two covers clocks that differ: what is counted without being rolled up is there before the sweep reads.
 */
const SWEPT_MS: Readonly<Record<CoarseWindow, number>> = {daily: 5 * 60_000, monthly: 60 * 60_000}
const LATE_MS: Readonly<Record<CoarseWindow, number>> = {daily: 60_000, monthly: 30 * 60_000}

/** Whether what is counted in a window now has to be rolled up at once. */
export function isLate(window: CoarseWindow, start: string, nowMs: number): boolean {
  return nowMs >= windowEndMs(window, start) + LATE_MS[window]
}

export function lastSwept(window: CoarseWindow, nowMs: number): string {
  const running = windowStart(window, nowMs - SWEPT_MS[window])
  return windowStart(window, Date.parse(running) - 1)
}

export const startWithin = (window: Window, start: string): string => windowStart(window, Date.parse(start))

/** When a window that was to be swept is forgotten, in epoch seconds. */
export function forgottenAt(window: CoarseWindow, start: string): number {
  return Math.floor(windowEndMs(window, start) / 1000) + 40 * 86_400
}
