import type {LimitLevel} from '../repository/bucket-view.js'
import type {ResourceRow} from '../watch/model.js'
import {compact, count} from './format.js'
import {type GlyphSet, gauge} from './glyphs.js'
import {cell, type Line, seg} from './line.js'
import {levelText} from './overview-lines.js'
import type {Scene} from './scene.js'

const NAME_WIDTH = 18
const GAUGE_WIDTH = 10
const LIMIT_WIDTH = 6

/** The titles of the columns. */
export function resourceTitles({settings}: Scene): Line {
  const fitted = (text: string, width: number) => cell(text, width, settings.glyphs.ellipsis)
  const [resource, left, limit] = [
    fitted('RESOURCE', NAME_WIDTH),
    fitted('LEVEL', GAUGE_WIDTH),
    fitted('LIMIT', LIMIT_WIDTH),
  ]
  return [seg(`  ${resource} ENTITIES ${left} LEFT/CAP      ${limit}  USED/S  OVER  NEAR  MOST USED BY`, 'dim')]
}

/** One line per resource: the tightest limit of all its buckets together, and who uses most. */
export function resourceLines({ranking, cursor, heights, settings, knowledge}: Scene): Line[] {
  const {glyphs} = settings
  if (ranking.resources.length === 0)
    return [[seg(knowledge.lastPoll ? '  No resources in use.' : '  Reading.', 'dim')]]
  const visible = ranking.resources.slice(cursor.top, cursor.top + heights.body)
  return visible.map((row, position) => resourceLine(row, glyphs, cursor.top + position === cursor.index))
}

function resourceLine(row: ResourceRow, glyphs: GlyphSet, isChosen: boolean): Line {
  const limit = tightestOf(row.limits)
  const rate = limit && row.ratePerSecond.get(limit.name)
  const number = (value: number, width: number) => count(value).padStart(width)
  const [first] = row.top
  const most = row.top.map(({entity, ratePerSecond}) => `${entity} ${compact(ratePerSecond)}/s`).join(', ')
  return [
    seg(isChosen ? `${glyphs.cursor} ` : '  ', 'strong'),
    seg(cell(row.resource, NAME_WIDTH, glyphs.ellipsis), isChosen ? 'chosen' : 'plain'),
    seg(` ${number(row.entities, 8)} `),
    limit ? seg(gauge(limit.level, limit.capacity, GAUGE_WIDTH, glyphs), toneOf(row)) : seg(' '.repeat(GAUGE_WIDTH)),
    seg(` ${limit ? levelText(limit) : ' '.repeat(13)} `),
    seg(cell(limit?.name ?? '', LIMIT_WIDTH, glyphs.ellipsis), 'dim'),
    seg(` ${(rate === undefined ? glyphs.dash : compact(rate)).padStart(7)}`),
    seg(mark(row.over, glyphs.status.over), row.over > 0 ? 'over' : 'dim'),
    seg(mark(row.near, glyphs.status.near), row.near > 0 ? 'near' : 'dim'),
    seg(first ? `  ${most} (${first.limit})` : ''),
  ]
}

const mark = (value: number, symbol: string): string => `${value > 0 ? symbol : ''}${count(value)}`.padStart(6)

function toneOf({over, near}: ResourceRow): 'over' | 'near' | 'ok' {
  return over > 0 ? 'over' : near > 0 ? 'near' : 'ok'
}

function tightestOf(limits: readonly LimitLevel[]): LimitLevel | undefined {
  const usable = limits.filter(({capacity}) => capacity > 0)
  return usable.sort((a, b) => a.level / a.capacity - b.level / b.capacity)[0]
}
