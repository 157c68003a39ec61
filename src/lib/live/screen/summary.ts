import {formatCount, formatPlural, formatShortNumber} from '../../core/text/text.js'
import type {PollFacts} from '../model/model.js'
import type {Ranking} from './frame.js'

export interface ViewStats {
  readonly startedAtMs: number
  readonly polls: number
  readonly readUnits: number
  readonly lastPoll: number
}

export function countPoll(stats: ViewStats, poll: PollFacts | undefined): ViewStats {
  if (!poll || poll.number === stats.lastPoll) return stats
  return {...stats, polls: stats.polls + 1, readUnits: stats.readUnits + poll.readUnits, lastPoll: poll.number}
}

export function summaryLine({totals, all}: Pick<Ranking, 'totals' | 'all'>, stats: ViewStats, nowMs: number): string {
  const {buckets, over, near} = totals
  const watched =
    buckets < all ? `${formatCount(buckets)} of ${formatPlural(all, 'bucket')}` : formatPlural(buckets, 'bucket')
  const cost = `${formatPlural(stats.polls, 'poll')}, ${formatShortNumber(stats.readUnits)} read units`
  const end = `${formatCount(over)} over, ${formatCount(near)} near at the end`
  return `Watched ${watched} for ${duration(nowMs - stats.startedAtMs)}, ${cost}; ${end}.`
}

function duration(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
