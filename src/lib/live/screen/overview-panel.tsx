import {memo, useMemo} from 'react'
import {GROWTH_UNITS_PER_SECOND} from '../../core/buckets/shards.js'
import {gauge, sparkline} from '../../core/text/gauge.js'
import {MONEY_DECIMALS} from '../../core/text/money.js'
import {printableText} from '../../core/text/printable.js'
import {
  formatShortNumber,
  formatShortPercent,
  formatShortSpan,
  formatShortTokens,
  SHORT_NUMBER_WIDTH,
  SHORT_SPAN_WIDTH,
} from '../../core/text/text.js'
import {textWidth} from '../../core/text/text-width.js'
import {switchWord} from '../../repository/buckets/view.js'
import type {RowStatus, SortKey} from '../model/model.js'
import {refusedPerSecond} from '../model/request-counts.js'
import {isByOther, type Row} from '../model/status.js'
import type {Frame} from './frame.js'
import type {GlyphSet} from './glyphs.js'
import {isOutdated} from './header-panel.js'
import {cell, type Line, type Segment, seg, shortened, type Tone} from './line.js'
import {ScreenLine} from './screen-line.js'

type OverviewKey =
  | 'entity'
  | 'resource'
  | 'gauge'
  | 'level'
  | 'limit'
  | 'rate'
  | 'refused'
  | 'history'
  | 'shards'
  | 'pressure'
  | 'eta'

interface OverviewColumn extends PanelColumn<OverviewKey> {
  readonly sort?: SortKey
}

const NORMAL = 80
const WIDE = 120

export const LEVEL_WIDTH = 2 * SHORT_NUMBER_WIDTH + 1
const ETA_WIDTH = SHORT_SPAN_WIDTH + 1
export const REFUSED_WIDTH = 9
/** Cursor, status, space. */
export const MARGIN = 3

const PLAN: ColumnPlan<OverviewKey, ColumnRule<OverviewKey> & Pick<OverviewColumn, 'sort'>> = {
  rules: [
    {key: 'entity', title: 'ENTITY', sort: 'entity', least: 10},
    {key: 'resource', title: 'RESOURCE', sort: 'resource', least: 8},
    {key: 'gauge', title: 'LEVEL', least: 8},
    {key: 'level', title: 'LEFT/CAP', sort: 'left', least: LEVEL_WIDTH},
    {key: 'limit', title: 'LIMIT', least: 5},
    {key: 'rate', title: 'USED/S', sort: 'rate', least: SHORT_NUMBER_WIDTH + 1, from: NORMAL, align: 'right'},
    {key: 'refused', title: 'REFUSED/S', sort: 'refused', least: REFUSED_WIDTH, align: 'right'},
    {key: 'history', title: 'IN USE', least: 12, from: WIDE},
    {key: 'shards', title: 'SHARDS', sort: 'shards', least: 7, from: NORMAL, align: 'right'},
    {key: 'pressure', title: 'WRITES', sort: 'pressure', least: 7, from: WIDE, align: 'right'},
    {key: 'eta', title: 'UNTIL', sort: 'empty', least: ETA_WIDTH, align: 'right'},
  ],
  importance: [
    'entity',
    'resource',
    'level',
    'gauge',
    'refused',
    'eta',
    'rate',
    'limit',
    'shards',
    'pressure',
    'history',
  ],
  growth: [
    ['entity', 16],
    ['resource', 12],
    ['history', 24],
    ['entity', 24],
    ['gauge', 12],
    ['resource', 20],
    ['history', 60],
    ['limit', 10],
    ['entity', 36],
    ['gauge', 24],
    ['resource', 40],
    ['entity', 256],
    ['resource', 64],
  ],
  margin: MARGIN,
}

const WIDE_NAMES_PLAN: typeof PLAN = {
  ...PLAN,
  importance: ['entity', 'resource', 'level', 'refused', 'eta', 'rate'],
  growth: [
    ['entity', 40],
    ['resource', 64],
    ['entity', 256],
  ],
}

export const overviewColumns = (screenWidth: number, isWide: boolean): OverviewColumn[] =>
  fitColumns(isWide ? WIDE_NAMES_PLAN : PLAN, screenWidth)

const HIGH_PRESSURE = GROWTH_UNITS_PER_SECOND / 1000

const DESCENDING: ReadonlySet<SortKey> = new Set(['rate', 'refused', 'pressure', 'shards'])

export const TONE_OF_STATUS: Readonly<Record<RowStatus, Tone>> = {
  ok: 'ok',
  overdrawn: 'near',
  near: 'near',
  over: 'over',
  disabled: 'disabled',
  gone: 'dim',
}

function overviewTitles({state, settings, ranking}: Frame, columns: readonly OverviewColumn[]): Line {
  const {glyphs} = settings
  const {sort, reversed} = state.selection
  const isAscending = DESCENDING.has(sort) === reversed
  const titles = columns.map(column => {
    if (column.sort !== sort) return fitted(column.title, column, glyphs)
    const arrow = isAscending ? glyphs.ascending : glyphs.descending
    const room = column.width - arrow.length
    const title = sort === 'rate' ? rateTitle(column, ranking.rateLimit, room, glyphs) : column.title
    return fitted(shortened(title, room, '') + arrow, column, glyphs)
  })
  return [seg(`   ${titles.join(' ')}`, 'dim')]
}

function rateTitle({title}: OverviewColumn, limit: string | undefined, room: number, {ellipsis}: GlyphSet): string {
  return limit === undefined ? title : `${shortened(limit, room - 2, ellipsis)}/S`
}

export function Overview({frame}: {readonly frame: Frame}) {
  const {rows, cursor, size, state, settings, data, ranking} = frame
  const columns = useMemo(() => overviewColumns(size.columns, state.isWide), [size.columns, state.isWide])
  const selectedId = ranking.ids[cursor.index]
  const isByRate = state.selection.sort === 'rate'
  const rateOf = ({rates, ratePerSecond}: Row): number | null =>
    isByRate ? (rates.get(ranking.rateLimit ?? '') ?? null) : ratePerSecond
  const unitOf = (name: string | undefined) => (name === undefined ? undefined : data.units.get(name))
  return (
    <>
      <ScreenLine line={overviewTitles(frame, columns)} />
      {rows.length === 0 && <ScreenLine line={[seg(`   ${emptyText(frame)}`, 'dim')]} />}
      {rows.map((row, at) => {
        const reading = data.readings.get(row.id)
        return (
          <OverviewRow
            // By position: Ink changes the text of a line more cheaply than it moves lines.
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have no state of their own
            key={at}
            row={row}
            ratePerSecond={rateOf(row)}
            unit={unitOf(row.tightest?.name)}
            rateUnit={unitOf(isByRate ? ranking.rateLimit : row.tightest?.name)}
            columns={columns}
            glyphs={settings.glyphs}
            name={data.names.get(row.entity)}
            isSelected={row.id === selectedId}
            isOld={reading !== undefined && isOutdated(reading, data)}
            isGone={reading?.isGone === true}
          />
        )
      })}
    </>
  )
}

function emptyText({data, state}: Frame): string {
  if (data.readings.size > 0) return `No buckets match "${state.selection.filter}". Esc clears the filter.`
  return data.lastPoll ? 'No buckets: nothing was consumed yet, or all have expired.' : 'Loading.'
}

interface RowProps {
  readonly row: Row
  /** Of the limit that the rows are sorted by, or of the tightest one. */
  readonly ratePerSecond: number | null
  /** Currencies of the tightest limit and of the rate; `undefined`: tokens. */
  readonly unit: string | undefined
  readonly rateUnit: string | undefined
  readonly columns: readonly OverviewColumn[]
  readonly glyphs: GlyphSet
  readonly name: string | undefined
  readonly isSelected: boolean
  readonly isOld: boolean
  readonly isGone: boolean
}

const OverviewRow = memo(function OverviewRow(props: RowProps) {
  const line = rowLine(props)
  return <ScreenLine line={props.isGone ? line.map(({text}) => seg(text, 'dim')) : line} />
})

function rowLine(props: RowProps): Line {
  const {ratePerSecond, columns, glyphs, name, isSelected, isOld, unit, rateUnit, ...rest} = props
  const row = {...rest.row, ratePerSecond}
  const status = seg(glyphs.status[row.status], TONE_OF_STATUS[row.status])
  const margin = [seg(isSelected ? glyphs.cursor : ' ', 'strong'), status, seg(isOld ? glyphs.old : ' ', 'near')]
  const reason = reasonBesidesLevel(row, glyphs)
  const insteadOf = reason && reasonColumn(columns)
  const cells = columns.map(column => {
    if (reason && column.key === insteadOf)
      return [seg(cell(reason, column.width, glyphs.ellipsis), row.status === 'disabled' ? 'disabled' : 'over')]
    if (column.key !== 'entity') return [cellOf(row, column, {glyphs, isSelected, unit, rateUnit})]
    return entityCell(row.entity, name, column.width, glyphs, isSelected)
  })
  return [...margin, ...cells.flatMap((each, at) => (at === 0 ? each : [seg(' '), ...each]))]
}

function reasonBesidesLevel({view, refusedBy}: Row, {fills}: GlyphSet): string | undefined {
  return switchWord(view) ?? (isByOther(refusedBy) ? `${fills} ${refusedBy}` : undefined)
}

const reasonColumn = (columns: readonly OverviewColumn[]): OverviewKey =>
  columns.some(({key}) => key === 'gauge') ? 'gauge' : 'level'

function entityCell(
  entity: string,
  name: string | undefined,
  width: number,
  {ellipsis}: GlyphSet,
  isSelected: boolean,
): Line {
  const tone = isSelected ? 'chosen' : 'plain'
  const room = width - textWidth(printableText(entity)) - 1
  if (name === undefined || room < LEAST_NAME_WIDTH) return [seg(cell(entity, width, ellipsis), tone)]
  return [seg(entity, tone), seg(` ${cell(name, room, ellipsis)}`, 'dim')]
}

const LEAST_NAME_WIDTH = 3

function cellOf(
  row: Row,
  {key, width}: OverviewColumn,
  {glyphs, isSelected, unit, rateUnit}: Pick<RowProps, 'glyphs' | 'isSelected' | 'unit' | 'rateUnit'>,
): Segment {
  const right = (text: string, tone: Tone = 'plain') => seg(cell(text, width, glyphs.ellipsis, 'right'), tone)
  const name = (text: string) => seg(cell(text, width, glyphs.ellipsis), isSelected ? 'chosen' : 'plain')
  const {tightest, ratePerSecond, status} = row
  switch (key) {
    case 'entity':
      return name(row.entity)
    case 'resource':
      return name(row.resource)
    case 'gauge':
      if (!tightest) return seg(' '.repeat(width))
      return seg(gauge(tightest.level, tightest.capacity, width, glyphs), TONE_OF_STATUS[status])
    case 'level':
      return seg(cell(tightest ? levelText(tightest, unit) : `${glyphs.dash} no limit`, width, glyphs.ellipsis))
    case 'limit':
      return seg(cell(tightest?.name ?? '', width, glyphs.ellipsis), 'dim')
    case 'rate':
      return right(ratePerSecond === null ? glyphs.dash : formatShortTokens(ratePerSecond, rateUnit))
    case 'refused': {
      const refused = refusedPerSecond(row.requests)
      return right(refused === null ? glyphs.dash : formatShortNumber(refused), refused ? 'over' : 'plain')
    }
    case 'history':
      return seg(sparkline(row.used, width, glyphs), 'history')
    case 'shards':
      return right(
        row.shardCount === 1 ? '1' : `${row.shardCount}${glyphs.plusMinus}${formatShortPercent(row.imbalance)}`,
      )
    case 'pressure': {
      if (row.rates.size === 0) return right(glyphs.dash)
      const isHigh = row.writePressure >= HIGH_PRESSURE
      return right(
        `${isHigh ? `${glyphs.pressure} ` : ''}${formatShortPercent(row.writePressure)}`,
        isHigh ? 'near' : 'plain',
      )
    }
    case 'eta':
      return right(...untilText(row, glyphs))
  }
}

/** Aligned at the slash: `  12.3k/100k  `. Money shows its currency twice, or once if there is no room. */
export function levelText(
  {level, capacity}: {readonly level: number; readonly capacity: number},
  unit: string | undefined,
): string {
  const [left, most] = [formatShortTokens(level, unit, 'down'), formatShortTokens(capacity, unit)]
  const hasRoom = unit === undefined || `${left}/${most}`.length <= LEVEL_WIDTH
  const shown = hasRoom ? left : formatShortNumber(level / 10 ** MONEY_DECIMALS, 'down')
  return `${shown.padStart(SHORT_NUMBER_WIDTH)}/${most.padEnd(SHORT_NUMBER_WIDTH)}`
}

export function untilText({emptyInMs, fullInMs, status}: Row, glyphs: GlyphSet): [text: string, tone: Tone] {
  if (emptyInMs !== null && emptyInMs > 0) return [glyphs.empties + formatShortSpan(emptyInMs), TONE_OF_STATUS[status]]
  if (fullInMs === 0) return ['full', 'plain']
  if (fullInMs !== null) return [glyphs.fills + formatShortSpan(fullInMs), 'plain']
  return [emptyInMs === 0 ? 'empty' : glyphs.dash, 'plain']
}

export interface PanelColumn<K extends string> {
  readonly key: K
  readonly title: string
  readonly align?: 'right'
  readonly width: number
}

export interface ColumnRule<K extends string> extends Omit<PanelColumn<K>, 'width'> {
  readonly least: number
  readonly from?: number
}

export function fitted(text: string, {align, width}: PanelColumn<string>, {ellipsis}: GlyphSet): string {
  return cell(text, width, ellipsis, align)
}

export interface ColumnPlan<K extends string, R extends ColumnRule<K> = ColumnRule<K>> {
  /** From left to right. Widths do not depend on the content, so columns never shift. */
  readonly rules: readonly R[]
  readonly importance: readonly K[]
  /** Columns that get the remaining width, in this order, each up to a width. */
  readonly growth: readonly (readonly [K, width: number])[]
  readonly margin: number
}

const GAP = 1

export function fitColumns<K extends string, R extends ColumnRule<K>>(
  {rules, importance, growth, margin}: ColumnPlan<K, R>,
  screenWidth: number,
): (R & PanelColumn<K>)[] {
  const room = screenWidth - margin
  let chosen: readonly R[] = []
  for (const key of importance) {
    const more = rules.filter(rule => chosen.includes(rule) || (rule.key === key && screenWidth >= (rule.from ?? 0)))
    if (widthOf(more.map(({least}) => least)) <= room) chosen = more
  }
  const widths = new Map(chosen.map(({key, least}) => [key, least]))
  let spare = room - widthOf([...widths.values()])
  for (const [key, width] of growth) {
    const before = widths.get(key) ?? width
    const more = Math.max(0, Math.min(width - before, spare))
    if (more > 0) widths.set(key, before + more)
    spare -= more
  }
  return chosen.map(rule => ({...rule, width: widths.get(rule.key) ?? 0}))
}

function widthOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP * Math.max(0, widths.length - 1)
}
