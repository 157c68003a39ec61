import {gauge} from '../../core/text/gauge.js'
import {formatCount, formatShortNumber, formatShortTokens, SHORT_NUMBER_WIDTH} from '../../core/text/text.js'
import {textWidth} from '../../core/text/text-width.js'
import type {LimitLevel} from '../../repository/buckets/view.js'
import type {ResourceRow} from '../model/totals.js'
import type {Frame} from './frame.js'
import type {GlyphSet} from './glyphs.js'
import {type Line, type Segment, seg, shortened, type Tone} from './line.js'
import {
  type ColumnPlan,
  fitColumns,
  fitted,
  LEVEL_WIDTH,
  levelText,
  type PanelColumn,
  REFUSED_WIDTH,
} from './overview-panel.js'
import {ScreenLine, ScreenLines} from './screen-line.js'

type Units = Frame['data']['units']

type ResourceKey = 'resource' | 'entities' | 'gauge' | 'level' | 'limit' | 'rate' | 'refused' | 'over' | 'near' | 'top'

/** Cursor and space. */
const MARGIN = 2
const MARK_WIDTH = 6
const TOP_WIDTH = 20

const PLAN: ColumnPlan<ResourceKey> = {
  rules: [
    {key: 'resource', title: 'RESOURCE', least: 10},
    {key: 'entities', title: 'ENTITIES', least: 8, align: 'right'},
    {key: 'gauge', title: 'LEVEL', least: 8},
    {key: 'level', title: 'LEFT/CAP', least: LEVEL_WIDTH},
    {key: 'limit', title: 'LIMIT', least: 5},
    {key: 'rate', title: 'USED/S', least: SHORT_NUMBER_WIDTH + 1, align: 'right'},
    {key: 'refused', title: 'REFUSED/S', least: REFUSED_WIDTH, align: 'right'},
    {key: 'over', title: 'OVER', least: MARK_WIDTH, align: 'right'},
    {key: 'near', title: 'NEAR', least: MARK_WIDTH, align: 'right'},
    {key: 'top', title: 'MOST USED BY', least: TOP_WIDTH},
  ],
  importance: ['resource', 'level', 'over', 'near', 'rate', 'limit', 'top', 'refused', 'gauge', 'entities'],
  growth: [
    ['resource', 14],
    ['top', 36],
    ['gauge', 10],
    ['resource', 18],
    ['top', 60],
    ['limit', 10],
    ['resource', 40],
    ['top', 100],
    ['gauge', 24],
  ],
  margin: MARGIN,
}

export const resourceColumns = (screenWidth: number): PanelColumn<ResourceKey>[] => fitColumns(PLAN, screenWidth)

export function Resources({frame}: {readonly frame: Frame}) {
  return (
    <>
      <ScreenLine line={resourceTitles(frame)} />
      <ScreenLines lines={resourceLines(frame)} />
    </>
  )
}

function resourceTitles({settings, size}: Frame): Line {
  const titles = resourceColumns(size.columns).map(column => fitted(column.title, column, settings.glyphs))
  return [seg(`  ${titles.join(' ')}`, 'dim')]
}

function resourceLines({ranking, cursor, heights, settings, data, size}: Frame): Line[] {
  const {glyphs} = settings
  if (ranking.resources.length === 0) return [[seg(data.lastPoll ? '  No resources in use.' : '  Loading.', 'dim')]]
  const columns = resourceColumns(size.columns)
  const visible = ranking.resources.slice(cursor.top, cursor.top + heights.body)
  return visible.map((row, position) => {
    const isSelected = cursor.top + position === cursor.index
    const cells = columns.map(column => cellOf(row, column, {glyphs, units: data.units}, isSelected))
    return [seg(isSelected ? glyphs.cursor : ' ', 'strong'), ...cells.flatMap(each => [seg(' '), each])]
  })
}

function cellOf(
  row: ResourceRow,
  column: PanelColumn<ResourceKey>,
  {glyphs, units}: {readonly glyphs: GlyphSet; readonly units: Units},
  isSelected: boolean,
): Segment {
  const {key, width} = column
  const text = (what: string, tone: Tone = 'plain') => seg(fitted(what, column, glyphs), tone)
  const limit = tightestOf(row.limits)
  switch (key) {
    case 'resource':
      return text(row.resource, isSelected ? 'chosen' : 'plain')
    case 'entities':
      return text(formatCount(row.entities))
    case 'gauge':
      return limit ? seg(gauge(limit.level, limit.capacity, width, glyphs), toneOf(row)) : text('')
    case 'level':
      return text(limit ? levelText(limit, units.get(limit.name)) : '')
    case 'limit':
      return text(limit?.name ?? '', 'dim')
    case 'rate': {
      const rate = limit && row.ratePerSecond.get(limit.name)
      return text(rate === undefined ? glyphs.dash : formatShortTokens(rate, units.get(limit?.name ?? '')))
    }
    case 'refused':
      return text(formatShortNumber(row.refusedPerSecond), row.refusedPerSecond > 0 ? 'over' : 'plain')
    case 'over':
    case 'near':
      return row[key] > 0 ? text(`${glyphs.status[key]}${formatCount(row[key])}`, key) : text('0', 'dim')
    case 'top':
      return text(topText(row.top, units, width, glyphs))
  }
}

/** As many consumers as fit; at least the first one's rate, with as much of its name as fits. */
function topText(top: ResourceRow['top'], units: Units, width: number, {ellipsis}: GlyphSet): string {
  const [first] = top
  if (!first) return ''
  const limit = ` (${first.limit})`
  const rateText = (perSecond: number) => `${formatShortTokens(perSecond, units.get(first.limit))}/s`
  const all = top.map(({entity, ratePerSecond}) => `${entity} ${rateText(ratePerSecond)}`)
  for (let named = all.length; named > 0; named--) {
    const text = all.slice(0, named).join(', ') + limit
    if (textWidth(text) <= width) return text
  }
  const rate = ` ${rateText(first.ratePerSecond)}`
  const room = width - rate.length - textWidth(limit)
  const ending = room < MIN_NAME_WIDTH ? rate : rate + limit
  return shortened(first.entity, width - textWidth(ending), ellipsis) + ending
}

const MIN_NAME_WIDTH = 6

function toneOf({over, near}: ResourceRow): 'over' | 'near' | 'ok' {
  return over > 0 ? 'over' : near > 0 ? 'near' : 'ok'
}

function tightestOf(limits: readonly LimitLevel[]): LimitLevel | undefined {
  const usable = limits.filter(({capacity}) => capacity > 0)
  return usable.sort((a, b) => a.level / a.capacity - b.level / b.capacity)[0]
}
