export interface GaugeGlyphs {
  /** One to eight eighths of a cell. */
  readonly eighths: string
  readonly track: string
  /** Empty when the track shows where the gauge ends. */
  readonly edges: readonly [string, string]
  readonly belowZero: string
  readonly debt: string
  readonly overfull: string
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

/** Draws half a cell or more as a whole one, for tables that people copy. */
export const WHOLE_BLOCKS: GaugeGlyphs = {...BLOCKS, eighths: '░░░█████', overfull: '█'}

/** Exactly `width` characters. Never draws a small level as empty, nor an almost full one as full. */
export function gauge(level: number, capacity: number, width: number, glyphs: GaugeGlyphs): string {
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

/** The last `width` shares (0 to 1), padded on the left. */
export function sparkline(shares: readonly (number | null)[], width: number, glyphs: GaugeGlyphs): string {
  const shown = width <= 0 ? [] : shares.slice(-width)
  return shown
    .map(share => sample(share, glyphs))
    .join('')
    .padStart(width, glyphs.noSample)
}

/** Only 0 gets the lowest height, and only 1 and more the highest. */
function sample(share: number | null, {heights, noSample}: GaugeGlyphs): string {
  if (share === null) return noSample
  const top = heights.length - 1
  const height = share <= 0 ? 0 : share >= 1 ? top : 1 + Math.floor(share * (top - 1))
  return heights[height] as string
}
