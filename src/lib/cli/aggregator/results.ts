import {z} from 'zod'
import type {ResultOf} from '../output/results.js'

const count = z.int().min(0)

const letterSchema = z
  .strictObject({
    id: z.string().describe('Id of the message'),
    streamArn: z.string().nullable().describe('Null when the message is not one of Lambda about a stream'),
    shard: z.string().nullable(),
    firstSequence: z.string().nullable(),
    lastSequence: z.string().nullable(),
    records: count.nullable().describe('Records of the last attempt'),
    firstAt: z.string().nullable().describe('When the first record was written, UTC, ISO 8601'),
    lastAt: z.string().nullable().describe('When the last record was written'),
    reason: z.string().nullable().describe('Why Lambda gave up, in its words'),
    attempts: count.nullable(),
    givenUpAt: z.string().nullable(),
    inStreamUntil: z
      .string()
      .nullable()
      .describe('When the first record leaves the stream, 24 hours after it was written'),
  })
  .meta({id: 'DeadLetter'})
export type DeadLetterJson = ResultOf<typeof letterSchema>

export const aggregatorDeadLettersResult = z
  .strictObject({
    stack: z.string(),
    queue: z.string().nullable().describe('Null on a local stack, which has none'),
    letters: z.array(letterSchema).describe('In the order of the stream'),
    total: count.describe('Messages in the queue, approximately'),
    next: z.null().describe('A queue has no pages; --all shows all messages'),
  })
  .meta({title: 'zael aggregator dead-letters'})
export type AggregatorDeadLettersResult = ResultOf<typeof aggregatorDeadLettersResult>

const windowSchema = z.strictObject({
  namespace: z.string().nullable().describe('Id of the namespace; null: every entity of the table may be concerned'),
  entity: z.string().nullable(),
  resource: z.string().nullable(),
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
    error: z.string().nullable(),
    deleted: z.boolean().describe('Whether the message was deleted'),
  })
  .meta({id: 'RedrivenLetter'})
export type RedrivenLetterJson = ResultOf<typeof redrivenSchema>

export const aggregatorRedriveResult = z
  .strictObject({
    stack: z.string(),
    queue: z.string().nullable().describe('Null on a local stack, which has none'),
    letters: z.array(redrivenSchema),
    complete: z.boolean().describe('Whether every message is counted'),
  })
  .meta({title: 'zael aggregator redrive'})
export type AggregatorRedriveResult = ResultOf<typeof aggregatorRedriveResult>
