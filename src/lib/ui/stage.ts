import {listIds, type Scene} from './model/scene.js'
import type {ViewContext} from './model/screen-state.js'
import {detailLines} from './panels/detail.js'
import {helpHeight, helpLines} from './panels/help.js'

/** What a scene means for the next move in it. */
export function viewContextOf(scene: Scene): ViewContext {
  const {state, knowledge, ranking, heights} = scene
  return {ids: listIds(state, knowledge, ranking), height: heights.body, text: textOf(scene)}
}

function textOf(scene: Scene): ViewContext['text'] {
  const {state, heights} = scene
  if (state.mode === 'help') return {length: helpLines(scene).length, height: helpHeight(scene)}
  return {length: state.detailId === undefined ? 0 : detailLines(scene).length, height: heights.text}
}
