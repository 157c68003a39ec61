import * as z from 'zod'
import {strictObject} from 'zod'
import {count, type ResultOf, textOrNull} from '../output/results.js'

const letterSchema = strictObject({
  id: z.string().describe('Id of the message'),
  streamArn: textOrNull.describe('Null: not a Lambda message about a stream'),
  shard: textOrNull,
  firstSequence: textOrNull,
  lastSequence: textOrNull,
  records: count.nullable().describe('Records of the last attempt'),
  firstAt: textOrNull.describe('Write time of the first record, UTC, ISO 8601'),
  lastAt: textOrNull.describe('Write time of the last record'),
  reason: textOrNull.describe('Reason reported by Lambda'),
  attempts: count.nullable(),
  givenUpAt: textOrNull,
  inStreamUntil: textOrNull.describe('Time when the first record leaves the stream: 24 hours after its write'),
}).meta({id: 'DeadLetter'})
export type DeadLetterJson = ResultOf<typeof letterSchema>

export const aggregatorDeadLettersResult = strictObject({
  stack: z.string(),
  queue: textOrNull.describe('Null on a local stack'),
  letters: z.array(letterSchema).describe('In stream order'),
  total: count.describe('Messages in the queue, approximately'),
  next: z.null().describe('A queue has no pages; --all shows all messages'),
}).meta({title: 'zael aggregator dead-letters'})
export type AggregatorDeadLettersResult = ResultOf<typeof aggregatorDeadLettersResult>

const windowSchema = strictObject({
  namespace: textOrNull.describe('Id of the namespace; null: may affect every entity of the table'),
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
        'undecided: some windows may already include the records; lost: the records left the stream; failed: run again',
      ),
    readAgain: count.describe('Records read from the stream again'),
    updated: count.describe('Updated usage records'),
    windows: z.array(windowSchema).describe('Windows that may lack consumption: undecided or lost'),
    putBack: count.describe('Audit events restored to the table, to be archived'),
    uncounted: count.describe('Records that can never be counted'),
    error: textOrNull,
    deleted: z.boolean().describe('Whether the message was deleted'),
  })
  .meta({id: 'RedrivenLetter'})
export type RedrivenLetterJson = ResultOf<typeof redrivenSchema>

export const aggregatorRedriveResult = strictObject({
  stack: z.string(),
  queue: textOrNull.describe('Null on a local stack'),
  letters: z.array(redrivenSchema),
  complete: z.boolean().describe('Whether every message was counted'),
}).meta({title: 'zael aggregator redrive'})
export type AggregatorRedriveResult = ResultOf<typeof aggregatorRedriveResult>
