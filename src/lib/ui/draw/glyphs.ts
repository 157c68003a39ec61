import type {RowStatus} from '../../watch/model.js'

/** All symbols of the view. */
export interface GlyphSet {
  /** One to eight eighths. */
  readonly eighths: string
  /** The empty part of a gauge. */
  readonly track: string
  /** Delimiters of a gauge; empty where its track shows the extent. */
  readonly edges: readonly [string, string]
  /** Below zero: the mark at the left end, and the bar of the debt. */
  readonly belowZero: string
  readonly debt: string
  /** Above its capacity. */
  readonly overfull: string
  /** Heights of a sparkline, zero first. */
  readonly heights: string
  readonly noSample: string
  readonly status: Readonly<Record<RowStatus, string>>
  readonly cursor: string
  readonly paused: string
  readonly ascending: string
  readonly descending: string
  readonly empties: string
  readonly fills: string
  readonly plusMinus: string
  readonly pressure: string
  readonly dot: string
  readonly ellipsis: string
  readonly dash: string
  /** Marks a bucket that several polls did not read. */
  readonly old: string
  readonly arrows: string
  readonly times: string
}

export const BLOCK_GLYPHS: GlyphSet = {
  eighths: '▏▎▍▌▋▊▉█',
  track: '░',
  edges: ['', ''],
  belowZero: '◂',
  debt: '▚',
  overfull: '▸',
  heights: '▁▂▃▄▅▆▇█',
  noSample: '·',
  status: {ok: '●', near: '▲', over: '✖', gone: '○'},
  cursor: '▸',
  paused: '‖',
  ascending: '↑',
  descending: '↓',
  empties: '↓',
  fills: '↑',
  plusMinus: '±',
  pressure: '▲',
  dot: '·',
  ellipsis: '…',
  dash: '–',
  old: '~',
  arrows: '↑ ↓',
  times: '×',
}

/** For fonts without blocks and terminals that draw them two columns wide. */
export const ASCII_GLYPHS: GlyphSet = {
  eighths: '_.:-=+*#',
  track: ' ',
  edges: ['[', ']'],
  belowZero: '<',
  debt: 'x',
  overfull: '>',
  heights: '_.:-=+*#',
  noSample: ' ',
  status: {ok: 'o', near: '!', over: 'X', gone: '-'},
  cursor: '>',
  paused: '||',
  ascending: '^',
  descending: 'v',
  empties: 'v',
  fills: '^',
  plusMinus: '~',
  pressure: '!',
  dot: '|',
  ellipsis: '~',
  dash: '-',
  old: '~',
  arrows: 'up down',
  times: 'x',
}

/**
 * A level relative to its capacity, exactly `width` characters. Empty is drawn only for zero, full only for a full limit. A
 * debt starts at the left end with its own mark and grows to the right.
 */
export function gauge(level: number, capacity: number, width: number, glyphs: GlyphSet): string {
  // A narrow gauge has no edges.
  const [open, close] = width > MIN_WIDTH_WITH_EDGES ? glyphs.edges : ['', '']
  return open + bar(level, capacity, width - open.length - close.length, glyphs) + close
}

const MIN_WIDTH_WITH_EDGES = 3

function bar(level: number, capacity: number, width: number, glyphs: GlyphSet): string {
  if (width <= 0) return ''
  if (level < 0) {
    const cells = capacity > 0 ? Math.ceil((-level / capacity) * (width - 1)) : width - 1
    return (glyphs.belowZero + glyphs.debt.repeat(Math.min(width - 1, cells))).padEnd(width, glyphs.track)
  }
  if (level > capacity) return (glyphs.eighths[7] as string).repeat(width - 1) + glyphs.overfull
  const whole = width * 8
  const eighths = level === capacity ? whole : Math.floor((level / capacity) * whole)
  const shown = level > 0 ? Math.max(1, eighths) : 0
  const partial = shown % 8 === 0 ? '' : (glyphs.eighths[(shown % 8) - 1] as string)
  return ((glyphs.eighths[7] as string).repeat(Math.floor(shown / 8)) + partial).padEnd(width, glyphs.track)
}

/** The latest used fractions of a capacity, exactly `width` characters; the scale is always 0 to 1. */
export function usedSparkline(used: readonly (number | null)[], width: number, glyphs: GlyphSet): string {
  const shown = width <= 0 ? [] : used.slice(-width)
  return shown
    .map(fraction => sample(fraction, glyphs))
    .join('')
    .padStart(width, glyphs.noSample)
}

function sample(fraction: number | null, {heights, noSample}: GlyphSet): string {
  if (fraction === null) return noSample
  const top = heights.length - 1
  // Lowest and highest are drawn only for exactly 0 and 1.
  const height = fraction <= 0 ? 0 : fraction >= 1 ? top : 1 + Math.floor(fraction * (top - 1))
  return heights[height] as string
}
