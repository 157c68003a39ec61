import type {MeasuredDay} from '../../infra/health/daily-metrics.js'
import type {DayCounts} from './daily-counts.js'
import type {CostSettings} from './priced-table.js'

/**
 * What one day has consumed. Table writes are divided by what they were for; a part that nothing tells is `null`, and
 * then among the others.
 */
export interface DayUnits {
  /** Whether the totals come from CloudWatch. */
  readonly isMeasured: boolean
  /** Write units of the table. */
  readonly admissions: number | null
  readonly refusals: number | null
  readonly usage: number | null
  readonly others: number | null
  /** Write units of all indexes together, and of each as far as they are measured. */
  readonly indexes: number
  readonly byIndex: Readonly<Record<string, number>> | null
  /** Read units of table and indexes. */
  readonly reads: number
  readonly runs: number
  readonly gbSeconds: number
}

export interface UnitSettings extends CostSettings {
  /** Whether every write of a bucket or a usage record is repeated in the index of resources. */
  readonly copiesToIndex: boolean
}

// Units of one operation: bench/cost.ts measures them, docs/load.md and decision 34 explain them.
const INDEX_ENTRIES_OF_USAGE = 2
const READS_OF_A_ROLL_UP = 4
const HOUR_SECONDS = 3600

/** A run of the function takes about a second, as in docs/deploying.md. */
const RUN_SECONDS = 1

/** How many of some slots have at least one of so many events, if each is as likely in every slot. */
function occupied(events: number, slots: number): number {
  const all = Math.max(1, slots)
  return all * (1 - (1 - 1 / all) ** events)
}

/** Usage of one day as the function writes it, if the requests of a bucket are spread over the day. */
export function estimateUsage({perBucket}: DayCounts, seconds: number, settings: CostSettings) {
  const {batchSeconds, batchRecords, usageWindows} = settings
  const bucketWrites = sum(perBucket)
  // A batch is handed over when its time is over or when it is full.
  const batches = Math.max(seconds / Math.max(1, batchSeconds), bucketWrites / batchRecords)
  const isRolledUp = usageWindows.includes('hourly') && usageWindows.includes('daily')
  const perBatch = isRolledUp ? 1 : usageWindows.length
  const used = perBucket.map(requests => Math.max(1, requests))
  const hours = usageWindows.includes('hourly') ? sum(used.map(each => occupied(each, seconds / HOUR_SECONDS))) : 0
  const days = usageWindows.includes('daily') ? used.length : 0
  return {
    writes: sum(used.map(each => occupied(each, batches))) * perBatch + (isRolledUp ? days : 0),
    /** New records are in two indexes. */
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

/**
 * What CloudWatch has counted. The counts divide the table's writes: requests that came together share a write, and
 * refusals that a process knows already cost none, so of more than there was only what there was is theirs.
 */
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
