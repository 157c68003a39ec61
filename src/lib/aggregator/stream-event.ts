import * as z from 'zod/mini'
import type {Item} from '../schema/attribute-value.js'
import {hasKey} from '../schema/keys.js'

export interface StreamRecord {
  readonly eventID?: string | undefined
  readonly eventName: 'INSERT' | 'MODIFY' | 'REMOVE'
  /** Ends in the stream's label: the instant at which it was enabled. */
  readonly eventSourceARN: string
  /** Set if the service itself removed the item, as TTL does. */
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

/** At least the number of digits in the longest sequence number. */
const SEQUENCE_DIGITS = 40

export class MalformedRecord extends Error {
  override readonly name = 'MalformedRecord'
}

/** Sorts all changes of an item as text. The label comes first: a restored table starts a new, later stream. */
export function positionOf({eventSourceARN, dynamodb}: StreamRecord): string {
  return `${streamLabel(eventSourceARN)}#${dynamodb.SequenceNumber.padStart(SEQUENCE_DIGITS, '0')}`
}

/** `arn:aws:dynamodb:…:table/name/stream/2026-01-01T00:00:00.000` → `2026-01-01T00:00:00.000`. */
export function streamLabel(arn: string): string {
  return arn.slice(arn.lastIndexOf('/') + 1)
}

export function occurredAtMs({dynamodb}: StreamRecord): number {
  return Math.floor(dynamodb.ApproximateCreationDateTime * 1000)
}

/** Required fields. Tolerant readers decode the images. */
const recordSchema = z.looseObject({
  eventSourceARN: z.string('it does not name its stream').check(z.minLength(1, 'it does not name its stream')),
  dynamodb: z.looseObject(
    {
      SequenceNumber: z.string('it has no sequence number').check(z.regex(/^\d{1,40}$/, 'it has no sequence number')),
      ApproximateCreationDateTime: z.number('it has no time').check(z.positive('it has no time')),
      Keys: z.custom<Item>(value => hasKey(value as Item | undefined), 'it has no keys'),
    },
    'it describes no change',
  ),
})

/** Passes non-object records on as empty ones, so that they are counted as malformed. */
const eventSchema = z.looseObject({Records: z.array(z.catch(z.looseObject({}), {}))})

export function readEvent(event: unknown): StreamEvent {
  const {success, data} = eventSchema.safeParse(event)
  if (!success) throw new MalformedRecord('the event is not from a DynamoDB stream: it has no list of Records')
  return data as unknown as StreamEvent
}

export function checkRecord(record: StreamRecord): void {
  const {error} = recordSchema.safeParse(record)
  if (error) throw new MalformedRecord(error.issues.map(({message}) => message).join('; '))
}
