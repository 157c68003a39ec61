import {EndedCopies} from '../../repository/limits/ended-copies.js'
import {readLimitUnits, type UnitsByLimit} from '../../repository/limits/units.js'
import {type NamespaceTable, untilAborted} from '../../repository/table/table.js'

/** They hardly ever change, and cost two reads. */
const INTERVAL_MS = 30_000

export class NamespaceFacts {
  readonly #table: NamespaceTable
  #loadedAtMs = Number.NEGATIVE_INFINITY
  /** The currency of limits that are counted in money, by name; the same object until it changes. */
  units: UnitsByLimit = new Map()
  /** Buckets that are not as their next request finds them; `undefined` before the first load. */
  copies: EndedCopies | undefined

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  async load(signal: AbortSignal): Promise<void> {
    const nowMs = this.#table.clock()
    if (nowMs - this.#loadedAtMs < INTERVAL_MS) return
    const table = untilAborted(this.#table, signal)
    const units = await readLimitUnits(table)
    const isSame = units.size === this.units.size && [...units].every(([name, unit]) => this.units.get(name) === unit)
    if (!isSame) this.units = units
    this.copies = await EndedCopies.read(table)
    this.#loadedAtMs = nowMs
  }
}
