import type {OperationInput} from '../../../src/lib/dynamo/transport.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import type {Units} from './capacity.js'
import {OrderedItems} from './ordered-items.js'
import {attributesOf, copyFor, type IndexSchema, keyOf, schemaOf, type TableSchema} from './schema.js'
import {invalid} from './service-error.js'
import {isEqual, isEqualItem, itemSize} from './values.js'

type CreateTable = OperationInput<'CreateTable'>

/** An effective write. */
export interface Change {
  readonly table: string
  /** Counts the changes of a table, from 1. */
  readonly sequence: number
  readonly atMs: number
  readonly before: Item | undefined
  readonly after: Item | undefined
}

/** One table with its indexes. Stored items are never mutated: every write replaces the item. */
export class MemoryTable {
  readonly name: string
  readonly schema: TableSchema
  readonly items: OrderedItems
  timeToLive: {AttributeName: string; Enabled: boolean} | undefined
  /** When an index follows the table. Default: at once. Must keep the order. */
  deferIndexes: ((follow: () => void) => void) | undefined
  readonly #indexes: ReadonlyMap<string, {readonly schema: IndexSchema; readonly items: OrderedItems}>
  #changes = 0

  constructor(readonly definition: CreateTable) {
    this.name = definition.TableName ?? ''
    this.schema = schemaOf(definition)
    this.items = new OrderedItems(this.schema.hash, attributesOf(this.schema).slice(1))
    this.#indexes = new Map(
      this.schema.indexes.map(schema => {
        const order = [...attributesOf(schema).slice(1), ...attributesOf(this.schema)]
        return [schema.name, {schema, items: new OrderedItems(schema.hash, order)}]
      }),
    )
  }

  /** The same items, with more indexes. */
  withIndexes(
    attributes: NonNullable<CreateTable['AttributeDefinitions']>,
    indexes: NonNullable<CreateTable['GlobalSecondaryIndexes']>,
  ): MemoryTable {
    const {AttributeDefinitions = [], GlobalSecondaryIndexes = []} = this.definition
    const known = new Set(GlobalSecondaryIndexes.map(({IndexName}) => IndexName))
    if (indexes.some(({IndexName}) => known.has(IndexName)))
      throw invalid('Attempting to create an index which already exists')
    const defined = new Set(AttributeDefinitions.map(({AttributeName}) => AttributeName))
    const table = new MemoryTable({
      ...this.definition,
      AttributeDefinitions: [
        ...AttributeDefinitions,
        ...attributes.filter(({AttributeName}) => !defined.has(AttributeName)),
      ],
      GlobalSecondaryIndexes: [...GlobalSecondaryIndexes, ...indexes],
    })
    table.timeToLive = this.timeToLive
    table.#changes = this.#changes
    for (const item of this.items.all()) table.write(undefined, item)
    return table
  }

  index(name: string): {readonly schema: IndexSchema; readonly items: OrderedItems} | undefined {
    return this.#indexes.get(name)
  }

  /** Replaces or removes one item; returns the cost in the table and in each index. */
  write(before: Item | undefined, after: Item | undefined): Units {
    if (after) this.items.put(after)
    else if (before) this.items.delete(before)
    const indexes: Record<string, number> = {}
    for (const [name, index] of this.#indexes) {
      const {units, follow} = planIndex(index, before, after)
      if (units === 0) continue
      indexes[name] = units
      if (this.deferIndexes) this.deferIndexes(follow)
      else follow()
    }
    return {table: Math.max(unitsOf(before), unitsOf(after), 1), indexes}
  }

  /** Numbers a write; `undefined` when it changed nothing. */
  change(before: Item | undefined, after: Item | undefined, atMs: number): Change | undefined {
    if (before && after ? isEqualItem(before, after) : before === after) return undefined
    return {table: this.name, sequence: ++this.#changes, atMs, before, after}
  }
}

/** The cost of a write in an index, and the update of the index. */
function planIndex(
  {schema, items}: {schema: IndexSchema; items: OrderedItems},
  before: Item | undefined,
  after: Item | undefined,
): {units: number; follow: () => void} {
  if (before && after && isSameFor(schema, before, after)) return {units: 0, follow: () => {}}
  const old = before && keyOf(before, schema) ? copyFor(schema, before) : undefined
  const now = after && keyOf(after, schema) ? copyFor(schema, after) : undefined
  const isInPlace = old && now && items.compareAll(old, now) === 0
  return {
    units: isInPlace ? Math.max(unitsOf(old), unitsOf(now)) : unitsOf(old) + unitsOf(now),
    follow: () => {
      if (old && !isInPlace) items.delete(old)
      if (now) items.put(now)
    },
  }
}

/** Whether an index stores the same for both. */
function isSameFor({copied}: IndexSchema, before: Item, after: Item): boolean {
  if (!copied) return isEqualItem(before, after)
  for (const name of copied) if (!isEqual(before[name], after[name])) return false
  return true
}

/** A write unit pays for one kilobyte. */
function unitsOf(item: Item | undefined): number {
  return item ? Math.ceil(itemSize(item) / 1024) : 0
}
