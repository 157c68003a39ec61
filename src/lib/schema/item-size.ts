import type {AttributeValue, Item} from './attribute-value.js'
import {type BucketRecord, encodeBucket} from './bucket-record.js'

/** DynamoDB's limit per item. */
export const MAX_ITEM_BYTES = 400 * 1024

const BYTES_PER_WRITE_UNIT = 1024

/** What a bucket item has besides its record: marks of the last writes, fractions, the number of requests. */
const EXTRA_BUCKET_BYTES = 150

/** Write units of one write of this bucket on its own partition, without indexes. */
export function writeUnitsOf(record: BucketRecord): number {
  return Math.ceil((itemBytes(encodeBucket(record)) + EXTRA_BUCKET_BYTES) / BYTES_PER_WRITE_UNIT)
}

/** The size of an item by DynamoDB's published rules. */
export function itemBytes(item: Item): number {
  return Object.entries(item).reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + valueBytes(value), 0)
}

function valueBytes(value: AttributeValue): number {
  if ('S' in value) return Buffer.byteLength(value.S)
  // Two digits to a byte, without zeros at either end, and one for sign and exponent.
  if ('N' in value) return Math.ceil(value.N.replace(/\D/g, '').replace(/^0+|0+$/g, '').length / 2) + 1
  if ('M' in value)
    return (
      3 +
      Object.entries(value.M).reduce((sum, [name, inner]) => sum + Buffer.byteLength(name) + 1 + valueBytes(inner), 0)
    )
  if ('L' in value) return 3 + value.L.reduce((sum, inner) => sum + 1 + valueBytes(inner), 0)
  return 1
}
