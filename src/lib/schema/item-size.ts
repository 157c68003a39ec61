import type {AttributeValue, Item} from './attribute-value.js'

/** What one item may take at most, in bytes. */
export const MAX_ITEM_BYTES = 400 * 1024

// A list or a map costs this much by itself, and one byte more for each element.
const COLLECTION_BYTES = 3

/** Bytes of an item by DynamoDB's rules: names and values. Numbers are counted as if every digit took a byte, a little high. */
export function itemBytes(item: Item): number {
  return Object.entries(item).reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + valueBytes(value), 0)
}

function valueBytes(value: AttributeValue): number {
  if ('S' in value) return Buffer.byteLength(value.S)
  if ('N' in value) return value.N.length
  if ('M' in value) return COLLECTION_BYTES + Object.keys(value.M).length + itemBytes(value.M)
  if ('L' in value) return value.L.reduce((sum, each) => sum + 1 + valueBytes(each), COLLECTION_BYTES)
  if ('SS' in value) return value.SS.reduce((sum, each) => sum + Buffer.byteLength(each), 0)
  if ('NS' in value) return value.NS.reduce((sum, each) => sum + each.length, 0)
  if ('B' in value) return value.B.length
  if ('BS' in value) return value.BS.reduce((sum, each) => sum + each.length, 0)
  return 1
}
