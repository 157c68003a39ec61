/** UTC spans over which usage is counted. The spelling is stored. */
export const WINDOWS = ['hourly', 'daily', 'monthly'] as const

export type Window = (typeof WINDOWS)[number]

/** Characters of `YYYY-MM-DDTHH` kept, and the rest up to the first second. */
const START: Record<Window, readonly [kept: number, rest: string]> = {
  hourly: [13, ':00:00Z'],
  daily: [10, 'T00:00:00Z'],
  monthly: [7, '-01T00:00:00Z'],
}

export function windowStart(window: Window, atMs: number): string {
  const [kept, rest] = START[window]
  return new Date(atMs).toISOString().slice(0, kept) + rest
}

export function windowEndMs(window: Window, start: string): number {
  const date = new Date(start)
  if (window === 'hourly') return date.getTime() + 3_600_000
  if (window === 'daily') return date.getTime() + 86_400_000
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1)
}

/** Midnight can start an hour, a day and a month. Other clients write hourly keys without a type. */
export function windowKey(window: Window, start: string): string {
  return window === 'hourly' ? start : `${start}#${window}`
}

/** Old records have no type in the key and read as hourly. */
export function parseWindowKey(key: string): {window: Window; start: string} {
  const [start = '', suffix] = key.split('#')
  const window = WINDOWS.find(candidate => candidate === suffix) ?? 'hourly'
  return {window, start}
}

export type CoarseWindow = Exclude<Window, 'hourly'>

/**
 * Days and months that are rolled up from their hours when they end, instead of counted with every batch. Their start
 * decides. Stored in the table, so that all aggregators and readers agree.
 */
export class RollupSchedule {
  /** Instants at which rolling up began, ended, began again; ISO, ascending. */
  readonly switches: Readonly<Record<CoarseWindow, readonly string[]>>

  constructor(switches: Partial<Record<CoarseWindow, readonly string[]>> = {}) {
    this.switches = {daily: switches.daily ?? [], monthly: switches.monthly ?? []}
  }

  isRolled(window: Window, start: string): boolean {
    if (window === 'hourly') return false
    return this.switches[window].filter(instant => instant <= start).length % 2 === 1
  }

  hasBegun(instant: string): boolean {
    return Object.values(this.switches).some(([first]) => first !== undefined && first <= instant)
  }

  has(window: CoarseWindow): boolean {
    return this.switches[window].length > 0
  }
}
