import {useApp, useInput, useWindowSize} from 'ink'
import {useEffect, useEffectEvent, useReducer, useRef, useState, useSyncExternalStore} from 'react'
import type {Selection, Watch} from '../watch/model.js'
import type {Palette} from './draw/palette.js'
import type {WatchFeed} from './model/feed.js'
import {buildFrame, type Frame, levelsInstant, type ViewSettings} from './model/frame.js'
import {Ranker} from './model/ranker.js'
import {type ScreenEvent, screenReducer} from './model/reducer.js'
import {type ExitCode, initialState, type ScreenState} from './model/screen-state.js'
import {summaryLine} from './model/summary.js'
import {extentOf, Screen} from './panels/screen.js'
import {onExitSignal, stopProcess} from './process.js'

export interface LiveViewProps {
  readonly watch: Watch
  readonly feed: WatchFeed
  readonly settings: ViewSettings
  readonly palette: Palette
  readonly selection: Selection
  /** Ends by itself after this time; `undefined`: never. */
  readonly forMs: number | undefined
}

/** How the view ended, and a line for the scrollback. */
export interface LiveViewResult {
  readonly exitCode: ExitCode
  readonly summary: string
}

/** The live view: keys and data become a frame; effects bring the watch in line with the state of the screen. */
export function LiveView({watch, feed, settings, palette, selection, forMs}: LiveViewProps) {
  const {exit, suspendTerminal} = useApp()
  const {data, nowMs} = useSyncExternalStore(feed.subscribe, feed.current)
  const size = useWindowSize()
  const [ranker] = useState(() => new Ranker(settings.top))

  const frameOf = (state: ScreenState): Frame => {
    const atMs = levelsInstant(state, data, nowMs)
    const ranking = ranker.rankingAt(data.readings, atMs, state.selection, state.tab)
    return buildFrame({settings, size, state, data, ranking, nowMs})
  }
  const [state, dispatch] = useReducer(
    (before: ScreenState, event: ScreenEvent) => screenReducer(before, event, each => extentOf(frameOf(each))),
    undefined,
    () => initialState(selection, data.intervalMs),
  )
  const frame = frameOf(state)
  if (frame.cursor !== state.cursors[state.tab]) dispatch({type: 'settled', cursor: frame.cursor})

  useInput((input, key) => dispatch({type: 'press', input, key, atMs: watch.now()}))
  useWatchedState(watch, frame)
  useChange(state.suspensions, () => void suspendTerminal(stopProcess))

  const end = useEffectEvent((exitCode: ExitCode) => {
    const result: LiveViewResult = {exitCode, summary: summaryLine(frame.ranking, feed.stats, watch.now())}
    exit(result)
  })
  useEffect(() => {
    if (state.exitCode !== undefined) end(state.exitCode)
  }, [state.exitCode])
  useEffect(() => onExitSignal(exitCode => end(exitCode)), [])
  useEffect(() => {
    const limit = forMs === undefined ? undefined : setTimeout(() => end(0), forMs)
    return () => clearTimeout(limit)
  }, [forMs])

  return <Screen frame={frame} palette={palette} />
}

/** Tells the watch what the screen needs. */
function useWatchedState(watch: Watch, {state, rows, data}: Frame): void {
  const {detailId, whyId, tab, pausedAtMs, intervalMs, refreshes} = state
  const parent = data.detail?.parent
  const open = whyId ?? detailId
  const ids = open === undefined ? rows.map(({id}) => id) : [open, ...(parent ? [parent.id] : [])]
  useChange(detailId, () => watch.setDetail(detailId))
  useChange(whyId, () => watch.setWhy(whyId))
  useChange(tab === 'health', isHealth => watch.watchHealth(isHealth))
  useChange(pausedAtMs !== undefined, isPaused => watch.setPaused(isPaused))
  useChange(intervalMs, () => watch.setIntervalMs(intervalMs))
  useChange(refreshes, () => {
    watch.pollNow()
    if (detailId !== undefined) watch.setDetail(detailId)
    if (whyId !== undefined) watch.setWhy(whyId)
  })
  const focused = useRef<readonly string[]>([])
  useEffect(() => {
    if (ids.length === focused.current.length && ids.every((id, at) => id === focused.current[at])) return
    focused.current = ids
    watch.focus(ids)
  })
}

/** Runs an effect when a value has changed, but not for its first value. */
function useChange<T>(value: T, effect: (value: T) => void): void {
  const last = useRef(value)
  useEffect(() => {
    if (last.current === value) return
    last.current = value
    effect(value)
  })
}
