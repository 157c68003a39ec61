import type {MeasuredDay} from '../../infra/health/daily-metrics.js'
import {indexes} from '../../schema/attributes.js'
import type {DayCounts} from './daily-counts.js'
import {type CostPart, type Monitoring, monitoringCost, runsCost, unitPrices} from './parts.js'
import type {CostSettings, PricedTable} from './priced-table.js'
import type {Prices} from './prices.js'
import {type DayUnits, estimateUsage, sum} from './units.js'

export interface CostChange {
  /** Flags of `zael deploy`, or a name if it has none. */
  readonly option: string
  /** Dollars per day. */
  readonly saves: number
  readonly effect: string
}

export interface KnownDay {
  readonly seconds: number
  readonly units: DayUnits
  readonly counts: DayCounts | undefined
  readonly measured: MeasuredDay | undefined
}

export interface ChangeSources {
  readonly days: readonly KnownDay[]
  /** Averaged over `days`. */
  readonly parts: readonly CostPart[]
  readonly settings: CostSettings
  readonly table: PricedTable
  readonly monitoring: Monitoring
  readonly prices: Prices
}

/** The default of new stacks. */
const LARGER_BATCH = {seconds: 30, records: 2600}

/** Share of provisioned capacity that the busiest hour may use. The rest absorbs shorter peaks. */
const UTILISATION = 0.7
const HOUR_SECONDS = 3600

export function cheaperOptions(sources: ChangeSources): CostChange[] {
  return [
    ...usageChanges(sources),
    ...indexChange(sources),
    ...capacityChange(sources),
    ...processorChange(sources),
    ...monitoringChanges(sources),
  ]
    .filter(({saves}) => saves > 0)
    .sort((a, b) => b.saves - a.saves)
}

/** The model gives only the ratio between settings. The amounts come from `parts`. */
function usageChanges({days, parts, settings, table, monitoring, prices}: ChangeSources): CostChange[] {
  const counted = days.flatMap(({counts, seconds}) => (counts ? [{counts, seconds}] : []))
  if (!settings.hasAggregator || counted.length === 0) return []
  const {write, read} = unitPrices(prices, table)
  const modelled = (other: Partial<CostSettings> = {}) => {
    const each = counted.map(({counts, seconds}) => estimateUsage(counts, seconds, {...settings, ...other}))
    const mean = (of: (usage: (typeof each)[number]) => number) => sum(each.map(of)) / each.length
    return {
      writes: mean(x => x.writes),
      indexes: mean(x => x.indexes),
      reads: mean(x => x.reads),
      runs: mean(x => x.runs),
    }
  }
  const now = modelled()
  const costOf = (name: CostPart['name']) => parts.find(part => part.name === name)?.dollars ?? 0
  const runs = parts.find(({name}) => name === 'function')?.quantity ?? 0
  const copies = table.copiesToIndex ? 2 : 1
  const entries = Math.min(now.indexes * write, costOf('indexes'))
  const larger = modelled({
    batchSeconds: LARGER_BATCH.seconds,
    batchRecords: Math.max(LARGER_BATCH.records, settings.batchRecords),
  })
  const coarse = modelled({usageWindows: ['daily', 'monthly']})
  const changes: CostChange[] = [
    {
      option: '--no-aggregator',
      saves:
        costOf('usage') * copies +
        entries +
        now.reads * read +
        costOf('function') +
        partOfMonitoring({monitoring, prices}, {functionMetrics: 0}),
      effect: 'no usage, no splitting of hot buckets, no archive of audit events',
    },
  ]
  if (settings.usageWindows.length === 3)
    changes.push({
      option: '--usage-windows daily,monthly',
      saves:
        costOf('usage') * copies * (1 - coarse.writes / now.writes) +
        entries * (1 - coarse.indexes / now.indexes) +
        (now.reads - coarse.reads) * read,
      effect: 'no usage per hour',
    })
  if (settings.batchSeconds < LARGER_BATCH.seconds)
    changes.push({
      option: `--batch-window ${LARGER_BATCH.seconds} --batch-size ${Math.max(LARGER_BATCH.records, settings.batchRecords)}`,
      saves:
        costOf('usage') * copies * (1 - larger.writes / now.writes) +
        runsCost(runs, prices) * (1 - larger.runs / now.runs),
      effect: `usage is counted up to ${LARGER_BATCH.seconds} s later`,
    })
  return changes
}

function partOfMonitoring(
  {monitoring, prices}: Pick<ChangeSources, 'monitoring' | 'prices'>,
  without: Partial<Monitoring>,
) {
  return monitoringCost(monitoring, prices) - monitoringCost({...monitoring, ...without}, prices)
}

/** An index with projection ALL is written with every record write, a keys-only index only with new records. */
function indexChange({days, table, settings, prices}: ChangeSources): CostChange[] {
  const counted = days.flatMap(({counts, seconds, units}) => (counts ? [{counts, seconds, units}] : []))
  if (!table.copiesToIndex || counted.length === 0) return []
  const copies = counted.map(({counts, seconds, units}) => {
    const {indexes: entries} = estimateUsage(counts, seconds, settings)
    const all = units.byIndex
      ? (units.byIndex[indexes.resource] ?? 0) - entries / 2
      : (units.admissions ?? 0) + (units.usage ?? 0)
    return Math.max(0, all)
  })
  const saves = (sum(copies) / copies.length) * unitPrices(prices, table).write
  return [
    {
      option: '--resource-index keys-only',
      saves,
      effect: 'the index is rebuilt; Python clients that query by resource need "all"',
    },
  ]
}

function capacityChange({days, parts, table, prices}: ChangeSources): CostChange[] {
  const measured = days.flatMap(day => day.measured ?? [])
  if (table.provisioned || measured.length < days.length || days.length === 0) return []
  const needed = (kind: 'reads' | 'writes') =>
    Math.ceil(Math.max(...measured.map(({busiestHour}) => busiestHour[kind])) / HOUR_SECONDS / UTILISATION)
  const [reads, writes] = [needed('reads'), needed('writes')]
  const perDay = (reads * prices.provisionedReadPerHour + writes * prices.provisionedWritePerHour) * 24
  const onDemand = sum(
    parts.filter(({unit}) => unit === 'write units' || unit === 'read units').map(({dollars}) => dollars),
  )
  const size = `${reads} read and ${writes} write units a second`
  const effect = `${size} for the busiest hour; higher peaks are throttled, and zael deploy has no option for it`
  return [{option: 'provisioned capacity', saves: onDemand - perDay, effect}]
}

function processorChange({days, settings, prices}: ChangeSources): CostChange[] {
  if (settings.architecture !== 'x86_64' || days.length === 0) return []
  const gbSeconds = sum(days.map(({units}) => units.gbSeconds)) / days.length
  const saves = gbSeconds * (prices.x86PerGbSecond - prices.armPerGbSecond)
  return [{option: '--lambda-architecture arm64', saves, effect: 'nothing else changes'}]
}

function monitoringChanges(sources: ChangeSources): CostChange[] {
  return [
    {
      option: '--no-alarms',
      saves: partOfMonitoring(sources, {alarmMetrics: 0}),
      effect: 'nobody is told of errors, lag and throttling',
    },
    {
      option: '--no-dashboard',
      saves: partOfMonitoring(sources, {dashboards: 0}),
      effect: 'the first three of an account are free anyway',
    },
  ]
}
