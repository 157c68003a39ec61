import type {BucketAddress} from '../repository/buckets/writes.js'
import type {BucketRecord} from '../schema/bucket-record.js'

/** What a lease holds of one bucket item; returned tokens go back exactly there. */
export interface Holding {
  readonly address: BucketAddress
  /** Written and not returned, in millitokens. */
  readonly heldMilli: Map<string, bigint>
  /** Requests that the item has counted for this; 1 or 0. */
  requests: number
}

/** An admitted request at one level: the entity's own or its parent's. */
export interface Grant {
  readonly entries: Holding[]
  /** The bucket after the charge. */
  readonly record: BucketRecord
}
