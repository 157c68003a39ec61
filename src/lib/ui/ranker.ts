import type {Knowledge, Selection} from '../watch/model.js'
import {rank} from '../watch/rank.js'
import {resourcesAt} from '../watch/resources.js'
import {totalsAt} from '../watch/totals.js'
import type {Ranking} from './scene.js'
import type {Tab} from './screen-state.js'

const SECOND_MS = 1000

/** Ranks all buckets, and remembers: with ten thousand of them that is too dear for every frame. */
export class Ranker {
  readonly #top: number | undefined
  readonly #ids = remembered<Ranking['ids']>()
  readonly #totals = remembered<Ranking['totals']>()
  readonly #resources = remembered<Ranking['resources']>()

  constructor(top: number | undefined) {
    this.#top = top
  }

  /** The ranking of a second; computed anew with a poll, another second, and the order also with another selection. */
  rankingAt(readings: Knowledge['readings'], atMs: number, selection: Selection, tab: Tab): Ranking {
    const second = Math.floor(atMs / SECOND_MS)
    const all = () => readings.values()
    return {
      ids: this.#ids([readings, second, selection], () => rank(all(), atMs, selection).slice(0, this.#top)),
      totals: this.#totals([readings, second], () => totalsAt(all(), atMs)),
      resources: tab === 'resources' ? this.#resources([readings, second], () => resourcesAt(all(), atMs)) : [],
    }
  }
}

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
