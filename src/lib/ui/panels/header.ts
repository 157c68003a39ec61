import {formatCount, formatShortNumber, formatShortSpan} from '../../core/text.js'
import type {Knowledge, Reading} from '../../watch/model.js'
import {intervalText} from '../draw/interval.js'
import {clip, joined, type Line, lengthOf, seg} from '../draw/line.js'
import type {Scene} from '../model/scene.js'
import {TABS} from '../model/screen-state.js'

/** Data older than so many polls is stale. */
const STALE_POLLS = 3

/** Where one is, and how fresh and dear what one sees is. */
export function headerLines(scene: Scene): Line[] {
  return [placeLine(scene), dataLine(scene)]
}

function placeLine({settings, state, size}: Scene): Line {
  const {stack, namespace, where, glyphs} = settings
  const dot = ` ${glyphs.dot} `
  const place = joined([[seg('zael watch', 'title')], [seg(`${stack}/${namespace}`, 'strong')], [seg(where)]], dot)
  const all = TABS.map(tab => (tab === state.tab ? seg(`[${tab}]`, 'strong') : seg(` ${tab} `, 'dim')))
  // Where there is not room for all tabs, the one that is open is named.
  const tabs = lengthOf(place) + lengthOf(all) < size.columns ? all : [seg(`[${state.tab}]`, 'strong')]
  const left = clip(place, Math.max(0, size.columns - lengthOf(tabs) - 1), glyphs.ellipsis)
  return [...left, seg(' '.repeat(Math.max(0, size.columns - lengthOf(left) - lengthOf(tabs)))), ...tabs]
}

function dataLine(scene: Scene): Line {
  const {lastPoll, intervalMs} = scene.knowledge
  const dot = ` ${scene.settings.glyphs.dot} `
  if (!lastPoll) return [seg('no data yet', 'near')]
  return joined(
    [
      [ageOf(scene)],
      [seg(`${formatShortNumber(lastPoll.readUnits)} read units/poll`)],
      bucketsOf(scene),
      [seg(`every ${intervalText(intervalMs)}`, 'dim')],
    ],
    dot,
  )
}

/** Whether what is shown is older than it should be. */
export function isStale({knowledge, nowMs}: Pick<Scene, 'knowledge' | 'nowMs'>): boolean {
  const {lastPoll, intervalMs} = knowledge
  return lastPoll !== undefined && nowMs - lastPoll.atMs > STALE_POLLS * intervalMs
}

/** Whether a bucket has not been read for as long, while others were. */
export function isLeftBehind({readAtMs}: Pick<Reading, 'readAtMs'>, {lastPoll, intervalMs}: Knowledge): boolean {
  return lastPoll !== undefined && lastPoll.atMs - readAtMs > STALE_POLLS * intervalMs
}

function ageOf(scene: Scene) {
  const age = `data ${formatShortSpan(scene.nowMs - (scene.knowledge.lastPoll?.atMs ?? scene.nowMs))} old`
  return isStale(scene) ? seg(`${scene.settings.glyphs.status.near} stale: ${age}`, 'near') : seg(age)
}

/** Shown of all; and where a poll did not read all, how many it read. */
function bucketsOf({knowledge, ranking}: Scene): Line {
  const {known, lastPoll} = knowledge
  const all = `${formatCount(known.count)}${known.isComplete ? '' : '+'}`
  const shown = formatCount(ranking.shown)
  if (!lastPoll || lastPoll.bucketsRead >= known.count) return [seg(`${shown} of ${all} buckets`)]
  return [seg(`${shown} buckets, `), seg(`sampled ${formatCount(lastPoll.bucketsRead)} of ${all}`, 'near')]
}
