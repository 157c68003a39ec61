import type {OperationInput} from '../../../src/lib/dynamo/transport.js'
import type {AttributeValue, Item} from '../../../src/lib/schema/attribute-value.js'
import {invalid} from './service-error.js'
import {compareValues, typeOf} from './values.js'

/** The attributes that a table or an index is ordered by. */
export interface KeySchema {
  readonly hash: string
  readonly range: string | undefined
}

export interface IndexSchema extends KeySchema {
  readonly name: string
  /** The projected attributes; `undefined` for all. */
  readonly copied: ReadonlySet<string> | undefined
}

/** The parts of CreateTable that matter for items. */
export interface TableSchema extends KeySchema {
  readonly types: ReadonlyMap<string, string>
  readonly indexes: readonly IndexSchema[]
}

type CreateTable = OperationInput<'CreateTable'>

export function schemaOf({
  KeySchema,
  AttributeDefinitions = [],
  GlobalSecondaryIndexes = [],
}: CreateTable): TableSchema {
  const key = keySchemaOf(KeySchema)
  return {
    ...key,
    types: new Map(
      AttributeDefinitions.map(({AttributeName, AttributeType}) => [`${AttributeName}`, `${AttributeType}`]),
    ),
    indexes: GlobalSecondaryIndexes.map(({IndexName = '', KeySchema: indexKey, Projection}) => {
      const own = keySchemaOf(indexKey)
      const keys = [key, own].flatMap(attributesOf)
      const isWhole = Projection?.ProjectionType === 'ALL'
      const copied = isWhole ? undefined : new Set([...keys, ...(Projection?.NonKeyAttributes ?? [])])
      return {...own, name: IndexName, copied}
    }),
  }
}

function keySchemaOf(elements: CreateTable['KeySchema'] = []): KeySchema {
  const named = (type: string) => elements.find(({KeyType}) => KeyType === type)?.AttributeName
  return {hash: named('HASH') ?? '', range: named('RANGE')}
}

export function attributesOf({hash, range}: KeySchema): string[] {
  return range === undefined ? [hash] : [hash, range]
}

/** The key of an item in a table or an index; `undefined` if it has none there. */
export function keyOf(item: Item, schema: KeySchema): Item | undefined {
  const key: Item = {}
  for (const name of attributesOf(schema)) {
    const value = item[name]
    if (value === undefined) return undefined
    key[name] = value
  }
  return key
}

/** The projection of an item in an index. */
export function copyFor({copied}: IndexSchema, item: Item): Item {
  if (!copied) return item
  return Object.fromEntries(Object.entries(item).filter(([name]) => copied.has(name)))
}

/** Rejects a key that is not exactly the table's. */
export function checkKey(key: Item | undefined, schema: TableSchema): Item {
  const names = attributesOf(schema)
  const isOne = key && Object.keys(key).length === names.length && names.every(name => isOfType(key, name, schema))
  if (!isOne) throw invalid('The provided key element does not match the schema')
  for (const name of names) refuseEmpty(name, key[name] as AttributeValue)
  refuseLong(key, schema)
  return key
}

/** Rejects an item without a key, or with index keys of another type. */
export function checkItem(item: Item, schema: TableSchema): void {
  for (const name of attributesOf(schema)) {
    const value = item[name]
    if (value === undefined) {
      throw invalid(`One or more parameter values were invalid: Missing the key ${name} in the item`)
    }
    if (!isOfType(item, name, schema)) throw typeMismatch(`Type mismatch for key ${name}`, name, value, schema)
    refuseEmpty(name, value)
  }
  refuseLong(item, schema)
  for (const index of schema.indexes) {
    for (const name of attributesOf(index)) {
      const value = item[name]
      if (value === undefined) continue
      if (!isOfType(item, name, schema)) throw typeMismatch(`Type mismatch for Index Key ${name}`, name, value, schema)
      refuseEmpty(name, value)
    }
  }
}

function isOfType(item: Item, name: string, {types}: TableSchema): boolean {
  const value = item[name]
  return value !== undefined && typeOf(value) === types.get(name)
}

function typeMismatch(what: string, name: string, value: AttributeValue, {types}: TableSchema) {
  const found = `Expected: ${types.get(name)} Actual: ${typeOf(value)}`
  return invalid(`One or more parameter values were invalid: ${what} ${found}`)
}

function refuseEmpty(name: string, value: AttributeValue): void {
  if (!('S' in value) || value.S !== '') return
  const what = 'The AttributeValue for a key attribute cannot contain an empty string value.'
  throw invalid(`One or more parameter values are not valid. ${what} Key: ${name}`)
}

/** DynamoDB's bounds of the key of a table, in bytes. */
function refuseLong(item: Item, {hash, range}: KeySchema): void {
  const isLonger = (name: string, most: number) => {
    const value = item[name]
    return value !== undefined && 'S' in value && Buffer.byteLength(value.S) > most
  }
  const what = 'One or more parameter values were invalid:'
  if (isLonger(hash, 2048)) throw invalid(`${what} Size of hashkey has exceeded the maximum size limit of2048 bytes`)
  if (range !== undefined && isLonger(range, 1024)) {
    throw invalid(`${what} Aggregated size of all range keys has exceeded the size limit of 1024 bytes`)
  }
}

/** Order of two keys, attribute by attribute. */
export function compareKeys(a: Item, b: Item, names: readonly string[]): number {
  for (const name of names) {
    const order = compareValues(a[name] as AttributeValue, b[name] as AttributeValue) ?? 0
    if (order !== 0) return order
  }
  return 0
}

/** A text that is equal for equal values of a key attribute. */
export function textOf(value: AttributeValue | undefined): string {
  if (value === undefined) return ''
  if ('S' in value) return `S${value.S}`
  return 'N' in value ? `N${value.N}` : JSON.stringify(value)
}
