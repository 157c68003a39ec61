import {gauge} from '../../core/gauge.js'
import {formatCount, formatShortNumber, formatShortPercent} from '../../core/text.js'
import type {LimitLevel, ShardView} from '../../repository/buckets/view.js'
import type {Reading} from '../../watch/model.js'
import type {GlyphSet} from '../draw/glyphs.js'
import {type Line, seg, wrapped} from '../draw/line.js'

const GAUGE_WIDTH = 10
const GAP = '  '
/** Before the limits of a shard: its number. */
const INDENT = 6

/** Every shard of a bucket: its limits, and how hard it is written. */
export function shardLines(
  shards: readonly ShardView[],
  writePressures: Reading['writePressures'],
  columns: number,
  glyphs: GlyphSet,
): Line[] {
  return shards.flatMap(view => {
    const number = `${formatCount(view.shard).padStart(INDENT - 1)} `
    if (view.isGhost) return [[seg(`${number}what a refund left of a shard that is gone`, 'dim')]]
    const pieces = piecesOf(view, writePressures.get(view.shard), glyphs)
    return wrapped(pieces, columns - INDENT, GAP).map((line, at) => [
      seg(at === 0 ? number : ' '.repeat(INDENT)),
      ...line,
    ])
  })
}

function piecesOf({limits, incomplete}: ShardView, pressure: number | undefined, glyphs: GlyphSet): Line[] {
  const tightestFirst = limits.toSorted((a, b) => partLeft(a) - partLeft(b))
  return [
    ...tightestFirst.map(limit => levelPiece(limit, glyphs)),
    incomplete.length === 0 ? [] : [seg(`without parameters: ${incomplete.join(', ')}`, 'near')],
    [seg(`writes ${pressure === undefined ? glyphs.dash : formatShortPercent(pressure)}`, 'dim')],
  ]
}

/** Limits without a capacity admit nothing and have nothing: they come last. */
const partLeft = ({level, capacity}: LimitLevel): number => (capacity > 0 ? level / capacity : Number.MAX_VALUE)

function levelPiece({name, level, capacity}: LimitLevel, glyphs: GlyphSet): Line {
  return [
    seg(`${name} `, 'dim'),
    seg(gauge(level, capacity, GAUGE_WIDTH, glyphs), level < 1 ? 'over' : 'ok'),
    seg(` ${formatShortNumber(level, 'down')}/${formatShortNumber(capacity)}`),
  ]
}
