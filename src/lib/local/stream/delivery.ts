import type {StreamEvent, StreamRecord} from '../../aggregator/stream-event.js'
import type {RawRecord} from '../../dynamo/transports/stream.js'

/** Processes records of a stream; `failures` are the sequence numbers of those to deliver again. */
export type StreamHandler = (event: StreamEvent) => Promise<{readonly failures: readonly string[]}>

export interface Delivery {
  /** The records before the first one that failed; the rest must be delivered again. */
  readonly delivered: readonly RawRecord[]
  readonly failure: Error | undefined
}

export async function deliver(
  handler: StreamHandler,
  streamArn: string,
  records: readonly RawRecord[],
): Promise<Delivery> {
  const failed = await failuresOf(handler, eventOf(streamArn, records))
  if (failed instanceof Error) return {delivered: [], failure: failed}
  if (failed.size === 0) return {delivered: records, failure: undefined}
  // A number that is not in the batch could stand for any of its records: then none counts as delivered.
  const known = records.filter(record => failed.has(record.dynamodb.SequenceNumber))
  const [first] = known
  const delivered = first && known.length === failed.size ? records.slice(0, records.indexOf(first)) : []
  const numbers = [...failed].slice(0, 5).join(', ')
  return {delivered, failure: new Error(`${failed.size} of ${records.length} records failed, among them ${numbers}`)}
}

async function failuresOf(handler: StreamHandler, event: StreamEvent): Promise<ReadonlySet<string> | Error> {
  try {
    return new Set((await handler(event)).failures)
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

/** Records as Lambda passes them: with the stream's ARN in each. */
function eventOf(streamArn: string, records: readonly RawRecord[]): StreamEvent {
  return {Records: records.map(record => ({...record, eventSourceARN: streamArn}) as StreamRecord)}
}
