import {formatCount, formatNumber, formatPlural, formatShortNumber} from '../../core/text/text.js'
import {LIST_DATE, LIST_PRICES, LIST_REGION} from '../../insight/cost/parts.js'
import type {CostReport, DayCost, ReportedPart} from '../../insight/cost/report.js'
import type {Cell, TextColumn} from '../output/table-layout.js'
import {findingLines, textTable} from '../output/text-table.js'
import type {CostResult} from './results.js'

export function costJson(report: CostReport): CostResult {
  return {
    ...report,
    days: report.days.map(({date, isComplete, counts, dollars, isUnread, isMeasured}) => ({
      date,
      complete: isComplete,
      admitted: counts?.admitted ?? null,
      refused: counts?.refused ?? null,
      dollars,
      source: dollars === null ? null : isMeasured ? 'measured' : 'estimated',
      unread: isUnread,
    })),
    parts: report.parts.map(({name, quantity, unit, dollars, perMillion, source}) => {
      return {name, quantity, unit, dollarsPerDay: dollars, dollarsPerMillion: perMillion, source}
    }),
    prices: {region: LIST_REGION, asOf: LIST_DATE, used: LIST_PRICES},
  }
}

export async function costLines(report: CostReport, width: number | undefined): Promise<string[]> {
  const table = async (columns: readonly TextColumn[], rows: readonly (readonly Cell[])[]) => [
    ...(await textTable(columns, rows, {header: true, width})),
  ]
  return [
    title(report),
    ...(await table(PART_COLUMNS, [...report.parts.map(partRow), totalRow(report)])),
    '',
    decisionsText(report),
    '',
    ...(await table(DAY_COLUMNS, report.days.map(dayRow))),
    ...findingLines('Notes', report.notes),
    '',
    ...footer(report),
  ]
}

function title({stack, region, averaged}: CostReport): string {
  const of = averaged.length === 1 ? averaged[0] : `${formatCount(averaged.length)} days`
  const days = averaged.length === 0 ? 'no traffic data' : `average of ${of} (UTC)`
  return `Cost of stack ${stack}, ${region ?? 'on this machine'}: ${averaged.length === 1 ? `${of} (UTC)` : days}`
}

const right = {align: 'right'} as const

const PART_COLUMNS: readonly TextColumn[] = [
  {name: 'part', header: 'PART', fit: 'whole'},
  {name: 'dollars', header: '$ A DAY', fit: 'whole', ...right},
  {name: 'million', header: '$ A MILLION', fit: 'whole', ...right},
  {name: 'quantity', header: 'A DAY', ...right},
  {name: 'unit', header: ''},
  {name: 'source', header: 'SOURCE'},
]

function partRow({name, dollars, perMillion, quantity, unit, source}: ReportedPart): Cell[] {
  return [name, money(dollars), money(perMillion), amount(quantity), unit, source]
}

function totalRow({dollarsPerDay, dollarsPerMillion}: CostReport): Cell[] {
  return ['total', money(dollarsPerDay), money(dollarsPerMillion), undefined, undefined, undefined]
}

function decisionsText({decisionsPerDay, dollarsPerMillion}: CostReport): string {
  if (decisionsPerDay === null) return 'Decisions a day: unknown'
  const each = dollarsPerMillion === null ? '' : `; $${money(dollarsPerMillion)} per million, without fixed costs`
  return `Decisions a day: ${formatNumber(decisionsPerDay, 'nearest', 0)}${each}`
}

const DAY_COLUMNS: readonly TextColumn[] = [
  {name: 'day', header: 'DAY', fit: 'whole'},
  {name: 'admitted', header: 'ADMITTED', ...right},
  {name: 'refused', header: 'REFUSED', ...right},
  {name: 'traffic', header: '$ OF TRAFFIC', fit: 'whole', ...right},
  {name: 'source', header: 'SOURCE'},
]

function dayRow({date, isComplete, counts, dollars, isMeasured, isUnread}: DayCost): Cell[] {
  const source = dollars === null ? (isUnread ? 'not read' : 'no data') : isMeasured ? 'measured' : 'estimated'
  const decisions = counts ? [counts.admitted, counts.refused].map(count => formatCount(Math.round(count))) : []
  return [date, decisions[0], decisions[1], money(dollars), isComplete ? source : `${source}, so far`]
}

function footer({read: {units, metrics}}: CostReport): string[] {
  const asked = metrics === 0 ? '' : ` and ${formatPlural(metrics, 'CloudWatch metric')}`
  return [
    `Prices: US dollars, list prices of ${LIST_REGION} (${LIST_DATE}) without the free tier`,
    `This report used ${formatNumber(units, 'nearest', 1)} read units of the table${asked}, and wrote nothing.`,
  ]
}

/** Without $: the header has it. Never shows a small amount as 0. */
function money(dollars: number | null): string | undefined {
  if (dollars === null) return undefined
  if (dollars > 0 && dollars < 0.005) return '<0.01'
  return dollars.toLocaleString('en', {minimumFractionDigits: 2, maximumFractionDigits: 2})
}

function amount(quantity: number | null): string | undefined {
  if (quantity === null) return undefined
  return quantity >= 10 ? formatCount(Math.round(quantity)) : formatShortNumber(quantity)
}
