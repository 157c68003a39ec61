import type {RawRecord} from '../../dynamo/transports/stream.js'
import type {StreamEvent, StreamRecord} from '../stream-event.js'

/** What the stream's records are handed to; `failures` are the sequence numbers of those to deliver again. */
export type StreamHandler = (event: StreamEvent) => Promise<{readonly failures: readonly string[]}>

/** What became of a batch. */
export interface Delivery {
  /** The records up to the first one that failed; the rest has to be delivered again. */
  readonly taken: readonly RawRecord[]
  readonly failure: Error | undefined
}

/** Hands records of one shard to the handler. */
export async function deliver(
  handler: StreamHandler,
  streamArn: string,
  records: readonly RawRecord[],
): Promise<Delivery> {
  const failed = await failuresOf(handler, eventOf(streamArn, records))
  if (failed instanceof Error) return {taken: [], failure: failed}
  if (failed.size === 0) return {taken: records, failure: undefined}
  // A number that is not in the batch could stand for any record of it: then none counts as taken.
  const known = records.filter(record => failed.has(record.dynamodb.SequenceNumber))
  const [first] = known
  const taken = first && known.length === failed.size ? records.slice(0, records.indexOf(first)) : []
  const numbers = [...failed].slice(0, 5).join(', ')
  return {taken, failure: new Error(`${failed.size} of ${records.length} records failed, among them ${numbers}`)}
}

async function failuresOf(handler: StreamHandler, event: StreamEvent): Promise<ReadonlySet<string> | Error> {
  try {
    return new Set((await handler(event)).failures)
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

/** Records as Lambda hands them over, which adds the stream's name to each. */
function eventOf(streamArn: string, records: readonly RawRecord[]): StreamEvent {
  return {Records: records.map(record => ({...record, eventSourceARN: streamArn}) as StreamRecord)}
}
