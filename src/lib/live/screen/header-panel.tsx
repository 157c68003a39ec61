import {formatCount, formatShortNumber, formatShortSpan} from '../../core/text/text.js'
import type {Reading, WatchData} from '../model/model.js'
import {intervalText, TABS} from '../state/screen-state.js'
import type {Frame} from './frame.js'
import {columnsOf, fittingPieces, joinPieces, type Line, seg, withRightEnd} from './line.js'
import {ScreenLine} from './screen-line.js'

const STALE_POLLS = 3

export function Header({frame}: {readonly frame: Frame}) {
  return (
    <>
      <ScreenLine line={placeLine(frame)} />
      <ScreenLine line={dataLine(frame)} />
    </>
  )
}

function placeLine({settings, state, size}: Frame): Line {
  const {stack, namespace, where, glyphs} = settings
  const dot = ` ${glyphs.dot} `
  const stackName = joinPieces([[seg('zael watch', 'title')], [seg(`${stack}/${namespace}`, 'strong')]], dot)
  const place = joinPieces([stackName, [seg(where)]], dot)
  const all = TABS.map(tab => (tab === state.tab ? seg(`[${tab}]`, 'strong') : seg(` ${tab} `, 'dim')))
  if (columnsOf(place) + columnsOf(all) < size.columns) return withRightEnd(place, all, size.columns, glyphs.ellipsis)
  const tab = [seg(`[${state.tab}]`, 'strong')]
  const shown = fittingPieces([stackName, [seg(where)]], dot, size.columns - columnsOf(tab) - 1)
  return withRightEnd(shown, tab, size.columns, glyphs.ellipsis)
}

function dataLine(frame: Frame): Line {
  const {lastPoll, intervalMs} = frame.data
  const dot = ` ${frame.settings.glyphs.dot} `
  if (!lastPoll) return [seg('no data yet', 'near')]
  const pieces = [
    [ageOf(frame)],
    bucketsOf(frame),
    [seg(`${formatShortNumber(lastPoll.readUnits)} read units/poll`)],
    [seg(`every ${intervalText(intervalMs)}`, 'dim')],
  ]
  return fittingPieces(pieces, dot, frame.size.columns)
}

function isStale({data, nowMs}: Pick<Frame, 'data' | 'nowMs'>): boolean {
  const {lastPoll, intervalMs} = data
  return lastPoll !== undefined && nowMs - lastPoll.atMs > STALE_POLLS * intervalMs
}

/** Several polls in a row may skip a bucket, because they sample. */
export function isOutdated({readAtMs}: Pick<Reading, 'readAtMs'>, {lastPoll, intervalMs}: WatchData): boolean {
  return lastPoll !== undefined && lastPoll.atMs - readAtMs > STALE_POLLS * intervalMs
}

function ageOf(frame: Frame) {
  const age = `data ${formatShortSpan(frame.nowMs - (frame.data.lastPoll?.atMs ?? frame.nowMs))} old`
  return isStale(frame) ? seg(`${frame.settings.glyphs.status.near} stale: ${age}`, 'near') : seg(age)
}

function bucketsOf({data, ranking}: Frame): Line {
  const {known, lastPoll} = data
  const all = `${formatCount(known.count)}${known.isComplete ? '' : '+'}`
  const shown = formatCount(ranking.shown)
  const buckets = known.count === 1 ? 'bucket' : 'buckets'
  if (!lastPoll || lastPoll.bucketsRead >= known.count) return [seg(`${shown} of ${all} ${buckets}`)]
  return [seg(`${shown} buckets, `), seg(`sampled ${formatCount(lastPoll.bucketsRead)} of ${all}`, 'near')]
}
