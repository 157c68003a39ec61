import {formatCount, formatPlural, formatShortNumber, formatShortSpan, formatTimeOfDay} from '../../core/text.js'
import type {Knowledge} from '../../watch/model.js'
import {joined, type Line, seg} from '../draw/line.js'
import type {Scene} from '../model/scene.js'
import {TABS} from '../model/screen-state.js'

/** What is chosen, all together. */
export function totalsLine({ranking, settings}: Scene): Line {
  const {all, totals} = ranking
  const {buckets, over, near, inDebt, shards, ratePerSecond} = totals
  const chosen =
    buckets < all ? `${formatCount(buckets)} of ${formatPlural(all, 'bucket')}` : formatPlural(buckets, 'bucket')
  const {status, belowZero, dot} = settings.glyphs
  const rates = [...ratePerSecond].sort(([a], [b]) => (a < b ? -1 : 1))
  const used = rates.map(([name, rate]) => `${name} ${formatShortNumber(rate)}/s`).join(', ')
  return joined(
    [
      [seg(chosen, 'strong')],
      [seg(`${status.over} ${formatCount(over)} over`, over > 0 ? 'over' : 'dim')],
      [seg(`${status.near} ${formatCount(near)} near`, near > 0 ? 'near' : 'dim')],
      [seg(`${belowZero} ${formatCount(inDebt)} in debt`, inDebt > 0 ? 'over' : 'dim')],
      used === '' ? [] : [seg(`used ${used}`)],
      [seg(formatPlural(shards, 'shard'), 'dim')],
    ],
    ` ${dot} `,
  )
}

/** The filter while it is typed, and as long as it holds. */
export function filterLine({state, ranking, settings}: Scene): Line {
  const {selection, mode} = state
  const matches = `  ${formatPlural(ranking.totals.buckets, 'bucket')}`
  const isTyping = mode === 'filter'
  const way = state.filterBefore === undefined ? 'esc clears it' : 'esc goes back'
  const keys = isTyping ? '' : ` ${settings.glyphs.dot} ${way}`
  return [seg(`/${selection.filter}`, 'strong'), ...(isTyping ? [seg('_', 'strong')] : []), seg(matches + keys, 'dim')]
}

/** What is wrong, what stands still, what the last key came to; else the keys that matter most. */
export function statusLine(scene: Scene): Line {
  const {state, settings} = scene
  const told = [problemOf(scene), pauseOf(scene), state.note === undefined ? [] : [seg(state.note, 'strong')]].filter(
    piece => piece.length > 0,
  )
  return joined(told.length > 0 ? told : hints(scene), ` ${settings.glyphs.dot} `)
}

function problemOf({knowledge, nowMs, settings}: Scene): Line {
  const {problem} = knowledge
  if (!problem) return []
  const {message, isThrottled, sinceMs} = problem
  const kind = isThrottled ? 'throttled' : 'cannot read'
  const told = [`${kind} for ${formatShortSpan(nowMs - sinceMs)}`, ...nextTry(knowledge, nowMs)].join(', ')
  return [seg(`${settings.glyphs.status.over} ${told}: ${message}`, 'over')]
}

/** Nothing where nobody knows of a next try. */
function nextTry({problem, isPaused}: Knowledge, nowMs: number): string[] {
  if (isPaused) return ['r tries again']
  if (problem?.nextTryAtMs === undefined) return []
  const inMs = problem.nextTryAtMs - nowMs
  return [inMs > 0 ? `next try in ${formatShortSpan(inMs)}` : 'trying again']
}

function pauseOf({state, levelsAtMs, nowMs, settings}: Scene): Line {
  if (state.pausedAtMs === undefined) return []
  const age = formatShortSpan(nowMs - levelsAtMs)
  return [
    seg(`${settings.glyphs.paused} paused: levels of ${formatTimeOfDay(levelsAtMs)}, ${age} ago; p goes on`, 'near'),
  ]
}

function hints({state}: Scene): Line[] {
  const {mode, tab, selection} = state
  const hint = (text: string): Line => [seg(text, 'dim')]
  if (mode === 'help') return [hint('esc back'), hint('q quit')]
  if (mode === 'filter')
    return [hint('enter keep'), hint('esc drop'), hint('!text inverts'), hint('status:over'), hint('resource:NAME')]
  if (mode === 'detail') return [hint('esc back'), hint('? help'), hint('r refresh'), hint('q quit')]
  const next = TABS[(TABS.indexOf(tab) + 1) % TABS.length]
  const inOverview = tab === 'overview' ? [hint('/ filter'), hint(`s sort: ${selection.sort}`)] : []
  const drill = tab === 'health' ? [] : [hint('enter drill in')]
  return [hint('? help'), hint('q quit'), ...inOverview, ...drill, hint(`tab ${next}`), hint('p pause')]
}
