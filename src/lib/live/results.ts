import * as z from 'zod'
import {strictObject} from 'zod'
import {limitKindShape, listOf, quotaLevelShape, type ResultOf, textOrNull} from '../cli/output/results.js'

const watchedBucketSchema = strictObject({
  entity: z.string(),
  resource: z.string(),
  status: z
    .enum(['ok', 'overdrawn', 'near', 'over', 'disabled', 'gone'])
    .describe('disabled: a switch refuses every request'),
  refusedBy: z
    .enum(['entity', 'parent', 'provider'])
    .nullable()
    .describe('If the status is over: whether its own limits refuse requests, or only its parent or a shared scope'),
  limit: textOrNull.describe('The tightest limit; rate and times refer to it'),
  ratePerSecond: z.number().nullable().describe('Tokens consumed per second, net; null until the second reading'),
  refusedPerSecond: z
    .number()
    .nullable()
    .describe(
      'Requests refused per second in the last ten seconds, by its own limits, its parent or a shared scope; null until the second reading',
    ),
  refused: strictObject({
    requests: z
      .number()
      .describe(
        'Refused by its own limits since the bucket was created; for a parent, including requests of its children',
      ),
    byParent: z.number().describe('Refused only by its parent'),
    byProvider: listOf({
      entity: z.string(),
      resource: z.string(),
      requests: z.number(),
    })
      .optional()
      .describe('Refused only by shared scopes, most first; absent without any'),
    lastAt: textOrNull.describe('Last refusal: UTC, ISO 8601; null if there was none'),
  }).describe('Requests that zael refused'),
  emptyInMs: z.number().nullable(),
  fullInMs: z.number().nullable(),
  shardCount: z.int(),
  imbalance: z
    .number()
    .describe("Difference between the fullest and the emptiest shard, as a fraction of a shard's capacity."),
  writePressure: z
    .number()
    .describe('Fraction of the 1,000 write units per second that an item allows, on the busiest shard'),
  ageMs: z.number().describe('Time since it was read'),
  limits: listOf({
    name: z.string(),
    level: z.number().describe('Tokens at that instant; negative in debt. Free slots of an in-flight limit.'),
    capacity: z.number(),
    debt: z.number(),
    refillPerSecond: z.number(),
    ...quotaLevelShape,
    inFlight: z
      .literal(true)
      .optional()
      .describe('Only for in-flight limits, which have slots: capacity - level are in use'),
    ratePerSecond: z
      .number()
      .nullable()
      .describe('Tokens consumed per second, net; null until the second reading, and for in-flight limits'),
    typical: z
      .int()
      .min(1)
      .describe(
        'Tokens of the average request, by the counters of the bucket; per write if only clients that count no requests have written; 1 if unknown',
      ),
    unit: limitKindShape.unit,
  }).describe('All shards together'),
}).meta({id: 'WatchedBucket'})
export type WatchedBucketJson = ResultOf<typeof watchedBucketSchema>

export const watchResult = strictObject({
  at: z.string().describe('The instant for which all levels are computed; server time'),
  poll: z.int().min(1).describe('Number of the last successful poll'),
  readUnits: z.number().describe('Read units of that poll, as reported by DynamoDB; with --once, the total'),
  calls: z.int(),
  durationMs: z.number(),
  dataAgeMs: z.number().describe('Time since the last successful poll'),
  known: strictObject({
    count: z.int(),
    isComplete: z.boolean().describe('The index was read to its end at least once'),
    unreadable: z.int().describe('Additional buckets whose items have no state; not included in any other number'),
  }),
  bucketsRead: z.int().describe('Buckets that the last poll read'),
  bucketsWatched: z.int().describe('Buckets that have been read, regardless of --filter'),
  sampled: z.boolean().describe('The last poll did not read all buckets, or not all are known yet'),
  usedFirst: strictObject({
    since: z.string().describe('Start of the first hour, UTC'),
    complete: z.boolean().describe('All of them were read'),
  })
    .nullable()
    .describe('With --once, if not all buckets were read: those with usage recorded since this hour were read first'),
  oldestAgeMs: z.number().nullable().describe('Age of the oldest reading among these buckets'),
  problem: strictObject({
    message: z.string(),
    throttled: z.boolean(),
    since: z.string(),
  })
    .nullable()
    .describe('Why the latest poll failed; all other fields are from the last successful poll'),
  totals: strictObject({
    buckets: z.int(),
    over: z
      .int()
      .describe(
        'Buckets whose average request does not fit now, there or at the parent, or that have just refused one',
      ),
    near: z.int().describe('Buckets with a limit below a fifth, or empty within a minute at this rate'),
    overdrawn: z
      .int()
      .describe('Of the others, buckets with a soft limit that has too little left for the average request'),
    disabled: z.int().describe('Buckets for which a switch refuses every request'),
    inDebt: z.int(),
    shards: z.int(),
    refusedPerSecond: z.number().describe('Requests; one that a parent or a shared scope refused counts once'),
    ratePerSecond: z
      .record(z.string(), z.number())
      .describe('Tokens per second by limit name; includes the charges of parents'),
  }),
  rateLimit: textOrNull.describe(
    'With --sort rate, the limit by whose rate all buckets are sorted: the one with the highest total consumption. Otherwise, and while no rate is known, null.',
  ),
  worst: watchedBucketSchema.nullable(),
  buckets: z
    .array(watchedBucketSchema)
    .describe('By --sort, at most --top; without it all with --once, and 10 in a stream'),
}).meta({title: 'zael watch'})
export type WatchResult = ResultOf<typeof watchResult>
