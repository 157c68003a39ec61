import {InvalidInput} from '../../core/errors.js'
import {
  type CoarseWindow,
  type RollupSchedule,
  WINDOWS,
  type Window,
  windowEndMs,
  windowStart,
} from '../../core/window.js'
import type {ExpressionBuilder} from '../../dynamo/expression.js'
import {isoSeconds, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'

/** Which windows to read. */
export interface UsageSelection {
  /** @default all types */
  readonly window?: Window | undefined
  /** Epoch ms: windows that contain this instant or begin after it. */
  readonly sinceMs?: number | undefined
  /** Epoch ms: windows that begin before this instant. */
  readonly untilMs?: number | undefined
}

/** Sorts after every character of a window key or name. */
export const AFTER_ALL = '~'

export const endOf = (window: Window, atMs: number): string =>
  `${isoSeconds(windowEndMs(window, windowStart(window, atMs)) - 1)}${AFTER_ALL}`

function filterTypes(e: ExpressionBuilder, types: ReadonlyMap<Window, string>): void {
  const {window, start} = attributes.usage
  const terms = [...types].map(([type, first]) => {
    const isType = `${e.name(window)} = ${e.value(s(type))}`
    return first === '' ? `(${isType})` : `(${isType} AND ${e.name(start)} >= ${e.value(s(first))})`
  })
  e.filter(terms.join(' OR '))
}

export class UsageRange {
  readonly #firstStarts: ReadonlyMap<Window, string>
  /** Start of the last window; `undefined` without an end. */
  readonly #lastStart: string | undefined
  readonly #lastMs: number | undefined

  constructor({window, sinceMs, untilMs}: UsageSelection) {
    if (sinceMs !== undefined && untilMs !== undefined && sinceMs >= untilMs)
      throw new InvalidInput('usage.range', 'The time range is empty: it ends before it starts.')
    const wanted = WINDOWS.filter(each => window === undefined || each === window)
    this.#firstStarts = new Map(wanted.map(each => [each, sinceMs === undefined ? '' : windowStart(each, sinceMs)]))
    this.#lastMs = untilMs === undefined ? undefined : untilMs - 1
    this.#lastStart = this.#lastMs === undefined ? undefined : isoSeconds(this.#lastMs)
  }

  /** Window starts that contain the selection; a key's suffix after a start sorts within them. */
  get bounds(): [first: string, last: string] {
    const first = [...this.#firstStarts.values()].reduce((a, b) => (a < b ? a : b))
    return [first, `${this.#lastStart ?? ''}${AFTER_ALL}`]
  }

  coarsestRolled(schedule: RollupSchedule): CoarseWindow | undefined {
    return (['monthly', 'daily'] as const).find(each => this.#firstStarts.has(each) && schedule.has(each))
  }

  /** Extended to the end of a window of this type, because all parts of the last window are needed. */
  boundsWith(whole: CoarseWindow): [first: string, last: string] {
    const [first, last] = this.bounds
    return [first, this.#lastMs === undefined ? last : endOf(whole, this.#lastMs)]
  }

  /** Conditions that bounds cannot express, on attributes that all clients store. */
  filter(e: ExpressionBuilder): void {
    const isEverything = this.#firstStarts.size === WINDOWS.length && this.bounds[0] === ''
    if (!isEverything) filterTypes(e, this.#firstStarts)
  }

  /** Also matches all parts of rolled-up windows of this type. */
  filterWith(e: ExpressionBuilder, whole: CoarseWindow, {switches}: RollupSchedule): void {
    const since = switches[whole][0] ?? ''
    const [first] = this.bounds
    const from = first > since ? first : since
    const types = new Map(this.#firstStarts)
    for (const finer of WINDOWS.slice(0, WINDOWS.indexOf(whole))) {
      const wanted = types.get(finer)
      types.set(finer, wanted !== undefined && wanted < from ? wanted : from)
    }
    filterTypes(e, types)
  }

  has({window, start}: {readonly window: Window; readonly start: string}): boolean {
    const first = this.#firstStarts.get(window)
    return first !== undefined && start >= first && (this.#lastStart === undefined || start <= this.#lastStart)
  }

  /** Decides by the key. A key without a type can be of any type that starts then. */
  mayHave({window, start}: {readonly window: Window; readonly start: string}): boolean {
    if (window !== 'hourly') return this.has({window, start})
    const atMs = Date.parse(start)
    if (Number.isNaN(atMs)) return false
    return WINDOWS.some(type => windowStart(type, atMs) === start && this.has({window: type, start}))
  }
}
