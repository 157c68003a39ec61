import type {Reading, Selection, WatchData} from '../model/model.js'
import {type Ranked, ranking} from '../model/rank.js'
import {liveCount, resourcesAt, totalsAt} from '../model/totals.js'
import type {Tab} from '../state/screen-state.js'
import type {Ranking} from './frame.js'

const SECOND_MS = 1000

type Order = Ranked & {readonly first: Pick<Ranking, 'ids' | 'shown'>}

/** Ranks all buckets, memoized: with ten thousand of them it is too expensive for every frame. */
export class Ranker {
  readonly #top: number | undefined
  readonly #order = memoized<Order>()
  readonly #totals = memoized<Pick<Ranking, 'totals' | 'all'>>()
  readonly #resources = memoized<Ranking['resources']>()

  constructor(top: number | undefined) {
    this.#top = top
  }

  /** Recomputed with a poll or a new second; the order also with another selection. */
  rankingAt(readings: WatchData['readings'], atMs: number, selection: Selection, tab: Tab): Ranking {
    const second = Math.floor(atMs / SECOND_MS)
    const find = (id: string) => readings.get(id)
    const order = this.#order([readings, second, selection], () => this.#orderOf(readings, atMs, selection))
    // Only the overview is filtered.
    const filtered = tab === 'overview' && selection.filter !== '' ? order : undefined
    const totals = this.#totals([readings, second, filtered], () => ({
      totals: totalsAt(filtered ? readingsOf(filtered.ids, readings) : readings.values(), atMs, find),
      all: liveCount(readings),
    }))
    const resources =
      tab === 'resources' ? this.#resources([readings, second], () => resourcesAt(readings.values(), atMs, find)) : []
    return {...order.first, rateLimit: order.rateLimit, ...totals, resources}
  }

  #orderOf(readings: WatchData['readings'], atMs: number, selection: Selection): Order {
    const ranked = ranking(readings.values(), atMs, selection, id => readings.get(id))
    const ids = ranked.ids.slice(0, this.#top)
    return {...ranked, first: {ids, shown: readingsOf(ids, readings).filter(({isGone}) => !isGone).length}}
  }
}

const readingsOf = (ids: readonly string[], readings: WatchData['readings']): Reading[] =>
  ids.flatMap(id => readings.get(id) ?? [])

function memoized<T>(): (dependencies: readonly unknown[], compute: () => T) => T {
  let last: {readonly dependencies: readonly unknown[]; readonly value: T} | undefined
  return (dependencies, compute) => {
    if (!last || dependencies.some((each, position) => each !== last?.dependencies[position])) {
      last = {dependencies, value: compute()}
    }
    return last.value
  }
}
