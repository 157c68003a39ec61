import {formatCount, formatPlural, formatShortNumber} from '../core/text.js'
import type {Ranking} from './model/scene.js'
import type {Seen} from './seen.js'

/** What stays in the scrollback when the view is closed. */
export function summaryLine({totals, all}: Pick<Ranking, 'totals' | 'all'>, seen: Seen, nowMs: number): string {
  const {buckets, over, near} = totals
  const watched =
    buckets < all ? `${formatCount(buckets)} of ${formatPlural(all, 'bucket')}` : formatPlural(buckets, 'bucket')
  const spent = `${formatPlural(seen.polls, 'poll')}, ${formatShortNumber(seen.readUnits)} read units`
  const end = `${formatCount(over)} over, ${formatCount(near)} near at the end`
  return `Watched ${watched} for ${lasted(nowMs - seen.startedAtMs)}, ${spent}; ${end}.`
}

function lasted(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
