import {
  formatCount,
  formatPlural,
  formatShortNumber,
  formatShortSpan,
  formatShortTokens,
  formatTimeOfDay,
} from '../../core/text/text.js'
import type {WatchData} from '../model/model.js'
import {filterProblem} from '../model/rank.js'
import {type ActionMode, isActionMode} from '../state/actions.js'
import {type ScreenState, TABS} from '../state/screen-state.js'
import {type Frame, listIds} from './frame.js'
import {columnsOf, fittingPieces, joinPieces, type Line, linesOf, seg, withRightEnd} from './line.js'
import {ScreenLine} from './screen-line.js'

export function Footer({frame}: {readonly frame: Frame}) {
  const {size, settings, heights} = frame
  const position = positionOf(frame)
  const room = position.length === 0 ? size.columns : size.columns - columnsOf(position) - 1
  const totals = withRightEnd(totalsLine(frame, room), position, size.columns, settings.glyphs.ellipsis)
  return (
    <>
      <ScreenLine line={totals} />
      {heights.hasFilterLine && <ScreenLine line={filterLine(frame)} />}
      <ScreenLine line={statusLine(frame)} />
    </>
  )
}

/** `40–75 of 113`; empty for a short list. */
function positionOf({state, data, ranking, cursor, heights, settings}: Frame): Line {
  if (state.detailId !== undefined || state.whyId !== undefined || state.action || state.mode === 'help') return []
  const {length} = listIds(state, data, ranking)
  if (length <= heights.body) return []
  const last = Math.min(length, cursor.top + heights.body)
  return [seg(`${formatCount(cursor.top + 1)}${settings.glyphs.dash}${formatCount(last)} of ${formatCount(length)}`)]
}

function totalsLine({ranking, settings, data}: Frame, width: number): Line {
  const {all, totals} = ranking
  const {buckets, over, near, overdrawn, disabled, inDebt, shards, ratePerSecond, refusedPerSecond} = totals
  const selected =
    buckets < all ? `${formatCount(buckets)} of ${formatPlural(all, 'bucket')}` : formatPlural(buckets, 'bucket')
  const {status, belowZero, dot} = settings.glyphs
  const rates = [...ratePerSecond].sort(([a], [b]) => (a < b ? -1 : 1))
  const used = rates.map(([name, rate]) => `used ${name} ${formatShortTokens(rate, data.units.get(name))}/s`)
  return fittingPieces(
    [
      [seg(selected, 'strong')],
      [seg(`${status.over} ${formatCount(over)} over`, over > 0 ? 'over' : 'dim')],
      [seg(`${status.near} ${formatCount(near)} near`, near > 0 ? 'near' : 'dim')],
      refusedPerSecond === 0 ? [] : [seg(`refused ${formatShortNumber(refusedPerSecond)}/s`, 'over')],
      disabled === 0 ? [] : [seg(`${status.disabled} ${formatCount(disabled)} disabled`, 'disabled')],
      overdrawn === 0 ? [] : [seg(`${status.overdrawn} ${formatCount(overdrawn)} overdrawn`, 'near')],
      [seg(`${belowZero} ${formatCount(inDebt)} in debt`, inDebt > 0 ? 'over' : 'dim')],
      ...linesOf(used),
      [seg(formatPlural(shards, 'shard'), 'dim')],
    ],
    ` ${dot} `,
    width,
  )
}

function filterLine({state, ranking, settings}: Frame): Line {
  const {selection, mode} = state
  const problem = filterProblem(selection.filter)
  const matches = `  ${problem ?? formatPlural(ranking.totals.buckets, 'bucket')}`
  const isTyping = mode === 'filter'
  const escapeHint = state.filterBefore === undefined ? 'esc clears it' : 'esc goes back'
  const keys = isTyping ? '' : ` ${settings.glyphs.dot} ${escapeHint}`
  return [
    seg(`/${selection.filter}`, 'strong'),
    ...(isTyping ? [seg('_', 'strong')] : []),
    seg(matches + keys, problem === undefined ? 'dim' : 'near'),
  ]
}

function statusLine(frame: Frame): Line {
  const {state, settings} = frame
  const messages = [
    problemOf(frame),
    pauseOf(frame),
    state.note === undefined ? [] : [seg(state.note, 'strong')],
  ].filter(piece => piece.length > 0)
  const dot = ` ${settings.glyphs.dot} `
  if (messages.length > 0) return joinPieces(messages, dot)
  return fittingPieces(linesOf(hints(state), 'dim'), dot, frame.size.columns)
}

function problemOf({data, nowMs, settings}: Frame): Line {
  const {problem} = data
  if (!problem) return []
  const {message, isThrottled, sinceMs} = problem
  const kind = isThrottled ? 'throttled' : 'cannot read'
  const text = [`${kind} for ${formatShortSpan(nowMs - sinceMs)}`, ...nextTry(data, nowMs)].join(', ')
  return [seg(`${settings.glyphs.status.over} ${text}: ${message}`, 'over')]
}

function nextTry({problem, isPaused}: WatchData, nowMs: number): string[] {
  if (isPaused) return ['r tries again']
  if (problem?.nextTryAtMs === undefined) return []
  const inMs = problem.nextTryAtMs - nowMs
  return [inMs > 0 ? `next try in ${formatShortSpan(inMs)}` : 'trying again']
}

function pauseOf({state, levelsAtMs, nowMs, settings}: Frame): Line {
  if (state.pausedAtMs === undefined) return []
  const age = formatShortSpan(nowMs - levelsAtMs)
  return [
    seg(`${settings.glyphs.paused} paused: levels of ${formatTimeOfDay(levelsAtMs)}, ${age} ago; p resumes`, 'near'),
  ]
}

function hints({mode, tab, selection, canAct}: ScreenState): readonly string[] {
  if (isActionMode(mode)) return ACTION_HINTS[mode]
  if (mode === 'help') return ['esc back', 'q quit']
  if (mode === 'filter') return ['enter keep', 'esc drop', '!text inverts', 'status:over', 'resource:NAME']
  const actions = canAct ? ['R reset', 'B boost', 'X block'] : []
  if (mode === 'why') return ['esc back', 'q quit', ...actions, '? help', 'r refresh']
  if (mode === 'detail') return ['esc back', 'q quit', ...actions, 'y why', '? help', 'r refresh']
  const next = TABS[(TABS.indexOf(tab) + 1) % TABS.length]
  const isOverview = tab === 'overview'
  const inOverview = isOverview ? [...actions, '/ filter', `s sort: ${selection.sort}`] : []
  const drill = tab === 'health' ? [] : ['enter open', ...(isOverview ? ['y why'] : [])]
  return ['? help', 'q quit', ...inOverview, ...drill, `tab ${next}`, 'p pause']
}

const ACTION_HINTS: Readonly<Record<ActionMode, readonly string[]>> = {
  looking: ['esc cancel', 'q quit'],
  editing: ['enter continue', 'esc cancel', 'Ctrl-u erase'],
  asking: ['y continue', 'any other key cancels'],
  running: ['running', 'q quits when done', 'q again quits now'],
  over: ['esc back', 'q quit'],
}
