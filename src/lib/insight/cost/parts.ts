import type {CostSettings, PricedTable} from './priced-table.js'
import type {Prices} from './prices.js'
import type {DayUnits} from './units.js'

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

const MILLION = 1_000_000
const GB = 1_000_000_000
const DAYS_PER_MONTH = 30

/** Per run of the function. */
const LOG_BYTES = 1200

/** Per stack. Tests verify both counts. */
export const ALARM_METRICS = 18
export const FUNCTION_METRICS = 12

/** Dollars per unit. 0 with provisioned capacity, which is billed by the hour. */
export function unitPrices(prices: Prices, {provisioned}: Pick<PricedTable, 'provisioned'>) {
  const {writesPerMillion, readsPerMillion} = prices
  return provisioned ? {write: 0, read: 0} : {write: writesPerMillion / MILLION, read: readsPerMillion / MILLION}
}

/** Dollars, without the charge for duration. */
export const runsCost = (runs: number, {runsPerMillion, logsPerGb}: Prices): number =>
  runs * (runsPerMillion / MILLION + (LOG_BYTES / GB) * logsPerGb)

export function trafficParts(
  units: DayUnits,
  prices: Prices,
  stack: Pick<PricedTable, 'provisioned'> & CostSettings,
): CostPart[] {
  const {write, read} = unitPrices(prices, stack)
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
      dollars: runsCost(units.runs, prices) + units.gbSeconds * perGbSecond,
      source: total,
    },
  ]
}

export interface Monitoring {
  readonly alarmMetrics: number
  readonly dashboards: number
  readonly functionMetrics: number
  readonly isMeasured: boolean
}

/** Dollars per day. */
export function monitoringCost(monitoring: Monitoring, prices: Prices): number {
  const {alarmMetrics, dashboards, functionMetrics} = monitoring
  const perMonth =
    alarmMetrics * prices.alarmMetricPerMonth +
    dashboards * prices.dashboardPerMonth +
    functionMetrics * prices.metricPerMonth
  return perMonth / DAYS_PER_MONTH
}

export function fixedParts(table: PricedTable, monitoring: Monitoring, prices: Prices): CostPart[] {
  const {tableBytes, indexBytes, hasRecovery, provisioned} = table
  const {alarmMetrics, dashboards, functionMetrics, isMeasured} = monitoring
  const storedGb = (tableBytes + indexBytes) / GB
  const recovered = hasRecovery ? (tableBytes / GB) * prices.recoveryPerGbMonth : 0
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
      dollars: monitoringCost(monitoring, prices),
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
