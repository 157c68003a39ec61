import type {Item} from './attribute-value.js'
import {attributes} from './attributes.js'
import {readRequestCount} from './bucket-record.js'
import {readNumber} from './read.js'

/** Requests that a bucket item has counted since it exists. Other clients count none of them. */
export interface BucketCounts {
  /** Admitted, net. */
  readonly requests: number
  /** Refused by this bucket. */
  readonly refused: number
  /** Requests of this entity that only its parent's bucket refused. */
  readonly refusedByParent: number
  /** Epoch ms of the last refusal of either kind; 0: none. */
  readonly lastRefusedAtMs: number
}

const {refusals} = attributes

/** The counts of one bucket item; zeros where it has none. */
export function readBucketCounts(item: Item): BucketCounts {
  return {
    requests: readRequestCount(item) ?? 0,
    refused: readNumber(item, refusals.requests) ?? 0,
    refusedByParent: readNumber(item, refusals.byParent) ?? 0,
    lastRefusedAtMs: readNumber(item, refusals.lastAt) ?? 0,
  }
}
