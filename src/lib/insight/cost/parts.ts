import type {MeasuredDay} from '../../infra/health/metrics.js'
import type {DayCounts} from './daily-counts.js'
import type {CostSettings, Monitoring, PricedTable} from './measured.js'

/** Parts that depend on traffic first, then fixed parts. */
export const COST_PARTS = [
  'admissions',
  'refusals',
  'usage',
  'other writes',
  'indexes',
  'reads',
  'stream',
  'function',
  'provisioned',
  'stored',
  'monitoring',
] as const
export type CostPartName = (typeof COST_PARTS)[number]

/** `measured`: by AWS. `divided`: a measured total split by counters. `estimated`: counters times unit costs. */
export type CostSource = 'measured' | 'divided' | 'estimated'

export interface CostPart {
  readonly name: CostPartName
  /** `null`: unknown. */
  readonly quantity: number | null
  readonly unit: string
  readonly dollars: number
  readonly source: CostSource
}

export const LIST_REGION = 'us-east-1'
export const LIST_DATE = '2026-11'

/**
 * In US dollars, without the free tier, also in docs/cost.md: https://aws.amazon.com/dynamodb/pricing/,
 * https://aws.amazon.com/lambda/pricing/, https://aws.amazon.com/cloudwatch/pricing/.
 */
export const LIST_PRICES = {
  writesPerMillion: 0.625,
  readsPerMillion: 0.125,
  /** For one unit per second. */
  provisionedWritePerHour: 0.00065,
  provisionedReadPerHour: 0.00013,
  /** Storage of table and indexes. Recovery covers the table only. */
  storedPerGbMonth: 0.25,
  recoveryPerGbMonth: 0.2,
  runsPerMillion: 0.2,
  armPerGbSecond: 0.0000133334,
  x86PerGbSecond: 0.0000166667,
  logsPerGb: 0.5,
  alarmMetricPerMonth: 0.1,
  dashboardPerMonth: 3,
  metricPerMonth: 0.3,
}

const MILLION = 1_000_000
const GB = 1_000_000_000
const DAYS_PER_MONTH = 30

/** Per run of the function. */
const LOG_BYTES = 1200

export function trafficParts(units: DayUnits, stack: Pick<PricedTable, 'provisioned'> & CostSettings): CostPart[] {
  const prices = LIST_PRICES
  // Provisioned capacity is billed by the hour.
  const [write, read] = stack.provisioned
    ? [0, 0]
    : [prices.writesPerMillion / MILLION, prices.readsPerMillion / MILLION]
  const perRun = prices.runsPerMillion / MILLION + (LOG_BYTES / GB) * prices.logsPerGb
  const total: CostSource = units.isMeasured ? 'measured' : 'estimated'
  const share: CostSource = units.isMeasured ? 'divided' : 'estimated'
  const writes = (name: CostPartName, quantity: number | null, source: CostSource): CostPart => {
    return {name, quantity, unit: 'write units', dollars: (quantity ?? 0) * write, source}
  }
  const counted = (name: CostPartName, quantity: number | null) =>
    quantity === null ? [] : [writes(name, quantity, share)]
  const perGbSecond = stack.architecture === 'x86_64' ? prices.x86PerGbSecond : prices.armPerGbSecond
  return [
    ...counted('admissions', units.admissions),
    ...counted('refusals', units.refusals),
    writes('usage', units.usage, total),
    ...counted('other writes', units.others),
    writes('indexes', units.indexes, total),
    {name: 'reads', quantity: units.reads, unit: 'read units', dollars: units.reads * read, source: total},
    {name: 'stream', quantity: null, unit: 'free for Lambda', dollars: 0, source: total},
    {
      name: 'function',
      quantity: units.runs,
      unit: 'runs',
      dollars: units.runs * perRun + units.gbSeconds * perGbSecond,
      source: total,
    },
  ]
}

export function fixedParts(table: PricedTable, monitoring: Monitoring): CostPart[] {
  const prices = LIST_PRICES
  const {tableBytes, indexBytes, hasRecovery, provisioned} = table
  const {alarmMetrics, dashboards, functionMetrics, isMeasured} = monitoring
  const storedGb = (tableBytes + indexBytes) / GB
  const recovered = hasRecovery ? (tableBytes / GB) * prices.recoveryPerGbMonth : 0
  const monitoringPerMonth =
    alarmMetrics * prices.alarmMetricPerMonth +
    dashboards * prices.dashboardPerMonth +
    functionMetrics * prices.metricPerMonth
  const parts: CostPart[] = [
    {
      name: 'stored',
      quantity: storedGb,
      unit: hasRecovery ? 'GB, with recovery' : 'GB',
      dollars: (storedGb * prices.storedPerGbMonth + recovered) / DAYS_PER_MONTH,
      source: 'measured',
    },
    {
      name: 'monitoring',
      quantity: alarmMetrics + dashboards + functionMetrics,
      unit: 'metrics and dashboards',
      dollars: monitoringPerMonth / DAYS_PER_MONTH,
      source: isMeasured ? 'measured' : 'estimated',
    },
  ]
  if (!provisioned) return parts
  const {reads, writes} = provisioned
  const perHour = reads * prices.provisionedReadPerHour + writes * prices.provisionedWritePerHour
  const unit = 'read and write units a second'
  return [{name: 'provisioned', quantity: reads + writes, unit, dollars: perHour * 24, source: 'measured'}, ...parts]
}

export function averageParts(days: readonly (readonly CostPart[])[]): CostPart[] {
  return COST_PARTS.flatMap(name => {
    const each = days.flatMap(parts => parts.find(part => part.name === name) ?? [])
    const [first] = each
    if (!first) return []
    const known = each.filter(({quantity}) => quantity !== null)
    const mean = (of: (part: CostPart) => number) => each.reduce((all, part) => all + of(part), 0) / days.length
    return {
      ...first,
      quantity: known.length === 0 ? null : mean(({quantity}) => quantity ?? 0),
      dollars: mean(({dollars}) => dollars),
      // An average is only as good as its worst part.
      source:
        (['estimated', 'divided', 'measured'] as const).find(source => each.some(part => part.source === source)) ??
        'estimated',
    }
  })
}

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

// Units per operation. bench/cost.ts measures them; docs/load.md and decision 34 explain them.
const INDEX_ENTRIES_OF_USAGE = 2
const READS_OF_A_ROLL_UP = 4
const HOUR_SECONDS = 3600

/** Lambda passes 6 MB at most, and the change of a bucket with two limits takes about 2,486 bytes. */
export const RECORDS_PER_CALL = 2530

/** Per run, as docs/cost.md says of estimates. */
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

export function estimateDay(
  counts: DayCounts,
  seconds: number,
  settings: CostSettings & Pick<PricedTable, 'copiesToIndex'>,
): DayUnits {
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
