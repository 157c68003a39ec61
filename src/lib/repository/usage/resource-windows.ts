import {type CoarseWindow, type RollupSchedule, WINDOWS, windowStart} from '../../core/window.js'
import type {Key} from '../../schema/attribute-value.js'
import {keys, type ParsedKey} from '../../schema/keys.js'
import {usagePlace, usageSortKey} from '../../schema/ranges.js'
import type {Place} from './one-window.js'
import {AFTER_ALL} from './range.js'
import type {CoarseUsage} from './sum.js'

/** A row of the resource index, or a rolled-up window that one of its parts shows. */
export interface IndexedWindow {
  readonly key: Extract<ParsedKey, {record: 'usage'}>
  readonly primary: Key
  readonly place: Place
  readonly whole?: CoarseUsage
}

/** Adds each rolled-up window once, where its own row is or will be. Holds the entities of one day and one month. */
export async function* withRolledWindows(
  rows: AsyncIterable<IndexedWindow>,
  schedule: RollupSchedule,
): AsyncGenerator<IndexedWindow, void> {
  let waiting: WaitingWindows[] = []
  for await (const row of rows) {
    const {key} = row
    const due = waiting.filter(each => each.mayComeBefore(row.place[0] ?? ''))
    if (due.length > 0) {
      yield* upTo(due, row.place[0] ?? '')
      waiting = waiting.filter(each => !due.includes(each) || each.newest !== undefined)
    }
    for (const window of ['daily', 'monthly'] as const) {
      const start = startOf(window, key.start)
      const isPart = WINDOWS.indexOf(key.window) <= WINDOWS.indexOf(window)
      if (start === undefined || !isPart || !schedule.isRolled(window, start)) continue
      const known = waiting.find(each => each.window === window && each.start === start)
      const group = known ?? new WaitingWindows(window, start, key)
      group.add(key.entity)
      if (!known) waiting.push(group)
    }
    yield row
  }
  yield* upTo(waiting, '')
}

function* upTo(waiting: readonly WaitingWindows[], indexSort: string): Generator<IndexedWindow, void> {
  for (;;) {
    const next = waiting.reduce<WaitingWindows | undefined>(
      (best, each) => ((each.newest ?? '') > (best?.newest ?? '') ? each : best),
      undefined,
    )
    if (next?.newest === undefined || next.newest <= indexSort) return
    yield next.take()
  }
}

function startOf(window: CoarseWindow, start: string): string | undefined {
  const atMs = Date.parse(start)
  // Any client may have written the key.
  return Number.isNaN(atMs) ? undefined : windowStart(window, atMs)
}

class WaitingWindows {
  readonly #seen = new Set<string>()
  /** Ascending once `newest` was read. */
  readonly #entities: string[] = []
  #isSorted = true

  constructor(
    readonly window: CoarseWindow,
    readonly start: string,
    readonly of: Pick<IndexedWindow['key'], 'record' | 'namespace' | 'resource'>,
  ) {}

  add(entity: string): void {
    if (this.#seen.has(entity)) return
    this.#seen.add(entity)
    this.#entities.push(entity)
    this.#isSorted = false
  }

  /** Until one may come before the row, there is no need to sort. */
  mayComeBefore(indexSort: string): boolean {
    return indexSort < `${usageSortKey(this.start, '')}${AFTER_ALL}`
  }

  get newest(): string | undefined {
    // With the same start, keys are ordered by entity.
    if (!this.#isSorted) this.#entities.sort()
    this.#isSorted = true
    const entity = this.#entities.at(-1)
    return entity === undefined ? undefined : usageSortKey(this.start, entity)
  }

  take(): IndexedWindow {
    const {window, start, of} = this
    const entity = this.#entities.pop() as string
    const whole = {namespace: of.namespace, entity, resource: of.resource, window, start}
    const primary = keys.usage(of.namespace, entity, of.resource, window, start)
    return {key: {record: of.record, ...whole}, primary, place: usagePlace(whole), whole}
  }
}
