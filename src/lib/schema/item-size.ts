import type {AttributeValue, Item} from './attribute-value.js'
import {type BucketRecord, encodeBucket} from './bucket-record.js'

export const MAX_ITEM_BYTES = 400 * 1024

const BYTES_PER_WRITE_UNIT = 1024

/** Write marks, fractions and the request count, which are not in the record. */
const EXTRA_BUCKET_BYTES = 150

export function writeUnitsOf(record: BucketRecord): number {
  return Math.ceil((itemBytes(encodeBucket(record)) + EXTRA_BUCKET_BYTES) / BYTES_PER_WRITE_UNIT)
}

export function itemBytes(item: Item): number {
  return Object.entries(item).reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + valueBytes(value), 0)
}

function valueBytes(value: AttributeValue): number {
  if ('S' in value) return Buffer.byteLength(value.S)
  // Two digits per byte without zeros at either end, plus one byte for sign and exponent.
  if ('N' in value) return Math.ceil(value.N.replace(/\D/g, '').replace(/^0+|0+$/g, '').length / 2) + 1
  if ('M' in value)
    return (
      3 +
      Object.entries(value.M).reduce((sum, [name, inner]) => sum + Buffer.byteLength(name) + 1 + valueBytes(inner), 0)
    )
  if ('L' in value) return 3 + value.L.reduce((sum, inner) => sum + 1 + valueBytes(inner), 0)
  return 1
}
