import type {MeasuredDay} from '../../infra/health/daily-metrics.js'
import type {DayCounts} from './daily-counts.js'
import type {CostSettings} from './priced-table.js'

/** Table writes are split by purpose. An unknown part is `null` and included in `others`. */
export interface DayUnits {
  readonly isMeasured: boolean
  /** Table write units. */
  readonly admissions: number | null
  readonly refusals: number | null
  readonly usage: number | null
  readonly others: number | null
  /** Index write units, in total and per index (`null`: not measured). */
  readonly indexes: number
  readonly byIndex: Readonly<Record<string, number>> | null
  readonly reads: number
  readonly runs: number
  readonly gbSeconds: number
}

export interface UnitSettings extends CostSettings {
  readonly copiesToIndex: boolean
}

// Units per operation. bench/cost.ts measures them; docs/load.md and decision 34 explain them.
const INDEX_ENTRIES_OF_USAGE = 2
const READS_OF_A_ROLL_UP = 4
const HOUR_SECONDS = 3600

/** Lambda passes 6 MB at most, and the change of a bucket with two limits takes about 2,486 bytes. */
export const RECORDS_PER_CALL = 2530

/** About one second per run, as in docs/deploying.md. */
const RUN_SECONDS = 1

/** Expected number of slots with at least one event, if every slot is equally likely. */
function occupied(events: number, slots: number): number {
  const all = Math.max(1, slots)
  return all * (1 - (1 - 1 / all) ** events)
}

/** Assumes that the requests of a bucket are spread over the day. */
function estimateUsage({perBucket}: DayCounts, seconds: number, settings: CostSettings) {
  const {batchSeconds, batchRecords, usageWindows} = settings
  const bucketWrites = sum(perBucket)
  // A batch ends when its time is over or when it is full.
  const batches = Math.max(seconds / Math.max(1, batchSeconds), bucketWrites / Math.min(batchRecords, RECORDS_PER_CALL))
  const isRolledUp = usageWindows.includes('hourly') && usageWindows.includes('daily')
  const perBatch = isRolledUp ? 1 : usageWindows.length
  const used = perBucket.map(requests => Math.max(1, requests))
  const hours = usageWindows.includes('hourly') ? sum(used.map(each => occupied(each, seconds / HOUR_SECONDS))) : 0
  const days = usageWindows.includes('daily') ? used.length : 0
  return {
    writes: sum(used.map(each => occupied(each, batches))) * perBatch + (isRolledUp ? days : 0),
    indexes: (hours + days) * INDEX_ENTRIES_OF_USAGE,
    reads: isRolledUp ? days * READS_OF_A_ROLL_UP : 0,
    runs: occupied(bucketWrites, batches),
  }
}

export function estimateDay(counts: DayCounts, seconds: number, settings: UnitSettings): DayUnits {
  const usage = estimateUsage(counts, seconds, settings)
  const admissions = sum(counts.perBucket)
  const copies = settings.copiesToIndex ? admissions + usage.writes : 0
  return {
    isMeasured: false,
    admissions,
    refusals: counts.refused,
    usage: usage.writes,
    others: null,
    indexes: usage.indexes + copies,
    byIndex: null,
    reads: usage.reads,
    runs: usage.runs,
    gbSeconds: usage.runs * RUN_SECONDS * gb(settings),
  }
}

/** Counts only divide measured writes: batched requests share a write, and locally known refusals cost none. */
export function measuredDay(measured: MeasuredDay, counts: DayCounts | undefined, settings: CostSettings): DayUnits {
  const {writes, indexWrites, reads, indexReads, runs, runMs, usageWrites} = measured
  const usage = usageWrites === null ? null : Math.min(usageWrites, writes)
  const ofServices = writes - (usage ?? 0)
  const admissions = counts ? Math.min(sum(counts.perBucket), ofServices) : null
  const refusals = counts ? Math.min(counts.refused, ofServices - (admissions ?? 0)) : null
  return {
    isMeasured: true,
    admissions,
    refusals,
    usage,
    others: ofServices - (admissions ?? 0) - (refusals ?? 0),
    indexes: sum(Object.values(indexWrites)),
    byIndex: indexWrites,
    reads: reads + indexReads,
    runs,
    gbSeconds: (runMs / 1000) * gb(settings),
  }
}

const gb = ({memoryMb}: CostSettings): number => memoryMb / 1024

export const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)
