import type {Knowledge, Reading} from '../watch/model.js'
import {compact, count, span} from './format.js'
import {joined, type Line, lengthOf, seg} from './line.js'
import type {Scene} from './scene.js'
import {TABS} from './screen-state.js'

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
  const tabs = TABS.map(tab => (tab === state.tab ? seg(`[${tab}]`, 'strong') : seg(` ${tab} `, 'dim')))
  const room = size.columns - lengthOf(place) - lengthOf(tabs)
  return room < 1 ? place : [...place, seg(' '.repeat(room)), ...tabs]
}

function dataLine(scene: Scene): Line {
  const {lastPoll, intervalMs} = scene.knowledge
  const dot = ` ${scene.settings.glyphs.dot} `
  if (!lastPoll) return [seg('no data yet', 'near')]
  return joined(
    [
      [ageOf(scene)],
      [seg(`${compact(lastPoll.readUnits)} read units/poll`)],
      bucketsOf(scene),
      [seg(`every ${span(intervalMs)}`, 'dim')],
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
  const age = `data ${span(scene.nowMs - (scene.knowledge.lastPoll?.atMs ?? scene.nowMs))} old`
  return isStale(scene) ? seg(`${scene.settings.glyphs.status.near} stale: ${age}`, 'near') : seg(age)
}

/** Shown of all; and where a poll did not read all, how many it read. */
function bucketsOf({knowledge, ranking}: Scene): Line {
  const {known, lastPoll} = knowledge
  const all = `${count(known.count)}${known.isComplete ? '' : '+'}`
  const shown = count(ranking.ids.length)
  if (!lastPoll || lastPoll.bucketsRead >= known.count) return [seg(`${shown} of ${all} buckets`)]
  return [seg(`${shown} buckets, `), seg(`sampled ${count(lastPoll.bucketsRead)} of ${all}`, 'near')]
}
