import {gauge, sparkline} from '../../core/gauge.js'
import {GROWTH_UNITS_PER_SECOND} from '../../core/shard-growth.js'
import {formatShortNumber, formatShortPercent, formatShortSpan, SHORT_NUMBER_WIDTH} from '../../core/text.js'
import type {Row, RowStatus, SortKey} from '../../watch/model.js'
import type {GlyphSet} from '../draw/glyphs.js'
import {cell, type Line, type Segment, seg, type Tone} from '../draw/line.js'
import type {Scene} from '../model/scene.js'
import {isLeftBehind} from './header.js'
import {type OverviewColumn, overviewColumns} from './overview-columns.js'

/** From here on a bucket is about to be split: its mark says so. */
const PRESSING = GROWTH_UNITS_PER_SECOND / 1000

/** Sorts that begin with the greatest. */
const GREATEST_FIRST: ReadonlySet<SortKey> = new Set(['rate', 'pressure', 'shards'])

/** The colour of a status; its symbol says the same. */
export const TONE_OF_STATUS: Readonly<Record<RowStatus, Tone>> = {ok: 'ok', near: 'near', over: 'over', gone: 'dim'}

/** The titles of the columns; the sorted one has an arrow. */
export function overviewTitles({size, state, settings, ranking}: Scene): Line {
  const {glyphs} = settings
  const {sort, reversed} = state.selection
  const isAscending = GREATEST_FIRST.has(sort) === reversed
  const titles = overviewColumns(size.columns, state.isWide).map(column => {
    if (column.sort !== sort) return fitTitle(column, column.title, glyphs)
    const arrow = isAscending ? glyphs.ascending : glyphs.descending
    const room = column.width - arrow.length
    const title = sort === 'rate' ? rateTitle(column, ranking.rateLimit, room, glyphs) : column.title
    return fitTitle(column, cell(title, Math.min(title.length, room), '') + arrow, glyphs)
  })
  return [seg(`   ${titles.join(' ')}`, 'dim')]
}

/** Rows are compared by the rate of one limit, which need not be their tightest: the title names it. */
function rateTitle({title}: OverviewColumn, limit: string | undefined, room: number, {ellipsis}: GlyphSet): string {
  return limit === undefined ? title : `${cell(limit, Math.min(limit.length, room - 2), ellipsis)}/S`
}

/** Titles stand over their numbers. */
function fitTitle({key, width}: OverviewColumn, title: string, {ellipsis}: GlyphSet): string {
  const isRight = key === 'rate' || key === 'shards' || key === 'pressure' || key === 'eta'
  return cell(title, width, ellipsis, isRight ? 'right' : 'left')
}

/** One line per visible row. */
export function overviewLines(scene: Scene): Line[] {
  const {rows, cursor, size, state, settings, knowledge, ranking} = scene
  if (rows.length === 0) return [[seg(`   ${emptyText(scene)}`, 'dim')]]
  const columns = overviewColumns(size.columns, state.isWide)
  const chosen = ranking.ids[cursor.index]
  const rateOf = ({rates, ratePerSecond}: Row): number | null =>
    state.selection.sort === 'rate' ? (rates.get(ranking.rateLimit ?? '') ?? null) : ratePerSecond
  return rows.map(row => {
    const isChosen = row.id === chosen
    const reading = knowledge.readings.get(row.id)
    const isOld = reading !== undefined && isLeftBehind(reading, knowledge)
    const line = rowLine({...row, ratePerSecond: rateOf(row)}, columns, settings.glyphs, {isChosen, isOld})
    return reading?.isGone ? line.map(({text}) => seg(text, 'dim')) : line
  })
}

function emptyText({knowledge, state}: Scene): string {
  if (knowledge.readings.size > 0) return `Nothing matches "${state.selection.filter}"; esc clears the filter.`
  return knowledge.lastPoll ? 'No buckets: nothing was consumed yet, or all have expired.' : 'Reading.'
}

/** How a row stands among the others. */
interface Standing {
  readonly isChosen: boolean
  /** Others were read several times since: what it has consumed meanwhile is not in its figures. */
  readonly isOld: boolean
}

function rowLine(row: Row, columns: readonly OverviewColumn[], glyphs: GlyphSet, {isChosen, isOld}: Standing): Line {
  const status = seg(glyphs.status[row.status], TONE_OF_STATUS[row.status])
  const margin = [seg(isChosen ? glyphs.cursor : ' ', 'strong'), status, seg(isOld ? glyphs.old : ' ', 'near')]
  const [first, ...cells] = columns.map(column => cellOf(row, column, glyphs, isChosen))
  return [...margin, ...(first ? [first] : []), ...cells.flatMap(each => [seg(' '), each])]
}

function cellOf(row: Row, {key, width}: OverviewColumn, glyphs: GlyphSet, isChosen: boolean): Segment {
  const right = (text: string, tone: Tone = 'plain') => seg(cell(text, width, glyphs.ellipsis, 'right'), tone)
  const name = (text: string) => seg(cell(text, width, glyphs.ellipsis), isChosen ? 'chosen' : 'plain')
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
      return seg(cell(tightest ? levelText(tightest) : `${glyphs.dash} no limit`, width, glyphs.ellipsis))
    case 'limit':
      return seg(cell(tightest?.name ?? '', width, glyphs.ellipsis), 'dim')
    case 'rate':
      return right(ratePerSecond === null ? glyphs.dash : formatShortNumber(ratePerSecond))
    case 'history':
      return seg(sparkline(row.used, width, glyphs), 'history')
    case 'shards':
      return right(
        row.shardCount === 1 ? '1' : `${row.shardCount}${glyphs.plusMinus}${formatShortPercent(row.imbalance)}`,
      )
    case 'pressure': {
      if (row.rates.size === 0) return right(glyphs.dash)
      const isPressing = row.writePressure >= PRESSING
      return right(
        `${isPressing ? `${glyphs.pressure} ` : ''}${formatShortPercent(row.writePressure)}`,
        isPressing ? 'near' : 'plain',
      )
    }
    case 'eta':
      return right(...untilText(row, glyphs))
  }
}

/** `  12.3k/100k  `: the slashes of all rows below each other. */
export function levelText({level, capacity}: {readonly level: number; readonly capacity: number}): string {
  return `${formatShortNumber(level, 'down').padStart(SHORT_NUMBER_WIDTH)}/${formatShortNumber(capacity).padEnd(SHORT_NUMBER_WIDTH)}`
}

/** When it will be empty if it goes on like this; else when it will be full. */
export function untilText({emptyInMs, fullInMs, status}: Row, glyphs: GlyphSet): [text: string, tone: Tone] {
  if (emptyInMs !== null && emptyInMs > 0) return [glyphs.empties + formatShortSpan(emptyInMs), TONE_OF_STATUS[status]]
  if (fullInMs === 0) return ['full', 'plain']
  if (fullInMs !== null) return [glyphs.fills + formatShortSpan(fullInMs), 'plain']
  return [emptyInMs === 0 ? 'empty' : glyphs.dash, 'plain']
}
