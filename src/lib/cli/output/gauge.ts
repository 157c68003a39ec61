import {formatCount} from './facts.js'

const BAR_WIDTH = 10

/** A share of one as a bar; more than one fills it. */
export function bar(share: number | null | undefined): string {
  if (share === null || share === undefined) return ''
  const filled = Math.min(BAR_WIDTH, Math.max(0, Math.round(share * BAR_WIDTH)))
  return '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled)
}

/** A share of one for people; what is there is never told as nothing, and what is missing never as all. */
export function percent(share: number | null | undefined): string | undefined {
  if (share === null || share === undefined) return undefined
  if (share > 0 && share < 0.01) return '<1 %'
  if (share > 0.99 && share < 1) return '>99 %'
  return `${formatCount(Math.round(share * 100))} %`
}

const TICKS = '▁▂▃▄▅▆▇█'
const WIDEST_SPARKLINE = 60

/** Numbers as a row of blocks, the last ones if there are too many. */
export function sparkline(numbers: readonly number[]): string {
  const shown = numbers.slice(-WIDEST_SPARKLINE)
  const top = Math.max(1, ...shown)
  return shown.map(each => TICKS[Math.round((Math.max(0, each) / top) * (TICKS.length - 1))]).join('')
}
