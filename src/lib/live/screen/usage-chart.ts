import {sparkline} from '../../core/text/gauge.js'
import {formatShortNumber} from '../../core/text/text.js'
import {type Detail, USAGE_HOURS} from '../model/model.js'
import {amountText} from './amount.js'
import type {GlyphSet} from './glyphs.js'
import {cell, type Line, seg, type Tone} from './line.js'

const HOUR_MS = 3_600_000
const NAME_WIDTH = 12
/** From here on, an hour is two columns wide. */
const ROOMY = 100

interface ChartSpace {
  readonly nowMs: number
  readonly width: number
  readonly glyphs: GlyphSet
  readonly units: Detail['units']
}

/** The last 24 hours as one line per limit, and one for refusals: oldest on the left, scaled to the busiest hour. */
export function usageChart(usage: Detail['usage'], {nowMs, width, glyphs, units}: ChartSpace): Line[] {
  const hour = Math.floor(nowMs / HOUR_MS)
  const recent = usage.flatMap(each => {
    const at = USAGE_HOURS - 1 - (hour - Math.floor(Date.parse(each.start) / HOUR_MS))
    return at >= 0 && at < USAGE_HOURS ? [{...each, at}] : []
  })
  const names = [...new Set(recent.flatMap(({counters}) => Object.keys(counters)))].sort()
  const perHour = width >= ROOMY ? 2 : 1
  const lines = names.map(name => {
    const values = new Map(recent.map(({at, counters}) => [at, counters[name] ?? 0]))
    return chartLine(name, values, {perHour, glyphs, unit: units.get(name), tone: 'history'})
  })
  if (recent.some(({refused}) => refused > 0))
    lines.push(
      chartLine('refused', new Map(recent.map(({at, refused}) => [at, refused])), {
        perHour,
        glyphs,
        unit: undefined,
        tone: 'over',
      }),
    )
  return lines
}

interface LineStyle {
  /** Columns. */
  readonly perHour: number
  readonly glyphs: GlyphSet
  readonly unit: string | undefined
  readonly tone: Tone
}

function chartLine(name: string, values: ReadonlyMap<number, number>, {perHour, glyphs, unit, tone}: LineStyle): Line {
  const amount = (tokens: number) => amountText(tokens, unit, formatShortNumber)
  const most = Math.max(0, ...values.values())
  const total = [...values.values()].reduce((sum, each) => sum + each, 0)
  const shares = Array.from({length: USAGE_HOURS}, (_, at) => (most > 0 ? (values.get(at) ?? 0) / most : 0))
  const wide = shares.flatMap(share => Array.from({length: perHour}, () => share))
  return [
    seg(`  ${cell(name, NAME_WIDTH, glyphs.ellipsis)} `),
    seg(sparkline(wide, wide.length, glyphs), tone),
    seg(`  ${amount(total)} in 24 h, at most ${amount(most)}/h`, 'dim'),
  ]
}
