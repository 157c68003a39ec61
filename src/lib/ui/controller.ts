import type {Selection, Watch} from '../watch/model.js'
import {intervalText} from './draw/interval.js'
import {buildFrame, type Frame, isMoving, levelsInstant, listIds, type Size, type ViewSettings} from './model/frame.js'
import {type Intent, intentOf, type KeyPress, keyStrokesOf} from './model/keys.js'
import {Ranker} from './model/ranker.js'
import {initialState, reduce, type ScreenAction, type ScreenState, type ViewContext} from './model/screen-state.js'
import {countPoll, type ViewStats} from './model/summary.js'
import {detailLines} from './panels/detail.js'
import {helpHeight, helpLines} from './panels/help.js'

export type ExitCode = 0 | 130 | 143

/** Shortest time between two frames in which only levels move. */
const MOVE_MS = 250

/** Pause after a frame in which only levels moved, as a multiple of its drawing time: bounds the CPU use on a large screen. */
const REST_PER_DRAWING = 7
const SECOND_MS = 1000

/** Poll intervals that `+` and `-` step through. */
const INTERVALS_MS: readonly number[] = [1000, 2000, 5000, 10_000, 30_000, 60_000]

/** The live view without its rendering: turns keys, clock ticks and polls into frames. */
export class LiveViewController {
  /** Resolves to the exit code when the view ends. */
  readonly ended: Promise<ExitCode>
  readonly #watch: Watch
  readonly #settings: ViewSettings
  readonly #draw: (frame: Frame) => void
  readonly #ranker: Ranker
  #end: (exitCode: ExitCode) => void = () => {}
  #fail: (error: unknown) => void = () => {}
  #state: ScreenState
  #size: Size
  #frame: Frame
  #focused: readonly string[] = []
  #stats: ViewStats
  /** Earliest time of the next frame in which only levels move, by the monotonic clock. */
  #restsUntil = 0
  #stops: (() => void)[] = []

  constructor(watch: Watch, settings: ViewSettings, selection: Selection, size: Size, draw: (frame: Frame) => void) {
    this.#watch = watch
    this.#settings = settings
    this.#draw = draw
    this.#size = size
    this.#ranker = new Ranker(settings.top)
    this.#state = initialState(selection)
    this.#stats = countPoll({startedAtMs: watch.now(), polls: 0, readUnits: 0, lastPoll: 0}, watch.data().lastPoll)
    this.ended = new Promise((resolve, reject) => {
      this.#end = resolve
      this.#fail = reject
    })
    this.#frame = this.#nextFrame()
  }

  get frame(): Frame {
    return this.#frame
  }

  get stats(): ViewStats {
    return this.#stats
  }

  /** Updates with the watch and the clock until {@link close}; ends by itself after `forMs`. */
  open(forMs: number | undefined): void {
    const guarded = (work: () => void) => () => this.#guard(work)
    const tick = setInterval(
      guarded(() => this.#tick()),
      MOVE_MS,
    )
    const limit = forMs === undefined ? undefined : setTimeout(() => this.#end(0), forMs)
    const unsubscribe = this.#watch.subscribe(guarded(() => this.#onData()))
    this.#stops = [() => clearInterval(tick), () => clearTimeout(limit), unsubscribe]
    this.#guard(() => this.refresh())
  }

  /** Stops updating; the watch itself continues. */
  close(): void {
    for (const stop of this.#stops) stop()
    this.#stops = []
  }

  end(exitCode: ExitCode): void {
    this.#end(exitCode)
  }

  resize(size: Size): void {
    this.#size = size
    this.#guard(() => this.refresh())
  }

  /** Handles a key, or several that arrived together. */
  press(input: string, key: KeyPress): void {
    this.#guard(() => {
      for (const stroke of keyStrokesOf(input, key)) {
        const intent = intentOf(stroke.input, stroke.key, this.#state.mode, this.#state.tab)
        if (intent) this.#handle(intent)
      }
      this.refresh()
    })
  }

  /** Draws the current frame. */
  refresh(): void {
    this.#frame = this.#nextFrame()
    const {tab, cursors} = this.#state
    this.#state = {...this.#state, cursors: {...cursors, [tab]: this.#frame.cursor}}
    this.#focus()
    this.#draw(this.#frame)
  }

  #handle(intent: Intent): void {
    switch (intent.type) {
      case 'quit':
        this.#end(intent.exitCode)
        break
      case 'refresh':
        this.#watch.pollNow()
        if (this.#state.detailId !== undefined) this.#watch.setDetail(this.#state.detailId)
        break
      case 'interval':
        this.#changeInterval(intent.step)
        break
      case 'pause':
        this.#apply({type: 'pause', atMs: this.#watch.now()})
        this.#watch.setPaused(this.#state.pausedAtMs !== undefined)
        break
      case 'show-command':
        this.#showCommand()
        break
      default:
        this.#apply(intent)
    }
  }

  #apply(action: ScreenAction): void {
    const before = this.#state
    this.#state = reduce(before, action, () => this.#viewContext())
    if (this.#state.detailId !== before.detailId) this.#watch.setDetail(this.#state.detailId)
    if (this.#state.tab !== before.tab) this.#watch.watchHealth(this.#state.tab === 'health')
  }

  /** Computed for each key, because several may arrive together and each may change the list. */
  #viewContext(): ViewContext {
    const frame = this.#nextFrame()
    const {state, data, ranking, heights} = frame
    return {ids: listIds(state, data, ranking), height: heights.body, text: textExtent(frame)}
  }

  #changeInterval(step: 1 | -1): void {
    const intervalMs = nextInterval(this.#watch.data().intervalMs, step)
    this.#watch.setIntervalMs(intervalMs)
    this.#apply({type: 'note', text: `polling every ${intervalText(intervalMs)}`})
  }

  /** Shown, not copied: the clipboard would be that of the machine that zael runs on, which may be remote. */
  #showCommand(): void {
    const id = this.#state.detailId ?? this.#frame.ranking.ids[this.#frame.cursor.index]
    const reading = id === undefined ? undefined : this.#watch.data().readings.get(id)
    if (!reading) return
    const {entity, resource} = reading.bucket
    const {typedFlags = ''} = this.#settings
    this.#apply({type: 'note', text: `zael bucket show ${entity} --resource ${resource}${typedFlags}`})
  }

  #onData(): void {
    this.#stats = countPoll(this.#stats, this.#watch.data().lastPoll)
    this.refresh()
  }

  /** Moving levels are redrawn four times a second; ages once a second. */
  #tick(): void {
    const startedAt = performance.now()
    const {nowMs} = this.#frame
    const isNewSecond = Math.floor(this.#watch.now() / SECOND_MS) !== Math.floor(nowMs / SECOND_MS)
    if (!isNewSecond && (startedAt < this.#restsUntil || !isMoving(this.#frame))) return
    this.refresh()
    const endedAt = performance.now()
    this.#restsUntil = endedAt + REST_PER_DRAWING * (endedAt - startedAt)
  }

  #nextFrame(): Frame {
    const data = this.#watch.data()
    const nowMs = this.#watch.now()
    const state = this.#state
    const atMs = levelsInstant(state, data, nowMs)
    const ranking = this.#ranker.rankingAt(data.readings, atMs, state.selection, state.tab)
    return buildFrame({settings: this.#settings, size: this.#size, state, data, ranking, nowMs})
  }

  /** Has the watch read the visible buckets with every poll. */
  #focus(): void {
    const {state, rows, data} = this.#frame
    const parent = data.detail?.parent
    const ids = state.detailId === undefined ? rows.map(({id}) => id) : [state.detailId, ...(parent ? [parent.id] : [])]
    if (ids.length === this.#focused.length && ids.every((id, position) => id === this.#focused[position])) return
    this.#focused = ids
    this.#watch.focus(ids)
  }

  /** An error must end the view cleanly, so that the terminal is restored. */
  #guard(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#fail(error)
    }
  }
}

/** Length of the open help or detail, and how many of its lines the screen shows. */
function textExtent(frame: Frame): ViewContext['text'] {
  const {state, heights} = frame
  if (state.mode === 'help') return {length: helpLines(frame).length, height: helpHeight(frame)}
  return {length: state.detailId === undefined ? 0 : detailLines(frame).length, height: heights.text}
}

/** The next longer or shorter interval; unchanged at either end. */
function nextInterval(intervalMs: number, step: 1 | -1): number {
  if (step === 1) return INTERVALS_MS.find(each => each > intervalMs) ?? intervalMs
  return INTERVALS_MS.findLast(each => each < intervalMs) ?? intervalMs
}
