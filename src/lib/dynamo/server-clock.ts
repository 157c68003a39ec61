import type {ResponseInfo} from './transport.js'

/** Bounds of server time minus local time, in ms. */
interface Evidence {
  lowMs: number
  highMs: number
}

// In this time clocks drift apart by tens of ms, so older evidence would be wrong.
const GENERATION_MS = 300_000

const EARLIEST_MS = Date.UTC(2020, 0)
const LATEST_MS = Date.UTC(2100, 0)

// AWS refuses requests that are further off. Ignore such dates, for example a proxy's, unless AWS refused the time.
const PLAUSIBLE_MS = 300_000

const ANYTHING: Evidence = {lowMs: -Infinity, highMs: Infinity}
const NOTHING: Evidence = {lowMs: Infinity, highMs: -Infinity}

/**
 * Corrects local time only as far as `Date` headers prove it wrong: between sending and receiving, the server's clock
 * was in [date, date + 1000 ms). Intersects such intervals and keeps them for one to two generations.
 */
export class ServerClock {
  readonly #localNow: () => number
  #previous: Evidence = ANYTHING
  #current: Evidence = ANYTHING
  #contrary: Evidence | undefined
  #generationStartMs = 0
  #offsetMs = 0

  constructor(localNow: () => number) {
    this.#localNow = localNow
  }

  readonly observe = ({serverDateMs, sentAtMs, receivedAtMs, isTimeRefused = false}: ResponseInfo): void => {
    if (serverDateMs === undefined || !(serverDateMs >= EARLIEST_MS && serverDateMs <= LATEST_MS)) return
    if (!(receivedAtMs >= sentAtMs)) return
    const sample = {lowMs: serverDateMs - receivedAtMs, highMs: serverDateMs + 1_000 - sentAtMs}
    const isPlausible = sample.lowMs <= this.#offsetMs + PLAUSIBLE_MS && sample.highMs >= this.#offsetMs - PLAUSIBLE_MS
    if (!isTimeRefused && !isPlausible) return

    if (receivedAtMs - this.#generationStartMs > GENERATION_MS) {
      this.#previous = this.#current
      this.#current = ANYTHING
      this.#generationStartMs = receivedAtMs
    }
    let known = intersect(this.intervalMs, sample)
    if (known.lowMs <= known.highMs) this.#current = intersect(this.#current, sample)
    else {
      known = isTimeRefused ? sample : intersect(this.#contrary ?? NOTHING, sample)
      this.#contrary = sample
      // A single response, perhaps from another server, proves nothing: the next one must agree.
      if (known.lowMs > known.highMs) return
      // A clock has jumped, so earlier evidence no longer holds.
      this.#previous = ANYTHING
      this.#current = known
      this.#generationStartMs = receivedAtMs
    }
    this.#contrary = undefined
    this.#offsetMs = Math.min(Math.max(0, known.lowMs), known.highMs)
  }

  get intervalMs(): Evidence {
    return intersect(this.#previous, this.#current)
  }

  /** The smallest possible correction: 0 unless the local clock is provably off. */
  get offsetMs(): number {
    return this.#offsetMs
  }

  readonly now = (): number => this.#localNow() + this.#offsetMs
}

/** The `Date` header, in epoch ms; `undefined` if missing or malformed. */
export function dateOf(header: string | undefined): number | undefined {
  const date = Date.parse(header ?? '')
  return Number.isNaN(date) ? undefined : date
}

function intersect(a: Evidence, b: Evidence): Evidence {
  return {lowMs: Math.max(a.lowMs, b.lowMs), highMs: Math.min(a.highMs, b.highMs)}
}
