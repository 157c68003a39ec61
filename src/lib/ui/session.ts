import type {Selection, Watch} from '../watch/model.js'
import {changedInterval, intervalText} from './draw/interval.js'
import {type Intent, intentOf, type KeyPress, strokesOf} from './model/keys.js'
import {Ranker} from './model/ranker.js'
import {isMoving, levelsInstant, type Scene, type SceneSettings, type Size, setScene} from './model/scene.js'
import {firstState, reduce, type ScreenAction, type ScreenState, type ViewContext} from './model/screen-state.js'
import {type Seen, sawPoll} from './seen.js'
import {viewContextOf} from './stage.js'

export type ExitCode = 0 | 130 | 143

/** How often levels move between polls, at most. */
const MOVE_MS = 250

/** Levels move more slowly where drawing takes long: a large screen must not keep the machine busy. */
const REST_PER_DRAWING = 7
const SECOND_MS = 1000

/** The live view without its drawing: keys, clocks and the watch come in, scenes go out. */
export class LiveSession {
  /** How and when it ended. */
  readonly ended: Promise<ExitCode>
  readonly #watch: Watch
  readonly #settings: SceneSettings
  readonly #draw: (scene: Scene) => void
  readonly #ranker: Ranker
  #end: (exitCode: ExitCode) => void = () => {}
  #fail: (error: unknown) => void = () => {}
  #state: ScreenState
  #size: Size
  #scene: Scene
  #focused: readonly string[] = []
  #seen: Seen
  /** When the next movement may be drawn, by the monotonic clock. */
  #restsUntil = 0
  #stops: (() => void)[] = []

  constructor(watch: Watch, settings: SceneSettings, selection: Selection, size: Size, draw: (scene: Scene) => void) {
    this.#watch = watch
    this.#settings = settings
    this.#draw = draw
    this.#size = size
    this.#ranker = new Ranker(settings.top)
    this.#state = firstState(selection)
    this.#seen = sawPoll({startedAtMs: watch.now(), polls: 0, readUnits: 0, lastPoll: 0}, watch.knowledge().lastPoll)
    this.ended = new Promise((resolve, reject) => {
      this.#end = resolve
      this.#fail = reject
    })
    this.#scene = this.#nextScene()
  }

  get scene(): Scene {
    return this.#scene
  }

  get seen(): Seen {
    return this.#seen
  }

  /** Follows the watch and the clock until {@link close}; ends by itself after `forMs`. */
  open(forMs: number | undefined): void {
    const guarded = (work: () => void) => () => this.#guard(work)
    const tick = setInterval(
      guarded(() => this.#tick()),
      MOVE_MS,
    )
    const limit = forMs === undefined ? undefined : setTimeout(() => this.#end(0), forMs)
    const unsubscribe = this.#watch.subscribe(guarded(() => this.#learn()))
    this.#stops = [() => clearInterval(tick), () => clearTimeout(limit), unsubscribe]
    this.#guard(() => this.refresh())
  }

  /** Stops following; the watch itself goes on. */
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

  /** A key, or several that came together. */
  press(input: string, key: KeyPress): void {
    this.#guard(() => {
      for (const stroke of strokesOf(input, key)) {
        const intent = intentOf(stroke.input, stroke.key, this.#state.mode, this.#state.tab)
        if (intent) this.#obey(intent)
      }
      this.refresh()
    })
  }

  /** Draws the screen as it is now. */
  refresh(): void {
    this.#scene = this.#nextScene()
    const {tab, cursors} = this.#state
    this.#state = {...this.#state, cursors: {...cursors, [tab]: this.#scene.cursor}}
    this.#focus()
    this.#draw(this.#scene)
  }

  #obey(intent: Intent): void {
    switch (intent.type) {
      case 'quit':
        this.#end(intent.exitCode)
        break
      case 'refresh':
        this.#watch.pollNow()
        if (this.#state.detailId !== undefined) this.#watch.look(this.#state.detailId)
        break
      case 'interval':
        this.#changeInterval(intent.step)
        break
      case 'pause':
        this.#apply({type: 'pause', atMs: this.#watch.now()})
        this.#watch.setPaused(this.#state.pausedAtMs !== undefined)
        break
      case 'tell':
        this.#tell()
        break
      default:
        this.#apply(intent)
    }
  }

  #apply(action: ScreenAction): void {
    const before = this.#state
    this.#state = reduce(before, action, () => this.#stage())
    if (this.#state.detailId !== before.detailId) this.#watch.look(this.#state.detailId)
    if (this.#state.tab !== before.tab) this.#watch.watchHealth(this.#state.tab === 'health')
  }

  /** Keys that came together meet the list as the one before has left it. */
  #stage(): ViewContext {
    return viewContextOf(this.#nextScene())
  }

  #changeInterval(step: 1 | -1): void {
    const intervalMs = changedInterval(this.#watch.knowledge().intervalMs, step)
    this.#watch.setIntervalMs(intervalMs)
    this.#apply({type: 'note', text: `polling every ${intervalText(intervalMs)}`})
  }

  /** Copying would go to the clipboard of the machine that zael runs on, which may be far away. */
  #tell(): void {
    const id = this.#state.detailId ?? this.#scene.ranking.ids[this.#scene.cursor.index]
    const reading = id === undefined ? undefined : this.#watch.knowledge().readings.get(id)
    if (!reading) return
    const {entity, resource} = reading.bucket
    const {typedFlags = ''} = this.#settings
    this.#apply({type: 'note', text: `zael bucket show ${entity} --resource ${resource}${typedFlags}`})
  }

  #learn(): void {
    this.#seen = sawPoll(this.#seen, this.#watch.knowledge().lastPoll)
    this.refresh()
  }

  /** Levels move four times a second where some do; ages once a second. */
  #tick(): void {
    const startedAt = performance.now()
    const {nowMs} = this.#scene
    const isNewSecond = Math.floor(this.#watch.now() / SECOND_MS) !== Math.floor(nowMs / SECOND_MS)
    if (!isNewSecond && (startedAt < this.#restsUntil || !isMoving(this.#scene))) return
    this.refresh()
    const endedAt = performance.now()
    this.#restsUntil = endedAt + REST_PER_DRAWING * (endedAt - startedAt)
  }

  #nextScene(): Scene {
    const knowledge = this.#watch.knowledge()
    const nowMs = this.#watch.now()
    const state = this.#state
    const atMs = levelsInstant(state, knowledge, nowMs)
    const ranking = this.#ranker.rankingAt(knowledge.readings, atMs, state.selection, state.tab)
    return setScene({settings: this.#settings, size: this.#size, state, knowledge, ranking, nowMs})
  }

  /** What is on the screen is read with every poll. */
  #focus(): void {
    const {state, rows, knowledge} = this.#scene
    const parent = knowledge.detail?.parent
    const ids = state.detailId === undefined ? rows.map(({id}) => id) : [state.detailId, ...(parent ? [parent.id] : [])]
    if (ids.length === this.#focused.length && ids.every((id, position) => id === this.#focused[position])) return
    this.#focused = ids
    this.#watch.focus(ids)
  }

  /** A fault must end the view in order, not the process with the terminal as it is. */
  #guard(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#fail(error)
    }
  }
}
