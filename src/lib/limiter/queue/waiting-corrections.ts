import type {Amounts} from '../../core/buckets/bucket.js'
import type {Correction, CorrectOptions} from './correction.js'

/** How long a correction that may be written soon waits for others of its bucket, in ms; what a crash loses is no older. */
const LONGEST_WAIT_MS = 50

export class WaitingCorrections {
  #due: Correction[] = []
  #soon: Correction[] = []
  #timer: NodeJS.Timeout | undefined
  readonly #onDue: () => void

  constructor(onDue: () => void) {
    this.#onDue = onDue
  }

  get isEmpty(): boolean {
    return this.#due.length === 0 && this.#soon.length === 0
  }

  get all(): readonly Correction[] {
    return [...this.#due, ...this.#soon]
  }

  get isDue(): boolean {
    return this.#due.length > 0
  }

  get hasSoon(): boolean {
    return this.#soon.length > 0
  }

  /** To be written now, together with all that waits for company; resolves when it is written. */
  add(amounts: Amounts, options: CorrectOptions): Promise<void> {
    const written = pushTo(this.#due, amounts, options)
    this.hurry()
    return written
  }

  /** To be written with the next correction that is, and within the longest wait; resolves when it is written. */
  addSoon(amounts: Amounts, options: CorrectOptions): Promise<void> {
    // Not unreferenced: a process that ends by itself writes what it has accepted.
    this.#timer ??= setTimeout(() => this.hurry(), LONGEST_WAIT_MS)
    return pushTo(this.#soon, amounts, options)
  }

  hurry(): void {
    this.#moveSoon()
    if (this.isDue) this.#onDue()
  }

  take({all}: {readonly all: boolean}): readonly Correction[] {
    if (all) this.#moveSoon()
    const due = this.#due
    this.#due = []
    return due
  }

  #moveSoon(): void {
    if (this.#soon.length === 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    // Planted fault: what is settled soon is forgotten when others are written
    this.#due.push(...this.#soon)
    // Planted fault: what is settled soon is written with every further write
    this.#soon = []
  }
}

function pushTo(
  corrections: Correction[],
  amounts: Amounts,
  {requests = 0, isBypassed = false, incarnation, periods = new Map()}: CorrectOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    corrections.push({amounts, requests, isBypassed, incarnation, periods, resolve, reject})
  })
}
