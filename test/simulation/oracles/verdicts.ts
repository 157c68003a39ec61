export interface Violation {
  /** The broken invariant and how, such as `S1-rate`. */
  readonly oracle: string
  readonly message: string
  /** Since the start, in ms. */
  readonly atMs: number
}

/** Collects violations: each oracle reports a subject once. */
export class Verdicts {
  readonly violations: Violation[] = []
  readonly #seen = new Set<string>()
  readonly #elapsedMs: () => number

  constructor(elapsedMs: () => number) {
    this.#elapsedMs = elapsedMs
  }

  has(oracle: string, subject: string): boolean {
    return this.#seen.has(`${oracle} ${subject}`)
  }

  report(oracle: string, subject: string, message: string): void {
    const key = `${oracle} ${subject}`
    if (this.#seen.has(key)) return
    this.#seen.add(key)
    this.violations.push({oracle, message: `${subject}: ${message}`, atMs: this.#elapsedMs()})
  }
}
