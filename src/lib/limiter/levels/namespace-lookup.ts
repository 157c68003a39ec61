import {isOutage} from '../../dynamo/errors.js'
import {ConfigCache} from '../../repository/limits/cache.js'
import {namespaceMissing} from '../../repository/namespaces/errors.js'
import {
  activeNamespace,
  openNamespace,
  readChargedLevels,
  readMigrationStage,
} from '../../repository/namespaces/open-namespace.js'
import type {TableSeams} from '../../repository/table/open-table.js'
import {type Table, untilAborted} from '../../repository/table/table.js'
import type {Key} from '../../schema/attribute-value.js'
import {keys} from '../../schema/keys.js'
import type {ChargedLevels} from '../../schema/namespace-record.js'
import {LevelsSetting} from '../request/levels-setting.js'
import type {LimiterSettings, RateLimiterOptions} from '../request/options.js'
import {NamespaceLimiter} from './namespace-limiter.js'

export class NamespaceLookup {
  readonly #table: Table
  readonly #settings: LimiterSettings
  readonly #options: RateLimiterOptions & TableSeams
  readonly #cache: ConfigCache
  readonly #reads: AbortSignal
  #namespace: Promise<NamespaceLimiter> | undefined
  #found: NamespaceLimiter | undefined
  #lookedUpAtMs = 0
  #isLookingUp = false
  #isMigrating = false

  constructor(
    table: Table,
    settings: LimiterSettings,
    options: RateLimiterOptions & TableSeams,
    /** Aborts lookups and reads of limits. */
    reads: AbortSignal,
  ) {
    this.#table = table
    this.#reads = reads
    this.#settings = settings
    this.#options = options
    // During a migration, records not yet copied look absent: don't cache absence.
    const keepsAbsent = () => !this.#isMigrating
    const {configCheckMs: ttlMs, cacheSize: maxEntries} = settings
    this.#cache = new ConfigCache({clock: table.clock, ttlMs, maxEntries, keepsAbsent})
  }

  get found(): NamespaceLimiter | undefined {
    return this.#found
  }

  /** If the lookup fails, the last limiter found: its work may be under way. */
  get current(): Promise<NamespaceLimiter | undefined> {
    return this.#namespace?.catch(() => this.#found) ?? Promise.resolve(this.#found)
  }

  get atHand(): NamespaceLimiter | undefined {
    return this.#isLookingUp || this.#isDue(this.#table.clock()) ? undefined : this.#found
  }

  /** A record that every limiter may read. */
  get pingKey(): Key {
    const {namespaceId, namespace = 'default'} = this.#options
    return namespaceId === undefined ? keys.namespaceByName(namespace) : keys.systemConfig(namespaceId)
  }

  /** The next request looks the namespace up again. */
  invalidate(): void {
    this.#lookedUpAtMs = Number.NEGATIVE_INFINITY
    this.#cache.invalidate()
    this.#found?.invalidate()
  }

  /** Repeats the lookup every `configCheckMs`: a deleted namespace must not be written to. */
  open(): Promise<NamespaceLimiter> {
    const nowMs = this.#table.clock()
    if (!this.#namespace || this.#isDue(nowMs)) {
      const before = this.#namespace
      this.#lookedUpAtMs = nowMs
      this.#isLookingUp = true
      const lookup = this.#lookUp(before)
      this.#namespace = lookup
      lookup.then(
        limiter => {
          this.#found = limiter
          if (this.#namespace === lookup) this.#isLookingUp = false
        },
        () => {
          this.#namespace = undefined
        },
      )
    }
    return this.#namespace
  }

  #isDue(nowMs: number): boolean {
    if (this.#options.namespaceId !== undefined) return false
    // A clock set back must not delay the next lookup.
    return nowMs < this.#lookedUpAtMs || nowMs - this.#lookedUpAtMs >= this.#settings.configCheckMs
  }

  async #lookUp(before: Promise<NamespaceLimiter> | undefined): Promise<NamespaceLimiter> {
    const known = await before
    const {id: namespace, levels} = await this.#resolve(known !== undefined).catch(error => {
      if (known && isOutage(error)) return {id: known.table.namespace, levels: undefined}
      throw error
    })
    // After a failed lookup too: the previous limiter still holds unwritten refusals.
    if (this.#found?.table.namespace === namespace) {
      if (levels) this.#found.levels.note(levels)
      return this.#found
    }
    const {random = Math.random} = this.#options
    const table = {...this.#table, namespace}
    const [settings, reading] = [this.#settings, untilAborted(table, this.#reads)]
    const read = this.#options.namespaceId === undefined ? undefined : () => readChargedLevels(reading)
    const setting = new LevelsSetting({clock: table.clock, ttlMs: settings.configCheckMs, read})
    if (levels) setting.note(levels)
    return new NamespaceLimiter({table, reading, cache: this.#cache, settings, levels: setting, random})
  }

  /** Checks the table layout once: a migration never reverts it. Whether a migration is running may change. */
  async #resolve(isAgain: boolean): Promise<{readonly id: string; readonly levels: ChargedLevels | undefined}> {
    const {namespaceId, namespace = 'default'} = this.#options
    if (namespaceId !== undefined) return {id: namespaceId, levels: undefined}
    const table = untilAborted(this.#table, this.#reads)
    if (!isAgain) {
      const opened = await openNamespace(table, namespace)
      this.#isMigrating = opened.isMigrating
      return opened
    }
    const found = await activeNamespace(table, namespace)
    if (!found) throw namespaceMissing(namespace)
    if (this.#isMigrating) this.#isMigrating = (await readMigrationStage(table)) === 'open'
    return {id: found.id, levels: found.levels ?? 'parent'}
  }
}
