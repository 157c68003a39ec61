import {gauge} from '../../core/gauge.js'
import {formatCount, formatShortNumber} from '../../core/text.js'
import type {LimitLevel} from '../../repository/buckets/view.js'
import type {ResourceRow} from '../../watch/model.js'
import type {GlyphSet} from '../draw/glyphs.js'
import {cell, type Line, type Segment, seg, type Tone} from '../draw/line.js'
import type {Scene} from '../model/scene.js'
import type {PanelColumn} from './columns.js'
import {levelText} from './overview.js'
import {type ResourceKey, resourceColumns} from './resource-columns.js'

/** Columns of numbers. */
const ALIGNED_RIGHT: ReadonlySet<ResourceKey> = new Set(['entities', 'rate', 'over', 'near'])

/** The titles of the columns. */
export function resourceTitles({settings, size}: Scene): Line {
  const titles = resourceColumns(size.columns).map(column => fitted(column.title, column, settings.glyphs))
  return [seg(`  ${titles.join(' ')}`, 'dim')]
}

/** One line per resource: the tightest limit of all its buckets together, and who uses most. */
export function resourceLines({ranking, cursor, heights, settings, knowledge, size}: Scene): Line[] {
  const {glyphs} = settings
  if (ranking.resources.length === 0)
    return [[seg(knowledge.lastPoll ? '  No resources in use.' : '  Reading.', 'dim')]]
  const columns = resourceColumns(size.columns)
  const visible = ranking.resources.slice(cursor.top, cursor.top + heights.body)
  return visible.map((row, position) => {
    const isChosen = cursor.top + position === cursor.index
    const cells = columns.map(column => cellOf(row, column, glyphs, isChosen))
    return [seg(isChosen ? glyphs.cursor : ' ', 'strong'), ...cells.flatMap(each => [seg(' '), each])]
  })
}

function cellOf(row: ResourceRow, column: PanelColumn<ResourceKey>, glyphs: GlyphSet, isChosen: boolean): Segment {
  const {key, width} = column
  const text = (what: string, tone: Tone = 'plain') => seg(fitted(what, column, glyphs), tone)
  const limit = tightestOf(row.limits)
  switch (key) {
    case 'resource':
      return text(row.resource, isChosen ? 'chosen' : 'plain')
    case 'entities':
      return text(formatCount(row.entities))
    case 'gauge':
      return limit ? seg(gauge(limit.level, limit.capacity, width, glyphs), toneOf(row)) : text('')
    case 'level':
      return text(limit ? levelText(limit) : '')
    case 'limit':
      return text(limit?.name ?? '', 'dim')
    case 'rate': {
      const rate = limit && row.ratePerSecond.get(limit.name)
      return text(rate === undefined ? glyphs.dash : formatShortNumber(rate))
    }
    case 'over':
    case 'near':
      return row[key] > 0 ? text(`${glyphs.status[key]}${formatCount(row[key])}`, key) : text('0', 'dim')
    case 'top':
      return text(topText(row.top, width, glyphs))
  }
}

function fitted(text: string, {key, width}: PanelColumn<ResourceKey>, {ellipsis}: GlyphSet): string {
  return cell(text, width, ellipsis, ALIGNED_RIGHT.has(key) ? 'right' : 'left')
}

/** As many consumers as there is room for; of the first one its rate in any case, and of its name what fits. */
function topText(top: ResourceRow['top'], width: number, {ellipsis}: GlyphSet): string {
  const [first] = top
  if (!first) return ''
  const limit = ` (${first.limit})`
  const all = top.map(({entity, ratePerSecond}) => `${entity} ${formatShortNumber(ratePerSecond)}/s`)
  for (let named = all.length; named > 0; named--) {
    const text = all.slice(0, named).join(', ') + limit
    if (text.length <= width) return text
  }
  const rate = ` ${formatShortNumber(first.ratePerSecond)}/s`
  const room = width - rate.length - limit.length
  // A long name of a limit must not leave nothing of the consumer's.
  const ending = room < SHORTEST_NAME ? rate : rate + limit
  return cell(first.entity, Math.min(first.entity.length, width - ending.length), ellipsis) + ending
}

const SHORTEST_NAME = 6

function toneOf({over, near}: ResourceRow): 'over' | 'near' | 'ok' {
  return over > 0 ? 'over' : near > 0 ? 'near' : 'ok'
}

function tightestOf(limits: readonly LimitLevel[]): LimitLevel | undefined {
  const usable = limits.filter(({capacity}) => capacity > 0)
  return usable.sort((a, b) => a.level / a.capacity - b.level / b.capacity)[0]
}
