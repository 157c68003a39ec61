import type {Limit} from '../../core/limits/limit.js'
import {type Window, windowEndMs} from '../../core/window.js'

/**
 * Whole tokens that a limit gives in one window: what is refilled meanwhile, or the burst if that is more (a limit per
 * day may be spent within an hour). Usage at the rate stays below it; a burst on top can pass it for one window.
 */
export function windowBudget(
  {capacity, refillAmount, refillPeriodSeconds}: Limit,
  window: Window,
  start: string,
): number {
  const seconds = (windowEndMs(window, start) - Date.parse(start)) / 1000
  return Math.max(capacity, Math.floor((refillAmount * seconds) / refillPeriodSeconds))
}
