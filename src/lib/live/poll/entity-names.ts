import {batchGet} from '../../dynamo/batch.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {attributes} from '../../schema/attributes.js'
import {keys} from '../../schema/keys.js'
import {readString} from '../../schema/read.js'

/** Records read in one poll, at half a read unit each. */
const NAMES_PER_POLL = 20

/** The names of entities on the screen. Each is read once: names hardly ever change. */
export class EntityNames {
  readonly #table: NamespaceTable
  readonly #known = new Set<string>()
  #names: ReadonlyMap<string, string> = new Map()

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  /** By entity; without those whose name is their id. The same object until a name is added. */
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
