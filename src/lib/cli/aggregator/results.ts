import {strictObject, z} from 'zod'
import {count, type ResultOf, textOrNull} from '../output/results.js'

const letterSchema = strictObject({
  id: z.string().describe('Id of the message'),
  streamArn: textOrNull.describe('Null when the message is not one of Lambda about a stream'),
  shard: textOrNull,
  firstSequence: textOrNull,
  lastSequence: textOrNull,
  records: count.nullable().describe('Records of the last attempt'),
  firstAt: textOrNull.describe('When the first record was written, UTC, ISO 8601'),
  lastAt: textOrNull.describe('When the last record was written'),
  reason: textOrNull.describe('Why Lambda gave up, in its words'),
  attempts: count.nullable(),
  givenUpAt: textOrNull,
  inStreamUntil: textOrNull.describe('When the first record leaves the stream, 24 hours after it was written'),
}).meta({id: 'DeadLetter'})
export type DeadLetterJson = ResultOf<typeof letterSchema>

export const aggregatorDeadLettersResult = strictObject({
  stack: z.string(),
  queue: textOrNull.describe('Null on a local stack, which has none'),
  letters: z.array(letterSchema).describe('In the order of the stream'),
  total: count.describe('Messages in the queue, approximately'),
  next: z.null().describe('A queue has no pages; --all shows all messages'),
}).meta({title: 'zael aggregator dead-letters'})
export type AggregatorDeadLettersResult = ResultOf<typeof aggregatorDeadLettersResult>

const windowSchema = strictObject({
  namespace: textOrNull.describe('Id of the namespace; null: every entity of the table may be concerned'),
  entity: textOrNull,
  resource: textOrNull,
  window: z.enum(['hourly', 'daily', 'monthly']),
  start: z.string(),
})

const redrivenSchema = letterSchema
  .extend({
    state: z
      .enum(['counted', 'undecided', 'lost', 'failed', 'unreadable'])
      .describe(
        'counted: all is in the usage; undecided: some windows do not tell; lost: it has left the stream; failed: run again',
      ),
    readAgain: count.describe('Records read from the stream again'),
    updated: count.describe('Usage records that now hold what they lacked'),
    windows: z.array(windowSchema).describe('Windows that may lack something: undecided or lost'),
    putBack: count.describe('Audit events that are in the table again, to expire and be archived'),
    uncounted: count.describe('Records that can never be counted'),
    error: textOrNull,
    deleted: z.boolean().describe('Whether the message was deleted'),
  })
  .meta({id: 'RedrivenLetter'})
export type RedrivenLetterJson = ResultOf<typeof redrivenSchema>

export const aggregatorRedriveResult = strictObject({
  stack: z.string(),
  queue: textOrNull.describe('Null on a local stack, which has none'),
  letters: z.array(redrivenSchema),
  complete: z.boolean().describe('Whether every message is counted'),
}).meta({title: 'zael aggregator redrive'})
export type AggregatorRedriveResult = ResultOf<typeof aggregatorRedriveResult>
