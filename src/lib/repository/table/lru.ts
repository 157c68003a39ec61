interface LruOptions {
  readonly maxEntries: number
  /** 0 keeps nothing; with `Infinity` nothing expires. */
  readonly ttlMs: number
  /** Epoch milliseconds. */
  readonly clock: () => number
}

interface Entry<V> {
  readonly value: V
  readonly storedAtMs: number
}

export class Lru<V extends {}> {
  // A Map keeps insertion order: the first entry is the least recently used.
  readonly #entries = new Map<string, Entry<V>>()
  readonly #options: LruOptions
  #evictions = 0

  constructor(options: LruOptions) {
    this.#options = options
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    const {clock, ttlMs, maxEntries} = this.#options
    const ageMs = ttlMs === Infinity ? 0 : clock() - entry.storedAtMs
    // After the clock was set back, a value must not outlive its time.
    if (ageMs < 0 || ageMs >= ttlMs) {
      this.#entries.delete(key)
      return undefined
    }
    // Up to half the capacity, the order of use does not matter.
    if (this.#entries.size > maxEntries / 2) {
      this.#entries.delete(key)
      this.#entries.set(key, entry)
    }
    return entry.value
  }

  set(key: string, value: V): void {
    const {maxEntries, ttlMs, clock} = this.#options
    if (ttlMs <= 0) return
    this.#entries.delete(key)
    this.#entries.set(key, {value, storedAtMs: clock()})
    while (this.#entries.size > maxEntries) {
      this.#entries.delete(this.#entries.keys().next().value as string)
      this.#evictions++
    }
  }

  delete(key: string): void {
    this.#entries.delete(key)
  }

  clear(): void {
    this.#entries.clear()
  }

  /** Includes expired entries. */
  get size(): number {
    return this.#entries.size
  }

  get evictions(): number {
    return this.#evictions
  }
}
