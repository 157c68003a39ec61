export interface GaugeGlyphs {
  /** One to eight eighths of a cell. */
  readonly eighths: string
  readonly track: string
  /** Where a gauge begins and ends; empty when its track shows it. */
  readonly edges: readonly [string, string]
  /** Below zero: the mark at the left end, and the debt itself. */
  readonly belowZero: string
  readonly debt: string
  readonly overfull: string
  /** Heights of a sparkline, zero first. */
  readonly heights: string
  readonly noSample: string
}

export const BLOCKS: GaugeGlyphs = {
  eighths: '▏▎▍▌▋▊▉█',
  track: '░',
  edges: ['', ''],
  belowZero: '◂',
  debt: '▚',
  overfull: '▸',
  heights: '▁▂▃▄▅▆▇█',
  noSample: '·',
}

/** Half a cell or more is drawn as a whole one, for tables that are copied and pasted. */
export const WHOLE_BLOCKS: GaugeGlyphs = {...BLOCKS, eighths: '░░░█████', overfull: '█'}

/**
 * A level against its capacity, exactly `width` characters. A small level is never drawn as empty, nor an almost full one as
 * full. A debt starts at the left end with a mark of its own and grows to the right.
 */
export function gauge(level: number, capacity: number, width: number, glyphs: GaugeGlyphs): string {
  // Where edges would leave no room they are left out.
  const [open, close] = width > NARROWEST_WITH_EDGES ? glyphs.edges : ['', '']
  return open + bar(level, capacity, width - open.length - close.length, glyphs) + close
}

const NARROWEST_WITH_EDGES = 3

function bar(level: number, capacity: number, width: number, glyphs: GaugeGlyphs): string {
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

/** The last `width` shares of one; missing ones are filled in on the left. The scale is always 0 to 1. */
export function sparkline(shares: readonly (number | null)[], width: number, glyphs: GaugeGlyphs): string {
  const shown = width <= 0 ? [] : shares.slice(-width)
  return shown
    .map(share => sample(share, glyphs))
    .join('')
    .padStart(width, glyphs.noSample)
}

/** Only 0 has the lowest height, and only 1 and more the highest. */
function sample(share: number | null, {heights, noSample}: GaugeGlyphs): string {
  if (share === null) return noSample
  const top = heights.length - 1
  const height = share <= 0 ? 0 : share >= 1 ? top : 1 + Math.floor(share * (top - 1))
  return heights[height] as string
}
