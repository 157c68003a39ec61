import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {compareKeys, textOf} from './schema.js'
import {compareTexts} from './values.js'

/** Items by partition, ordered by sort key: a table, or one of its indexes. */
export class OrderedItems {
  readonly #partitions = new Map<string, Item[]>()
  readonly #hash: string
  /** The order of a partition; in an index, the table's key breaks ties. */
  readonly #order: readonly string[]

  constructor(hash: string, order: readonly string[]) {
    this.#hash = hash
    this.#order = order
  }

  /** The item with this key. */
  get(key: Item): Item | undefined {
    const items = this.#partitions.get(textOf(key[this.#hash]))
    if (!items) return undefined
    const found = items[this.#placeOf(items, key)]
    return found && this.compare(found, key) === 0 ? found : undefined
  }

  put(item: Item): void {
    const partition = textOf(item[this.#hash])
    let items = this.#partitions.get(partition)
    if (!items) {
      items = []
      this.#partitions.set(partition, items)
    }
    const at = this.#placeOf(items, item)
    const isThere = items[at] !== undefined && this.compare(items[at], item) === 0
    items.splice(at, isThere ? 1 : 0, item)
  }

  delete(item: Item): void {
    const partition = textOf(item[this.#hash])
    const items = this.#partitions.get(partition)
    if (!items) return
    const at = this.#placeOf(items, item)
    if (items[at] !== undefined && this.compare(items[at], item) === 0) items.splice(at, 1)
    if (items.length === 0) this.#partitions.delete(partition)
  }

  partition(value: Item[string]): readonly Item[] {
    return this.#partitions.get(textOf(value)) ?? []
  }

  /** All items, partition by partition, of all or of one segment. */
  all({segment, segments}: {segment: number; segments: number} = {segment: 0, segments: 1}): Item[] {
    const names = [...this.#partitions.keys()].filter(name => segments === 1 || hashOf(name) % segments === segment)
    return names.sort(compareTexts).flatMap(name => this.#partitions.get(name) ?? [])
  }

  get size(): number {
    let size = 0
    for (const items of this.#partitions.values()) size += items.length
    return size
  }

  /** Order of two items of one partition. */
  readonly compare = (a: Item, b: Item): number => compareKeys(a, b, this.#order)

  /** Order of two items anywhere. */
  readonly compareAll = (a: Item, b: Item): number =>
    compareTexts(textOf(a[this.#hash]), textOf(b[this.#hash])) || this.compare(a, b)

  #placeOf(items: readonly Item[], key: Item): number {
    let [low, high] = [0, items.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.compare(items[middle] as Item, key) < 0) low = middle + 1
      else high = middle
    }
    return low
  }
}

function hashOf(text: string): number {
  let hash = 0
  for (let at = 0; at < text.length; at++) hash = (hash * 31 + text.charCodeAt(at)) >>> 0
  return hash
}
