import {batchGet} from '../../dynamo/batch.js'
import {EndedCopies} from '../../repository/limits/ended-copies.js'
import {readLimitUnits, type UnitsByLimit} from '../../repository/limits/units.js'
import {type NamespaceTable, untilAborted} from '../../repository/table/table.js'
import {attributes} from '../../schema/attributes.js'
import {keys} from '../../schema/keys.js'
import {readString} from '../../schema/read.js'

/** The facts rarely change, and cost two reads. */
const INTERVAL_MS = 30_000

export class NamespaceFacts {
  readonly #table: NamespaceTable
  #loadedAtMs = Number.NEGATIVE_INFINITY
  /** The same object until it changes. */
  units: UnitsByLimit = new Map()
  /** Shows buckets of ended boosts under the limits in force; `undefined` before the first load. */
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

const NAMES_PER_POLL = 20

export class EntityNames {
  readonly #table: NamespaceTable
  readonly #known = new Set<string>()
  #names: ReadonlyMap<string, string> = new Map()

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  /** Without names equal to the id. The same object until a name is added. */
  get names(): ReadonlyMap<string, string> {
    return this.#names
  }

  async load(entities: Iterable<string>, signal: AbortSignal): Promise<void> {
    const unknown = [...new Set(entities)].filter(entity => !this.#known.has(entity)).slice(0, NAMES_PER_POLL)
    if (unknown.length === 0) return
    const {transport, name, backoff, namespace} = this.#table
    const wanted = unknown.map(entity => keys.entity(namespace, entity))
    const projection = [attributes.entity.entity, attributes.entity.name]
    const items = await batchGet(transport, name, wanted, {backoff, signal, projection})
    for (const entity of unknown) this.#known.add(entity)
    const found = [...items.values()].flatMap((item): [string, string][] => {
      const [entity, text] = projection.map(attribute => readString(item, attribute))
      return entity !== undefined && text && text !== entity ? [[entity, text]] : []
    })
    if (found.length > 0) this.#names = new Map([...this.#names, ...found])
  }
}
