import type {ResponseInfo} from './transport.js'

/** Bounds of server time minus local time, in ms, from one or more responses. */
interface Evidence {
  lowMs: number
  highMs: number
}

// Clocks drift apart by tens of ms in this time, so older evidence would be wrong.
const GENERATION_MS = 300_000

// A server date outside these bounds is wrong.
const EARLIEST_MS = Date.UTC(2020, 0)
const LATEST_MS = Date.UTC(2100, 0)

// AWS refuses requests whose time is further off: if it answers one, its clock is no further away. A date that is, such as
// one set by a proxy, is ignored, unless the request was refused because of its time.
const PLAUSIBLE_MS = 300_000

const ANYTHING: Evidence = {lowMs: -Infinity, highMs: Infinity}
const NOTHING: Evidence = {lowMs: Infinity, highMs: -Infinity}

/**
 * Local time, corrected only as far as the `Date` headers prove it wrong. The header is cut to whole seconds: at some
 * moment between sending and receiving, the server's clock was in [date, date + 1000 ms). Many such intervals intersect
 * in a narrow one. Evidence is kept for one to two generations.
 */
export class ServerClock {
  readonly #localNow: () => number
  #previous: Evidence = ANYTHING
  #current: Evidence = ANYTHING
  /** The last response, if it contradicts those before. */
  #contrary: Evidence | undefined
  #generationStartMs = 0
  #offsetMs = 0

  constructor(localNow: () => number) {
    this.#localNow = localNow
  }

  /** Evaluates one response; pass it to a transport as `onResponse`. */
  readonly observe = ({serverDateMs, sentAtMs, receivedAtMs, isTimeRefused = false}: ResponseInfo): void => {
    if (serverDateMs === undefined || !(serverDateMs >= EARLIEST_MS && serverDateMs <= LATEST_MS)) return
    if (!(receivedAtMs >= sentAtMs)) return
    const sample = {lowMs: serverDateMs - receivedAtMs, highMs: serverDateMs + 1_000 - sentAtMs}
    if (!isTimeRefused && !this.#isPlausible(sample)) return

    if (receivedAtMs - this.#generationStartMs > GENERATION_MS) {
      this.#previous = this.#current
      this.#current = ANYTHING
      this.#generationStartMs = receivedAtMs
    }
    if (!isEmpty(intersect(this.intervalMs, sample))) this.#current = intersect(this.#current, sample)
    else {
      const both = isTimeRefused ? sample : intersect(this.#contrary ?? NOTHING, sample)
      this.#contrary = sample
      // A single answer, perhaps from another server, proves nothing; the next one must agree with it.
      if (isEmpty(both)) return
      // One of the clocks has jumped, so earlier evidence no longer holds.
      this.#previous = ANYTHING
      this.#current = both
      this.#generationStartMs = receivedAtMs
    }
    this.#contrary = undefined
    const {lowMs, highMs} = this.intervalMs
    this.#offsetMs = Math.min(Math.max(0, lowMs), highMs)
  }

  #isPlausible({lowMs, highMs}: Evidence): boolean {
    return lowMs - this.#offsetMs <= PLAUSIBLE_MS && highMs - this.#offsetMs >= -PLAUSIBLE_MS
  }

  get intervalMs(): Evidence {
    return intersect(this.#previous, this.#current)
  }

  /** The smallest correction that fits: 0 unless the local clock is provably off. */
  get offsetMs(): number {
    return this.#offsetMs
  }

  /** Server time as far as known, in ms since 1970. */
  now(): number {
    return this.#localNow() + this.#offsetMs
  }
}

function intersect(a: Evidence, b: Evidence): Evidence {
  return {lowMs: Math.max(a.lowMs, b.lowMs), highMs: Math.min(a.highMs, b.highMs)}
}

function isEmpty({lowMs, highMs}: Evidence): boolean {
  return lowMs > highMs
}
