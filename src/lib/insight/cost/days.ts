const DAY_MS = 86_400_000

/** A day in UTC. */
export interface Day {
  /** `YYYY-MM-DD`. */
  readonly date: string
  readonly startMs: number
  /** Exclusive; of today, now. */
  readonly endMs: number
  readonly isComplete: boolean
}

/** So many days that are over, and today so far; oldest first. */
export function daysUntil(nowMs: number, count: number): Day[] {
  const todayMs = Math.floor(nowMs / DAY_MS) * DAY_MS
  return Array.from({length: count + 1}, (_, at) => {
    const startMs = todayMs - (count - at) * DAY_MS
    const isComplete = at < count
    return {date: dateOf(startMs), startMs, endMs: isComplete ? startMs + DAY_MS : Math.floor(nowMs) + 1, isComplete}
  })
}

const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
