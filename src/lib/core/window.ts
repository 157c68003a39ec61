/** Spans over which usage is counted, all in UTC. The spelling is stored. */
export const WINDOWS = ['hourly', 'daily', 'monthly'] as const

export type Window = (typeof WINDOWS)[number]

/** Characters of `YYYY-MM-DDTHH` kept per window, and what completes them to the window's first second. */
const START: Record<Window, readonly [kept: number, rest: string]> = {
  hourly: [13, ':00:00Z'],
  daily: [10, 'T00:00:00Z'],
  monthly: [7, '-01T00:00:00Z'],
}

/** First second of the window that contains an instant, as `YYYY-MM-DDTHH:MM:SSZ`. */
export function windowStart(window: Window, atMs: number): string {
  const [kept, rest] = START[window]
  return new Date(atMs).toISOString().slice(0, kept) + rest
}

/** First millisecond after the window that starts at `start`. */
export function windowEndMs(window: Window, start: string): number {
  const date = new Date(start)
  if (window === 'hourly') return date.getTime() + 3_600_000
  if (window === 'daily') return date.getTime() + 86_400_000
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1)
}

/**
 * What tells one window of a resource from every other. Midnight starts an hour, a day and perhaps a month at the same
 * instant, so all but the hourly key carry the window's type; the hourly key stays as other clients write it.
 */
export function windowKey(window: Window, start: string): string {
  return window === 'hourly' ? start : `${start}#${window}`
}

/** The inverse of {@link windowKey}. Old records have no type in the key: they read as hourly. */
export function parseWindowKey(key: string): {window: Window; start: string} {
  const [start = '', suffix] = key.split('#')
  const window = WINDOWS.find(candidate => candidate === suffix) ?? 'hourly'
  return {window, start}
}

export type CoarseWindow = Exclude<Window, 'hourly'>

/**
 * Which days and months are rolled up: made from their hours once they are over, instead of being counted with every batch.
 * A window is one or the other as a whole, by its start. The table says which, so that all aggregators and readers agree.
 */
export class RollupSchedule {
  /** Per type, when rolling up began, ended, began again; ISO, ascending. */
  readonly switches: Readonly<Record<CoarseWindow, readonly string[]>>

  constructor(switches: Partial<Record<CoarseWindow, readonly string[]>> = {}) {
    this.switches = {daily: switches.daily ?? [], monthly: switches.monthly ?? []}
  }

  /** Whether the window that starts then is rolled up. Hours never are. */
  isRolled(window: Window, start: string): boolean {
    if (window === 'hourly') return false
    return this.switches[window].filter(instant => instant <= start).length % 2 === 1
  }

  /** Whether anything was to be rolled up by an instant, ISO. */
  hasBegun(instant: string): boolean {
    return Object.values(this.switches).some(([first]) => first !== undefined && first <= instant)
  }

  has(window: CoarseWindow): boolean {
    return this.switches[window].length > 0
  }
}
