import {strictObject, z} from 'zod'
import {limitKindShape, listOf, quotaLevelShape, type ResultOf, textOrNull} from '../cli/output/results.js'

const watchedBucketSchema = strictObject({
  entity: z.string(),
  resource: z.string(),
  status: z
    .enum(['ok', 'overdrawn', 'near', 'over', 'disabled', 'gone'])
    .describe('disabled: a switch refuses every request'),
  refusedBy: z
    .enum(['entity', 'parent'])
    .nullable()
    .describe('Where the status is over: whether its own limits refuse, or only those of its parent.'),
  limit: textOrNull.describe('The limit that is worst off; rate and times are about it.'),
  ratePerSecond: z.number().nullable().describe('Tokens consumed per second, net; null until it was read twice.'),
  refusedPerSecond: z
    .number()
    .nullable()
    .describe(
      'Requests refused per second in the last ten seconds, by itself or by its parent; null until it was read twice.',
    ),
  refused: strictObject({
    requests: z.number().describe('By its own limits, since the bucket exists; of a parent, those of its children too'),
    byParent: z.number().describe('By its parent alone'),
    lastAt: textOrNull.describe('UTC, ISO 8601; null when there is none'),
  }).describe('Requests that limiters of zael refused.'),
  emptyInMs: z.number().nullable(),
  fullInMs: z.number().nullable(),
  shardCount: z.int(),
  imbalance: z.number().describe("Difference of the fullest and the emptiest shard, as part of a shard's share."),
  writePressure: z
    .number()
    .describe('Of the 1,000 write units per second that an item takes, the part in use on the busiest shard.'),
  ageMs: z.number().describe('Time since it was read.'),
  limits: listOf({
    name: z.string(),
    level: z.number().describe('Tokens at that instant; below zero in debt.'),
    capacity: z.number(),
    debt: z.number(),
    refillPerSecond: z.number(),
    ...quotaLevelShape,
    ratePerSecond: z
      .number()
      .nullable()
      .describe('Tokens consumed per second, net; null until the bucket was read twice.'),
    typical: z.int().min(1).describe('Tokens that the average request takes, by what the bucket has counted.'),
    unit: limitKindShape.unit,
  }).describe('All shards together.'),
}).meta({id: 'WatchedBucket'})
export type WatchedBucketJson = ResultOf<typeof watchedBucketSchema>

export const watchResult = strictObject({
  at: z.string().describe('The instant for which all levels are computed; server time.'),
  poll: z.int().min(1).describe('Number of the last poll that went well.'),
  readUnits: z.number().describe('Read units of that poll, as reported by DynamoDB; with --once, the total.'),
  calls: z.int(),
  durationMs: z.number(),
  dataAgeMs: z.number().describe('Time since the last poll that went well.'),
  known: strictObject({
    count: z.int(),
    isComplete: z.boolean().describe('The index was walked to its end at least once.'),
    unreadable: z
      .int()
      .describe('Additional buckets that have only items without a state; they are not included in any other number.'),
  }),
  bucketsRead: z.int().describe('Buckets that the last poll read.'),
  bucketsWatched: z.int().describe('Buckets that have been read, regardless of --filter.'),
  sampled: z.boolean().describe('The last poll did not read all buckets, or not all are known yet.'),
  oldestAgeMs: z.number().nullable().describe('Age of the oldest reading among these buckets.'),
  problem: strictObject({
    message: z.string(),
    throttled: z.boolean(),
    since: z.string(),
  })
    .nullable()
    .describe('Why the latest poll failed; everything else is as of the last one that went well.'),
  totals: strictObject({
    buckets: z.int(),
    over: z
      .int()
      .describe(
        'Buckets whose average request does not fit now, there or at the parent, or that have just refused one.',
      ),
    near: z.int().describe('Buckets with a limit below a fifth, or empty within a minute at this rate.'),
    overdrawn: z
      .int()
      .describe('Of the others, buckets with a soft limit that has too little left for the average request.'),
    disabled: z.int().describe('Buckets for which a switch refuses every request.'),
    inDebt: z.int(),
    shards: z.int(),
    refusedPerSecond: z.number().describe('Requests; one that a parent refused counts once.'),
    ratePerSecond: z
      .record(z.string(), z.number())
      .describe('Tokens per second by limit name; what parents are charged counts there too.'),
  }),
  rateLimit: textOrNull.describe(
    'With --sort rate, the limit by whose rate all buckets are sorted: the one with the highest total consumption. Otherwise, and while no rate is known, null.',
  ),
  worst: watchedBucketSchema.nullable(),
  buckets: z
    .array(watchedBucketSchema)
    .describe('By --sort, at most --top; without it all with --once, and 10 in a stream.'),
}).meta({title: 'zael watch'})
export type WatchResult = ResultOf<typeof watchResult>
