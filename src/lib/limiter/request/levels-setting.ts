import {type ChargedLevels, MOST_LEVELS} from '../../schema/namespace-record.js'

interface LevelsSettingOptions {
  /** Epoch ms. */
  readonly clock: () => number
  readonly ttlMs: number
  /** Absent if the owner reads the namespace's record anyway and notes its setting. */
  readonly read: (() => Promise<ChargedLevels>) | undefined
}

/** How many levels requests of the namespace charge. */
export class LevelsSetting {
  readonly #options: LevelsSettingOptions
  #levels: ChargedLevels | undefined
  #readAtMs = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(options: LevelsSettingOptions) {
    this.#options = options
  }

  get most(): number {
    return MOST_LEVELS[this.#levels ?? 'parent']
  }

  /** Whether the setting must be read before a third level is charged or left out. */
  get isDue(): boolean {
    const {clock, ttlMs, read} = this.#options
    const ageMs = clock() - this.#readAtMs
    return read !== undefined && !(ageMs >= 0 && ageMs < ttlMs)
  }

  note(levels: ChargedLevels): void {
    this.#levels = levels
    this.#readAtMs = this.#options.clock()
  }

  expire(): void {
    this.#readAtMs = Number.NEGATIVE_INFINITY
  }

  /** If reading fails, the last known setting stays. Throws if none is known. */
  async refresh(): Promise<void> {
    if (!this.isDue) return
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    await this.#reading
  }

  async #read(): Promise<void> {
    try {
      const levels = await this.#options.read?.()
      if (levels) this.note(levels)
    } catch (error) {
      if (this.#levels === undefined) throw error
    }
  }
}
