import type {Knowledge, Reading, Selection} from '../../watch/model.js'
import {type Ranked, ranking} from '../../watch/rank.js'
import {resourcesAt} from '../../watch/resources.js'
import {liveCount, totalsAt} from '../../watch/totals.js'
import type {Ranking} from './scene.js'
import type {Tab} from './screen-state.js'

const SECOND_MS = 1000

/** What is chosen, and what of it is shown. */
type Order = Ranked & {readonly first: Pick<Ranking, 'ids' | 'shown'>}

/** Ranks all buckets, and remembers: with ten thousand of them that is too dear for every frame. */
export class Ranker {
  readonly #top: number | undefined
  readonly #order = remembered<Order>()
  readonly #totals = remembered<Pick<Ranking, 'totals' | 'all'>>()
  readonly #resources = remembered<Ranking['resources']>()

  constructor(top: number | undefined) {
    this.#top = top
  }

  /** The ranking of a second; computed anew with a poll, another second, and the order also with another selection. */
  rankingAt(readings: Knowledge['readings'], atMs: number, selection: Selection, tab: Tab): Ranking {
    const second = Math.floor(atMs / SECOND_MS)
    const order = this.#order([readings, second, selection], () => this.#orderOf(readings, atMs, selection))
    // The filter is that of the overview; other tabs show everything.
    const chosen = tab === 'overview' && selection.filter !== '' ? order : undefined
    const totals = this.#totals([readings, second, chosen], () => ({
      totals: totalsAt(chosen ? readingsOf(chosen.ids, readings) : readings.values(), atMs),
      all: liveCount(readings),
    }))
    const resources =
      tab === 'resources' ? this.#resources([readings, second], () => resourcesAt(readings.values(), atMs)) : []
    return {...order.first, rateLimit: order.rateLimit, ...totals, resources}
  }

  #orderOf(readings: Knowledge['readings'], atMs: number, selection: Selection): Order {
    const ranked = ranking(readings.values(), atMs, selection)
    const ids = ranked.ids.slice(0, this.#top)
    return {...ranked, first: {ids, shown: readingsOf(ids, readings).filter(({isGone}) => !isGone).length}}
  }
}

const readingsOf = (ids: readonly string[], readings: Knowledge['readings']): Reading[] =>
  ids.flatMap(id => readings.get(id) ?? [])

/** Keeps the last value as long as nothing of what it depends on is another object or number. */
function remembered<T>(): (dependencies: readonly unknown[], compute: () => T) => T {
  let last: {readonly dependencies: readonly unknown[]; readonly value: T} | undefined
  return (dependencies, compute) => {
    if (!last || dependencies.some((each, position) => each !== last?.dependencies[position])) {
      last = {dependencies, value: compute()}
    }
    return last.value
  }
}
