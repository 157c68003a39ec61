import {render, useApp, useInput, useWindowSize} from 'ink'
import {useEffect, useEffectEvent, useReducer, useRef, useState, useSyncExternalStore} from 'react'
import type {Selection, Watch, WatchData} from '../model/model.js'
import {boostTextOf, unansweredText} from '../state/action-state.js'
import type {BucketActions} from '../state/actions.js'
import {type ScreenEvent, screenReducer} from '../state/reduce.js'
import {type ExitCode, initialState, type ScreenState} from '../state/screen-state.js'
import {
  buildFrame,
  countPoll,
  type Frame,
  levelsInstant,
  Ranker,
  summaryLine,
  type ViewSettings,
  type ViewStats,
} from './frame.js'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from './glyphs.js'
import {type Palette, paletteFor} from './line.js'
import {extentOf, Screen} from './screen.js'

/** Bounds the delay of a key that follows a frame immediately. */
const MAX_FPS = 60

export interface LiveViewOptions extends Omit<ViewSettings, 'glyphs'> {
  readonly ascii: boolean
  readonly selection: Selection
  readonly forMs: number | undefined
  readonly actions?: BucketActions | undefined
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
}

/** Runs until a key, a signal or `forMs` ends it. Does not start or stop the watch. */
export async function showLiveView(watch: Watch, options: LiveViewOptions): Promise<LiveViewResult> {
  const {stdin, stdout, selection, forMs, actions, ascii, ...place} = options
  const settings = {...place, glyphs: ascii ? ASCII_GLYPHS : BLOCK_GLYPHS}
  const palette = paletteFor(stdout.getColorDepth?.() ?? 1)
  const feed = new WatchFeed(watch)
  stdin.setRawMode(true)
  // Ink draws its first frame at the cursor, behind anything typed before.
  stdout.write('\r')
  const clear = () => {
    app.clear()
    stdout.write(CLEAR)
  }
  const app = render(<LiveView {...{watch, feed, settings, palette, selection, forMs, actions, clear}} />, {
    stdin,
    stdout,
    alternateScreen: true,
    incrementalRendering: true,
    interactive: true,
    exitOnCtrlC: false,
    patchConsole: false,
    maxFps: MAX_FPS,
  })
  try {
    return (await app.waitUntilExit()) as LiveViewResult
  } finally {
    stdin.setRawMode(false)
  }
}

/** Cursor to the top left corner, erase all below it. */
const CLEAR = '\u001b[H\u001b[J'

interface LiveViewProps extends Pick<LiveViewOptions, 'selection' | 'forMs' | 'actions'> {
  /** Empties the screen; the next frame is drawn completely. */
  readonly clear: () => void
  readonly watch: Watch
  readonly feed: WatchFeed
  readonly settings: ViewSettings
  readonly palette: Palette
}

export interface LiveViewResult {
  readonly exitCode: ExitCode
  readonly summary: string
  readonly performed: readonly string[]
}

function LiveView({watch, feed, settings, palette, selection, forMs, actions, clear}: LiveViewProps) {
  const {exit, suspendTerminal} = useApp()
  const {data, nowMs} = useSyncExternalStore(feed.subscribe, feed.current)
  const size = useWindowSize()
  useRedraw(size, clear)
  const [ranker] = useState(() => new Ranker(settings.top))

  const frameOf = (state: ScreenState): Frame => {
    const atMs = levelsInstant(state, data, nowMs)
    const ranking = ranker.rankingAt(data.readings, atMs, state.selection, state.tab)
    return buildFrame({settings, size, state, data, ranking, nowMs})
  }
  const [state, dispatch] = useReducer(
    (before: ScreenState, event: ScreenEvent) => screenReducer(before, event, each => extentOf(frameOf(each))),
    undefined,
    () => initialState(selection, data.intervalMs, actions !== undefined),
  )
  const frame = frameOf(state)
  if (frame.cursor !== state.cursors[state.tab]) dispatch({type: 'settled', cursor: frame.cursor})

  useInput((input, key) => dispatch({type: 'press', input, key, atMs: watch.now()}))
  useWatchedState(watch, frame)
  useChange(state.suspensions, () => void suspendTerminal(stopProcess))

  useActions(actions, state, watch, dispatch)

  const end = useEffectEvent((exitCode: ExitCode) => {
    const summary = summaryLine(frame.ranking, feed.stats, watch.now())
    const result: LiveViewResult = {exitCode, summary, performed: [...state.performed, ...unansweredText(state)]}
    exit(result)
  })
  const isEnding = state.mode !== 'running' || state.endsAtOnce
  useEffect(() => {
    if (state.exitCode !== undefined && isEnding) end(state.exitCode)
  }, [state.exitCode, isEnding])
  useEffect(() => onExitSignal(exitCode => dispatch({type: 'end', exitCode})), [])
  useEffect(() => {
    const limit = forMs === undefined ? undefined : setTimeout(() => dispatch({type: 'end', exitCode: 0}), forMs)
    return () => clearTimeout(limit)
  }, [forMs])

  return <Screen frame={frame} palette={palette} />
}

/**
 * Ink draws the former frame once more, whose lines may be too long by now. It takes lines that both frames share as
 * drawn, although the long lines pushed them away.
 */
function useRedraw({columns, rows}: ReturnType<typeof useWindowSize>, clear: () => void): void {
  const [, draw] = useState(0)
  useChange(`${columns} ${rows}`, () => {
    clear()
    draw(count => count + 1)
  })
}

function useWatchedState(watch: Watch, {state, rows, data}: Frame): void {
  const {detailId, whyId, tab, pausedAtMs, intervalMs, refreshes} = state
  const open = whyId ?? detailId
  const ids = open === undefined ? rows.map(({id}) => id) : [open, ...(data.detail?.parents ?? []).map(({id}) => id)]
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

function useActions(
  actions: BucketActions | undefined,
  {steps: step, mode, action}: ScreenState,
  watch: Watch,
  dispatch: (event: ScreenEvent) => void,
): void {
  useChange(step, () => {
    if (!actions || !action) return
    const failed = (error: unknown) => dispatch({type: 'failed', step, error, atMs: watch.now()})
    const {kind, target, question} = action
    const text = boostTextOf(action)
    if (mode === 'running') {
      question?.perform().then(lines => dispatch({type: 'done', step, lines, atMs: watch.now()}), failed)
    } else if (kind === 'boost' && text === undefined) {
      actions.boostText(target).then(draft => dispatch({type: 'drafted', step, text: draft}), failed)
    } else {
      actions.ask(kind, target, text).then(asked => dispatch({type: 'asked', step, question: asked}), failed)
    }
  })
}

/** Skips the first value. */
function useChange<T>(value: T, effect: (value: T) => void): void {
  const last = useRef(value)
  useEffect(() => {
    if (last.current === value) return
    last.current = value
    effect(value)
  })
}

function onExitSignal(end: (exitCode: ExitCode) => void): () => void {
  const onInterrupt = () => end(130)
  const onTerminate = () => end(143)
  process.on('SIGINT', onInterrupt)
  process.on('SIGTERM', onTerminate)
  return () => {
    process.off('SIGINT', onInterrupt)
    process.off('SIGTERM', onTerminate)
  }
}

/** Returns when the process continues. Does nothing on Windows, which has no job control. */
function stopProcess(): void {
  if (process.platform === 'win32') return
  // The whole process group, as the terminal does: the shell waits for the process that started this one.
  process.kill(0, 'SIGTSTP')
  // A stopped process gets no resize events.
  process.kill(process.pid, 'SIGWINCH')
}

const SECOND_MS = 1000
/** A tick waits this long for a poll that is due, which saves a frame. */
const POLL_GRACE_MS = 300

interface Snapshot {
  readonly data: WatchData
  readonly nowMs: number
}

/** For `useSyncExternalStore`: a new snapshot on every change, and after each second without one. */
export class WatchFeed {
  readonly #watch: Watch
  readonly #listeners = new Set<() => void>()
  #snapshot: Snapshot
  #stats: ViewStats
  #timer: NodeJS.Timeout | undefined
  #unsubscribe = (): void => {}

  constructor(watch: Watch) {
    this.#watch = watch
    this.#snapshot = {data: watch.data(), nowMs: watch.now()}
    const none = {startedAtMs: watch.now(), polls: 0, readUnits: 0, lastPoll: 0}
    this.#stats = countPoll(none, this.#snapshot.data.lastPoll)
  }

  get stats(): ViewStats {
    return this.#stats
  }

  readonly current = (): Snapshot => this.#snapshot

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    if (this.#listeners.size === 1) {
      this.#unsubscribe = this.#watch.subscribe(() => this.#refresh())
      this.#refresh()
    }
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size > 0) return
      this.#unsubscribe()
      clearTimeout(this.#timer)
    }
  }

  #refresh(): void {
    this.#snapshot = {data: this.#watch.data(), nowMs: this.#watch.now()}
    this.#stats = countPoll(this.#stats, this.#snapshot.data.lastPoll)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#refresh(), untilTick(this.#snapshot))
    for (const listener of this.#listeners) listener()
  }
}

function untilTick({data, nowMs}: Snapshot): number {
  const {lastPoll, intervalMs, isPaused} = data
  const untilPoll = lastPoll && !isPaused ? lastPoll.atMs + intervalMs - nowMs : 0
  return Math.abs(untilPoll - SECOND_MS) < POLL_GRACE_MS ? untilPoll + POLL_GRACE_MS : SECOND_MS
}
