import type {Item} from '../schema/attribute-value.js'
import {hasKey} from '../schema/keys.js'

/** One change of one item, as the table's stream tells it. The shape is the one in which Lambda hands it over. */
export interface StreamRecord {
  readonly eventID?: string | undefined
  readonly eventName: 'INSERT' | 'MODIFY' | 'REMOVE'
  /** Ends in the label of the stream: the instant at which it was enabled. */
  readonly eventSourceARN: string
  /** Who removed the item, when it was the service itself. */
  readonly userIdentity?: {readonly type: string; readonly principalId: string} | undefined
  readonly dynamodb: {
    /** Epoch seconds, possibly with a fraction. */
    readonly ApproximateCreationDateTime: number
    readonly Keys: Item
    readonly NewImage?: Item | undefined
    readonly OldImage?: Item | undefined
    readonly SequenceNumber: string
  }
}

export interface StreamEvent {
  readonly Records: readonly StreamRecord[]
}

/** Enough digits for every sequence number there is. */
const SEQUENCE_DIGITS = 40

/** Something in a record that no retry will mend. */
export class MalformedRecord extends Error {
  override readonly name = 'MalformedRecord'
}

/**
 * Where a record stands among all changes of its item: compares as text. The label comes first because the stream of
 * a table that was restored starts again with other numbers, at a later instant.
 */
export function positionOf({eventSourceARN, dynamodb}: StreamRecord): string {
  return `${streamLabel(eventSourceARN)}#${dynamodb.SequenceNumber.padStart(SEQUENCE_DIGITS, '0')}`
}

/** `arn:aws:dynamodb:…:table/name/stream/2026-01-01T00:00:00.000` → `2026-01-01T00:00:00.000`. */
export function streamLabel(arn: string): string {
  return arn.slice(arn.lastIndexOf('/') + 1)
}

/** Epoch milliseconds of the change itself. */
export function occurredAtMs({dynamodb}: StreamRecord): number {
  return Math.floor(dynamodb.ApproximateCreationDateTime * 1000)
}

/** Demands what every record has, so that the rest can rely on it. */
export function checkRecord(record: StreamRecord): void {
  const {eventSourceARN, dynamodb} = record
  if (!/^\d{1,40}$/.test(dynamodb?.SequenceNumber ?? '')) throw new MalformedRecord('it has no sequence number')
  if (!eventSourceARN) throw new MalformedRecord('it does not say which stream it comes from')
  if (!(dynamodb.ApproximateCreationDateTime > 0)) throw new MalformedRecord('it does not say when it happened')
  if (!hasKey(dynamodb.Keys)) throw new MalformedRecord('it has no keys')
}
