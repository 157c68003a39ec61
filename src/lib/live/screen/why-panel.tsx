import {formatShortSpan} from '../../core/text/text.js'
import {wrapped} from '../../core/text/wrap.js'
import type {Frame} from './frame.js'
import {type Line, seg} from './line.js'
import {ScreenLines} from './screen-line.js'

export function Why({frame}: {readonly frame: Frame}) {
  const lines = explanationLines(frame)
  const {state, heights} = frame
  const top = Math.max(0, Math.min(state.whyTop, lines.length - heights.text))
  return <ScreenLines lines={lines.slice(top, top + heights.text)} />
}

export function explanationLines({state, data, nowMs, settings, size}: Frame): Line[] {
  const [entity = '', resource = ''] = (state.whyId ?? '').split('#')
  const title = seg(`Why ${entity} ${settings.glyphs.dot} ${resource}`, 'title')
  const why = data.why?.id === state.whyId ? data.why : undefined
  if (!why) return [[title], [], [seg('Loading.', 'dim')]]
  const age = seg(`  read ${formatShortSpan(nowMs - why.loadedAtMs)} ago`, 'dim')
  const [verdict = '', ...rest] = why.lines
  return [
    [title, age],
    [],
    ...wrapped(verdict, size.columns).map((text): Line => [seg(text, 'strong')]),
    ...rest.flatMap(line => wrapped(line, size.columns)).map((text): Line => [seg(text)]),
  ]
}
