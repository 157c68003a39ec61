import {readFileSync} from 'node:fs'

const TICKS_PER_SECOND = 100

/** Processor time so far; depends least on other load. NaN if unknown. */
export function cpuSecondsOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return (Number(stat[11]) + Number(stat[12])) / TICKS_PER_SECOND
  } catch {
    return Number.NaN
  }
}

export interface Measured {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Per operation, of this process without the engine, in µs. */
  readonly cpuMicros: number
}

/** Runs `operation` repeatedly, `concurrency` at a time, for about `durationMs`. */
export async function measure(
  operation: () => Promise<unknown>,
  concurrency: number,
  durationMs: number,
): Promise<Measured> {
  const latenciesMs: number[] = []
  const startedMs = performance.now()
  const startedCpu = process.cpuUsage()
  const lane = async (): Promise<void> => {
    while (performance.now() - startedMs < durationMs) {
      const sentMs = performance.now()
      await operation()
      latenciesMs.push(performance.now() - sentMs)
    }
  }
  await Promise.all(Array.from({length: concurrency}, lane))
  const elapsedMs = performance.now() - startedMs
  const {user, system} = process.cpuUsage(startedCpu)
  return {
    perSecond: (latenciesMs.length * 1000) / elapsedMs,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    cpuMicros: (user + system) / latenciesMs.length,
  }
}

export function percentile(numbers: readonly number[], share: number): number {
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}

/** By processor time, so that one disturbed round does not matter. */
export function median(rounds: readonly Measured[]): Measured {
  const sorted = rounds.toSorted((a, b) => a.cpuMicros - b.cpuMicros)
  return sorted[Math.floor(sorted.length / 2)] as Measured
}
