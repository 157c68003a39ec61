/** A promise that was broken. */
export interface Violation {
  /** What was broken: the number of an invariant, and how. */
  readonly oracle: string
  readonly message: string
  /** Since the start, in ms. */
  readonly atMs: number
}

/** Collects violations; the same one of the same subject only once. */
export class Verdicts {
  readonly violations: Violation[] = []
  readonly #seen = new Set<string>()
  readonly #elapsedMs: () => number

  constructor(elapsedMs: () => number) {
    this.#elapsedMs = elapsedMs
  }

  /** Whether this was reported of this subject. */
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
