import {sparkline} from '../../core/gauge.js'
import {formatShortNumber} from '../../core/text.js'
import {type Detail, USAGE_HOURS} from '../../watch/model.js'
import type {GlyphSet} from '../draw/glyphs.js'
import {cell, type Line, seg} from '../draw/line.js'

const HOUR_MS = 3_600_000
const NAME_WIDTH = 12
/** From here on, an hour is two columns wide. */
const ROOMY = 100

/** The last 24 hours as one line per limit, and one for refusals: oldest on the left, scaled to the busiest hour. */
export function usageChart(
  usage: Detail['usage'],
  {nowMs, width, glyphs}: {readonly nowMs: number; readonly width: number; readonly glyphs: GlyphSet},
): Line[] {
  const hour = Math.floor(nowMs / HOUR_MS)
  const recent = usage.flatMap(each => {
    const at = USAGE_HOURS - 1 - (hour - Math.floor(Date.parse(each.start) / HOUR_MS))
    return at >= 0 && at < USAGE_HOURS ? [{...each, at}] : []
  })
  const names = [...new Set(recent.flatMap(({counters}) => Object.keys(counters)))].sort()
  const series: [name: string, values: Map<number, number>][] = names.map(name => [
    name,
    new Map(recent.map(({at, counters}) => [at, counters[name] ?? 0])),
  ])
  if (recent.some(({refused}) => refused > 0))
    series.push(['refused', new Map(recent.map(({at, refused}) => [at, refused]))])
  return series.map(([name, values]) => chartLine(name, values, width >= ROOMY ? 2 : 1, glyphs))
}

function chartLine(name: string, values: ReadonlyMap<number, number>, perHour: number, glyphs: GlyphSet): Line {
  const most = Math.max(0, ...values.values())
  const total = [...values.values()].reduce((sum, each) => sum + each, 0)
  const shares = Array.from({length: USAGE_HOURS}, (_, at) => (most > 0 ? (values.get(at) ?? 0) / most : 0))
  const wide = shares.flatMap(share => Array.from({length: perHour}, () => share))
  return [
    seg(`  ${cell(name, NAME_WIDTH, glyphs.ellipsis)} `),
    seg(sparkline(wide, wide.length, glyphs), name === 'refused' ? 'over' : 'history'),
    seg(`  ${formatShortNumber(total)} in 24 h, at most ${formatShortNumber(most)}/h`, 'dim'),
  ]
}
